//! Manifest of the artefacts and their inputs: `prebuilt/MANIFEST.toml`.
//!
//! All paths are relative to the parent of the manifest's folder, `examples/guests`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const HEAD: &str = "\
# Inputs of the prebuilt guests. Written by examples/guests/build.sh; examples/tests/guests.rs fails if a file listed
# here has changed and its artefact was not rebuilt.

";

/// Folders with the output of build tools, which are not inputs.
const LEFT_BEHIND: [&str; 2] = ["target", "node_modules"];

#[derive(Default, Deserialize, Serialize)]
struct Manifest {
    artefact: BTreeMap<String, Artefact>,
}

#[derive(Deserialize, Serialize)]
struct Artefact {
    bytes: u64,
    sha256: String,
    command: String,
    tools: String,
    /// SHA-256 of each input file, by its path.
    inputs: BTreeMap<String, String>,
}

/// Adds or replaces the entry of one artefact.
pub fn record(manifest: &Path, artefact: &str, command: &str, tools: &str, inputs: &[&str]) -> Result<()> {
    let root =
        manifest.parent().and_then(Path::parent).context("the manifest is not in a folder below the guests' folder")?;
    let text = fs::read_to_string(manifest).unwrap_or_default();
    let mut all: Manifest = toml::from_str(&text).unwrap_or_default();

    let mut files = Vec::new();
    for input in inputs {
        collect(root, Path::new(input), &mut files)?;
    }
    let inputs = files.iter().map(|file| Ok((file.to_string_lossy().into_owned(), sha256(&root.join(file))?)));
    let bytes = fs::metadata(root.join(artefact)).with_context(|| format!("cannot read {artefact}"))?.len();
    let entry = Artefact {
        bytes,
        sha256: sha256(&root.join(artefact))?,
        command: command.to_owned(),
        tools: tools.to_owned(),
        inputs: inputs.collect::<Result<_>>()?,
    };
    all.artefact.insert(artefact.to_owned(), entry);

    // Drop the entries of artefacts that no longer exist.
    all.artefact.retain(|path, _| root.join(path).exists());
    fs::write(manifest, format!("{HEAD}{}", toml::to_string(&all)?))?;
    println!("{artefact}: {bytes} bytes");
    Ok(())
}

fn collect(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let place = root.join(path);
    if !place.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(place)? {
        let name = entry?.file_name();
        if !LEFT_BEHIND.iter().any(|folder| name == *folder) {
            collect(root, &path.join(name), files)?;
        }
    }
    Ok(())
}

fn sha256(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}
