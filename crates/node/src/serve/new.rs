//! `rusm new` creates a project, and `rusm build` builds it.
//!
//! ```text
//!   rusm new --http rust shop ─▶ shop/{Cargo.toml, src/lib.rs, rusm.toml, .gitignore}
//!   rusm build ─▶ cargo ─▶ target/wasm32-wasip2/release/shop.wasm ◀─ rusm serve
//! ```

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::bench::output::print;
use crate::cli::{BuildFlags, NewFlags};
use crate::failure::{Failure, system};

/// The target of components of WASI 0.2.
const TRIPLE: &str = "wasm32-wasip2";

/// The program that a project starts with, which is also an example that tests run.
const PROGRAM: &str = include_str!("../../../../examples/guests/wasi/hello/src/lib.rs");

/// Creates a project, and prints the next steps.
pub(crate) fn create(flags: &NewFlags) -> Result<u8, Failure> {
    if flags.http != "rust" {
        let language = &flags.http;
        return Err(Failure::Usage(format!("--http of {language:?} must be rust: it is the only language so far")));
    }
    let folder = flags.path.as_path();
    let name = folder.file_name().and_then(|name| name.to_str()).filter(|name| is_crate_name(name));
    let Some(name) = name else {
        let shown = folder.display();
        return Err(Failure::Usage(format!(
            "the last part of {shown:?} must start with a letter and have only letters, digits, - and _"
        )));
    };
    if folder.exists() {
        return Err(Failure::Usage(format!("{} exists already: choose another folder", folder.display())));
    }
    let module = name.replace('-', "_");
    fs::create_dir_all(folder.join("src")).map_err(system(format!("create {}", folder.display())))?;
    for (file, text) in [
        ("Cargo.toml", manifest(name)),
        ("src/lib.rs", PROGRAM.to_owned()),
        ("rusm.toml", settings(&module)),
        (".gitignore", "/target\n".to_owned()),
    ] {
        let path = folder.join(file);
        fs::write(&path, text).map_err(system(format!("write {}", path.display())))?;
    }
    print(&format!(
        "created {0}\n  cd {0}\n  rusm build             # needs Rust, and: rustup target add {TRIPLE}\n  rusm serve --watch     \
         # http://127.0.0.1:8080",
        folder.display()
    ))?;
    Ok(0)
}

/// Builds the project in a folder with cargo, and returns cargo's exit code.
pub(crate) fn build(flags: &BuildFlags) -> Result<u8, Failure> {
    let folder = flags.path.as_deref().unwrap_or_else(|| Path::new("."));
    if !folder.join("Cargo.toml").is_file() {
        return Err(Failure::Usage(format!("{} has no Cargo.toml: create a project with rusm new", folder.display())));
    }
    let mut cargo = Command::new("cargo");
    let status = cargo.args(["build", "--release", "--target", TRIPLE]).current_dir(folder).status();
    let status = status.map_err(system("run cargo, which builds components"))?;
    if !status.success() {
        return Err(Failure::Usage(format!(
            "cargo has failed: if it misses the target, run rustup target add {TRIPLE}"
        )));
    }
    Ok(0)
}

fn is_crate_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
}

fn manifest(name: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\nwasip2 = \"1.0.4\"\n\n# A component is loaded more often than it is built.\n[profile.release]\n\
         opt-level = \"s\"\nlto = true\ncodegen-units = 1\npanic = \"abort\"\nstrip = \"debuginfo\"\n"
    )
}

fn settings(module: &str) -> String {
    format!(
        "[[serve]]\nlisten = \"127.0.0.1:8080\"\n\n[[serve.route]]\npattern = \"/*\"\nmodule = \
         \"target/{TRIPLE}/release/{module}.wasm\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_cargo_accepts() {
        assert!(["shop", "my-shop_2"].into_iter().all(is_crate_name));
        assert!(["", "2shop", "a b", "..", "é"].into_iter().all(|name| !is_crate_name(name)));
    }
}
