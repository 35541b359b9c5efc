//! What each artefact was made of: `prebuilt/MANIFEST.toml`.
//!
//! All paths are seen from the folder of the manifest's folder, so from `examples/guests`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const HEAD: &str = "\
# What the prebuilt guests were made of. Written by examples/guests/build.sh; examples/tests/guests.rs fails when a file
# here has changed and its artefact was not built again.

";

/// Folders that hold what tools leave behind.
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
    /// The sha256 of each file that it was made of.
    inputs: BTreeMap<String, String>,
}

/// Writes down one artefact.
pub fn record(manifest: &Path, artefact: &str, command: &str, tools: &str, inputs: &[&str]) -> Result<()> {
    let root =
        manifest.parent().and_then(Path::parent).context("the manifest lies in a folder of the guests' folder")?;
    let text = fs::read_to_string(manifest).unwrap_or_default();
    let mut all: Manifest = toml::from_str(&text).unwrap_or_default();

    let mut files = Vec::new();
    for input in inputs {
        collect(root, Path::new(input), &mut files)?;
    }
    let inputs = files.iter().map(|file| Ok((file.to_string_lossy().into_owned(), sha256(&root.join(file))?)));
    let bytes = fs::metadata(root.join(artefact)).with_context(|| format!("there is no {artefact}"))?.len();
    let entry = Artefact {
        bytes,
        sha256: sha256(&root.join(artefact))?,
        command: command.to_owned(),
        tools: tools.to_owned(),
        inputs: inputs.collect::<Result<_>>()?,
    };
    all.artefact.insert(artefact.to_owned(), entry);

    // An artefact that is gone has no place in the list.
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
