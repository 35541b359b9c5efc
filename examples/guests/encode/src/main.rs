//! Converts core modules into components, and records the inputs of each artefact in a manifest.
//!
//! ```text
//!   encode component IN.wasm OUT.wasm               for a module in which its world is embedded (Rust)
//!   encode component IN.wasm OUT.wasm WIT WORLD...  for other modules (C): pairs of a WIT folder or file and a world
//!   encode text IN.wat OUT.wasm
//!   encode record MANIFEST ARTEFACT COMMAND TOOLS INPUT...   a folder stands for all files in it
//! ```

mod manifest;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wit_component::{ComponentEncoder, StringEncoding};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["component", source, target, ref worlds @ ..] if worlds.len().is_multiple_of(2) => {
            write(target, &component(read(source)?, worlds)?)
        }
        ["text", source, target] => write(target, &wat::parse_file(source)?),
        ["record", manifest, artefact, command, tools, ref inputs @ ..] => {
            manifest::record(Path::new(manifest), artefact, command, tools, inputs)
        }
        _ => bail!("the arguments are not valid: see the head of encode/src/main.rs"),
    }
}

fn component(mut module: Vec<u8>, worlds: &[&str]) -> Result<Vec<u8>> {
    for pair in worlds.chunks_exact(2) {
        let mut resolve = wit_parser::Resolve::default();
        let package = resolve.push_path(pair[0])?.0;
        let world = resolve.select_world(&[package], Some(pair[1]))?;
        wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    }
    ComponentEncoder::default().module(&module)?.validate(true).encode()
}

fn read(path: &str) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {path}"))
}

fn write(path: &str, bytes: &[u8]) -> Result<()> {
    let path = Path::new(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
