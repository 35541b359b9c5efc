//! Checks that the prebuilt guests are up to date with their sources, by `examples/guests/prebuilt/MANIFEST.toml`.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Hashes of an artefact and of its inputs.
#[derive(Debug)]
struct Artefact {
    sha256: String,
    inputs: BTreeMap<String, String>,
}

fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests")
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Returns the artefacts of a manifest, by their paths.
fn artefacts(manifest: &str) -> BTreeMap<String, Artefact> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let all = manifest["artefact"].as_table().unwrap().iter();
    all.map(|(path, entry)| {
        let inputs = entry["inputs"].as_table().unwrap();
        let inputs = inputs.iter().map(|(path, sum)| (path.clone(), text(sum))).collect();
        (path.clone(), Artefact { sha256: text(&entry["sha256"]), inputs })
    })
    .collect()
}

/// Returns the faults of an artefact; paths are relative to `root`.
fn faults(root: &Path, path: &str, artefact: &Artefact) -> Vec<String> {
    let differs = |(file, sum): (&String, &String)| match fs::read(root.join(file)) {
        Ok(bytes) if sha256(&bytes) == *sum => None,
        Ok(_) if file == path => Some(format!("{path} is not what the manifest says")),
        Ok(_) => Some(format!("{path} is older than {file}")),
        Err(error) => Some(format!("{path}: {file}: {error}")),
    };
    let own = [(path.to_owned(), artefact.sha256.clone())];
    own.iter().map(|(path, sum)| (path, sum)).chain(&artefact.inputs).filter_map(differs).collect()
}

/// Collects the files in a folder and its subfolders, as paths relative to `root`.
fn files(root: &Path, folder: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if !entry.file_type().unwrap().is_dir() {
            found.insert(path);
        } else if !["target", "node_modules"].contains(&entry.file_name().to_str().unwrap()) {
            files(root, &path, found);
        }
    }
}

#[test]
fn every_prebuilt_guest_is_as_new_as_its_sources() {
    let artefacts = artefacts(&fs::read_to_string(guests().join("prebuilt/MANIFEST.toml")).unwrap());

    let faults: Vec<String> = artefacts.iter().flat_map(|(path, artefact)| faults(&guests(), path, artefact)).collect();

    assert!(artefacts.len() > 10, "only {} artefacts", artefacts.len());
    assert!(faults.is_empty(), "run examples/guests/build.sh:\n{}", faults.join("\n"));
}

#[test]
fn every_source_and_every_artefact_is_in_the_manifest() {
    let artefacts = artefacts(&fs::read_to_string(guests().join("prebuilt/MANIFEST.toml")).unwrap());
    let known: BTreeSet<&String> = artefacts.iter().flat_map(|(path, made)| made.inputs.keys().chain([path])).collect();

    let mut found = BTreeSet::new();
    for folder in ["rust", "c", "ts", "wat", "wasi", "prebuilt", "../../sdk/rust/src", "../../sdk/c", "../../sdk/ts"] {
        files(&guests(), folder, &mut found);
    }
    found.remove("prebuilt/MANIFEST.toml");
    found.retain(|file| !file.ends_with("/README.md"));

    let unknown: Vec<&String> = found.iter().filter(|file| !known.contains(file)).collect();
    assert!(unknown.is_empty(), "neither inputs nor artefacts of the manifest: {unknown:?}");
}

#[test]
fn a_source_that_changed_without_its_artefact_is_seen() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("hello.c"), "new").unwrap();
    fs::write(root.path().join("hello.wasm"), "made of old").unwrap();
    let entry = format!("sha256 = {:?}\ninputs = {{ \"hello.c\" = {:?} }}", sha256(b"made of old"), sha256(b"old"));
    let planted = artefacts(&format!("[artefact.\"hello.wasm\"]\n{entry}\n"));

    let old = faults(root.path(), "hello.wasm", &planted["hello.wasm"]);
    fs::write(root.path().join("hello.c"), "old").unwrap();
    let same = faults(root.path(), "hello.wasm", &planted["hello.wasm"]);
    fs::write(root.path().join("hello.wasm"), "another").unwrap();
    let other = faults(root.path(), "hello.wasm", &planted["hello.wasm"]);

    assert_eq!(old, ["hello.wasm is older than hello.c"]);
    assert_eq!(same, [""; 0]);
    assert_eq!(other, ["hello.wasm is not what the manifest says"]);
}
