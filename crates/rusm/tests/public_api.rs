//! The public names of the libraries, held by a list: a name that is removed or renamed breaks programs.
//!
//! The list is read from the sources: the items and re-exports of each crate's root and of its public modules. After a
//! change that is meant, `UPDATE_PUBLIC_API=1 cargo test -p rusm --test public_api` writes the list, whose diff is part of
//! the review. `docs/policy.md` says which changes need which version.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates whose names an application uses, with the name under which it finds them.
const CRATES: [(&str, &str); 8] = [
    ("rusm", "rusm"),
    ("runtime", "rusm"),
    ("console", "rusm::console"),
    ("store", "rusm::store"),
    ("serve", "rusm::serve"),
    ("wasm", "rusm::wasm"),
    ("cluster", "rusm::cluster"),
    ("otlp", "rusm::otlp"),
];

/// Words that begin a public item with a name.
const ITEMS: [&str; 9] = ["struct", "enum", "trait", "fn", "const", "static", "type", "union", "macro"];

#[test]
fn the_public_names_are_those_of_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut names = BTreeSet::new();
    for (folder, prefix) in CRATES {
        collect(&root.join(folder).join("src"), Path::new("lib.rs"), prefix, &mut names);
    }
    let found: String = names.iter().flat_map(|name| [name, "\n"]).collect();
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/public-api.txt");
    if std::env::var_os("UPDATE_PUBLIC_API").is_some() {
        fs::write(&list, &found).unwrap();
    }
    let expected = fs::read_to_string(&list).unwrap_or_default();
    let expected: BTreeSet<&str> = expected.lines().collect();
    let found: BTreeSet<&str> = found.lines().collect();
    let removed: Vec<_> = expected.difference(&found).collect();
    let added: Vec<_> = found.difference(&expected).collect();
    assert!(
        removed.is_empty() && added.is_empty(),
        "removed: {removed:#?}\nadded: {added:#?}\nif this is meant: UPDATE_PUBLIC_API=1 cargo test -p rusm --test public_api"
    );
    assert!(found.len() > 300, "the sources were read");
}

/// Adds the public names of a file, and of the public modules that it declares.
fn collect(src: &Path, file: &Path, prefix: &str, names: &mut BTreeSet<String>) {
    let text = fs::read_to_string(src.join(file)).unwrap();
    // Module of `file`, as a folder.
    let folder = if file == Path::new("lib.rs") { PathBuf::new() } else { file.with_extension("") };
    let mut is_hidden = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "#[doc(hidden)]" {
            is_hidden = true;
            continue;
        }
        let Some(item) = line.strip_prefix("pub ") else {
            is_hidden &= line.starts_with('#') || line.starts_with("///");
            continue;
        };
        if std::mem::take(&mut is_hidden) {
            continue;
        }
        if let Some(used) = item.strip_prefix("use ") {
            let mut used = used.to_owned();
            while !used.ends_with(';') {
                used.push_str(lines.next().unwrap().trim());
            }
            for name in exported(used.trim_end_matches(';')) {
                let module = src.join(folder.join(&name)).with_extension("rs");
                names.insert(format!("{prefix}::{name}"));
                // A module that is re-exported from a private one, such as `supervision::actor`.
                let path = used.split("::").next().unwrap();
                let inner = PathBuf::from(path).join(&name).with_extension("rs");
                if !module.exists() && src.join(&inner).exists() && folder.as_os_str().is_empty() {
                    collect(src, &inner, &format!("{prefix}::{name}"), names);
                }
            }
        } else if let Some(module) = item.strip_prefix("mod ") {
            let name = module.trim_end_matches([';', ' ', '{']);
            names.insert(format!("{prefix}::{name}"));
            let inner = folder.join(name).with_extension("rs");
            if src.join(&inner).exists() {
                collect(src, &inner, &format!("{prefix}::{name}"), names);
            }
        } else {
            let mut words = item.split_whitespace().skip_while(|word| ["async", "unsafe", "extern"].contains(word));
            let mut kind = words.next().unwrap_or_default();
            let mut rest = words.next().unwrap_or_default();
            if kind == "const" && rest == "fn" {
                (kind, rest) = ("fn", words.next().unwrap_or_default());
            }
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
            if ITEMS.contains(&kind) {
                names.insert(format!("{prefix}::{} ({kind})", &rest[..end]));
            }
        }
    }
}

/// Returns the names that a `use` exports, also those in braces.
fn exported(used: &str) -> Vec<String> {
    let Some((_, braces)) = used.split_once('{') else {
        let last = used.rsplit("::").next().unwrap_or(used);
        return vec![last.rsplit(" as ").next().unwrap_or(last).trim().to_owned()];
    };
    let inner = braces.trim_end_matches('}');
    inner.split(',').map(str::trim).filter(|name| !name.is_empty()).flat_map(exported).collect()
}
