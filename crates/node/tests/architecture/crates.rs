//! The dependencies between packages, according to the manifests and to cargo. `main.rs` checks them against its
//! tables, and `planted.rs` checks that these functions find a planted violation.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// Returns the folder of the workspace.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The dependencies that a crate of the workspace may have within the workspace.
#[derive(Debug)]
pub(crate) struct Dependencies {
    /// Folder of the crate.
    pub(crate) from: &'static str,
    /// Packages that it may depend on.
    pub(crate) to: &'static [&'static str],
}

/// The tables of a manifest that list dependencies.
pub(crate) const ALL_KINDS: [&str; 3] = ["dependencies", "build-dependencies", "dev-dependencies"];

/// Returns the manifest of a crate, by its folder.
pub(crate) fn manifest(folder: &str) -> String {
    let path = match folder {
        "benches" | "examples" => root().join(folder),
        _ => root().join("crates").join(folder),
    };
    std::fs::read_to_string(path.join("Cargo.toml")).unwrap()
}

/// Returns the packages that a manifest depends on, in these tables.
pub(crate) fn dependencies(manifest: &str, kinds: &[&str]) -> BTreeSet<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let platforms = manifest.get("target").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values);
    let tables = platforms.filter_map(toml::Value::as_table).chain([&manifest]);
    let named = |(name, value): (&String, &toml::Value)| {
        let renamed = value.get("package").and_then(toml::Value::as_str);
        renamed.unwrap_or(name).to_owned()
    };
    tables
        .flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind).and_then(toml::Value::as_table)))
        .flat_map(|dependencies| dependencies.iter().map(named))
        .collect()
}

/// Returns the dependencies of a manifest on `rusm-` packages that `allowed` does not list. Dev-dependencies are left
/// out: tests may use any package.
pub(crate) fn unexpected_dependencies(allowed: &Dependencies, manifest: &str) -> Vec<String> {
    dependencies(manifest, &["dependencies", "build-dependencies"])
        .into_iter()
        .filter(|name| (name == "rusm" || name.starts_with("rusm-")) && !allowed.to.contains(&name.as_str()))
        .map(|name| format!("{} depends on {name}", allowed.from))
        .collect()
}

/// The packages that one or more packages are built with: the output of `cargo tree` without its structure.
#[derive(Debug)]
pub(crate) struct Tree(pub(crate) BTreeSet<String>);

/// Asks cargo for the packages that those chosen by `arguments` are built with, without tests.
pub(crate) fn tree(arguments: &[&str]) -> Tree {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Tree::of(&String::from_utf8(output.stdout).unwrap())
}

impl Tree {
    /// Reads lines of the form `bytes v1.12.0 (*)`.
    pub(crate) fn of(text: &str) -> Self {
        Self(text.lines().filter_map(|line| line.split_whitespace().next()).map(ToOwned::to_owned).collect())
    }

    /// Returns the packages of this workspace, except `rusm` itself: those whose names start with `rusm-`.
    pub(crate) fn ours(&self) -> BTreeSet<&str> {
        self.0.iter().map(String::as_str).filter(|name| name.starts_with("rusm-")).collect()
    }

    /// Returns the packages that are not allowed.
    pub(crate) fn beyond(&self, allowed: &[&str]) -> Vec<String> {
        self.0.iter().filter(|name| !allowed.contains(&name.as_str())).cloned().collect()
    }

    /// Returns the forbidden packages among these.
    pub(crate) fn containing(&self, forbidden: &[&str]) -> Vec<String> {
        self.0.iter().filter(|name| forbidden.contains(&name.as_str())).cloned().collect()
    }
}
