//! Sets the build description of reports: the compiler, its target, the profile and the commit. They are read from
//! files, never from a network; git is only asked whether the sources differ from the commit.
//!
//! Also compresses the prebuilt guests of scenarios, which would be a tenth of the program otherwise.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    compress_guests();
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    if let Ok(output) = Command::new(rustc).arg("--version").output() {
        println!("cargo:rustc-env=RUSM_RUSTC={}", String::from_utf8_lossy(&output.stdout).trim());
    }
    let level = env::var("OPT_LEVEL").unwrap_or_default();
    let profile = env::var("PROFILE").unwrap_or_default();
    println!("cargo:rustc-env=RUSM_BUILD_PROFILE={profile}, opt-level {level}");
    println!("cargo:rustc-env=RUSM_TARGET={}, {}", env::var("TARGET").unwrap_or_default(), target_cpu());
    if let Some(commit) = repository().as_deref().and_then(commit) {
        println!("cargo:rustc-env=RUSM_COMMIT={commit}");
    }
    if let Some(dirty) = dirty() {
        println!("cargo:rustc-env=RUSM_DIRTY={dirty}");
    }
}

/// Folder of the prebuilt guests, relative to this directory.
const PREBUILT: &str = "../../examples/guests/prebuilt";
/// Prebuilt guests of scenarios: see `Code::Prebuilt`.
const GUESTS: [&str; 7] = [
    "c/digest.wasm",
    "c/web.wasm",
    "rust/digest.wasm",
    "ts/feed.wasm",
    "ts/guests.wasm",
    "ts/web.wasm",
    "wasi/sockets.wasm",
];
/// Level of the compression: higher ones save less than a hundredth.
const LEVEL: u8 = 6;

/// Writes the guests to `OUT_DIR`, compressed, with the names that they have in their folder.
fn compress_guests() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for guest in GUESTS {
        let from = Path::new(PREBUILT).join(guest);
        println!("cargo:rerun-if-changed={}", from.display());
        let code = fs::read(&from).unwrap_or_else(|error| panic!("cannot read {}: {error}", from.display()));
        let to = out.join(guest);
        fs::create_dir_all(to.parent().expect("it is in a folder")).expect("cargo has created the folder above");
        fs::write(to, miniz_oxide::deflate::compress_to_vec(&code, LEVEL)).expect("cargo has created the folder above");
    }
}

/// Paths that affect the figures of a benchmark, relative to this directory.
const SOURCES: [&str; 4] = ["../protocol", "../runtime", "../bench", "../../Cargo.lock"];

/// Returns the processor that the code is compiled for.
fn target_cpu() -> String {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let named = flags.split('\u{1f}').find_map(|flag| flag.trim_start_matches("-C").strip_prefix("target-cpu="));
    format!("target-cpu {}", named.unwrap_or("generic"))
}

/// Returns true if the sources differ from the commit; `None` without git.
fn dirty() -> Option<bool> {
    for path in SOURCES {
        println!("cargo:rerun-if-changed={path}");
    }
    let output = Command::new("git").args(["status", "--porcelain", "--"]).args(SOURCES).output().ok()?;
    output.status.success().then_some(!output.stdout.is_empty())
}

/// The folder of the repository's data: `.git` of this folder or one above, or the one that such a file names.
fn repository() -> Option<PathBuf> {
    let start = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let git = start.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    if git.is_dir() {
        return Some(git);
    }
    let named = fs::read_to_string(&git).ok()?;
    Some(git.parent()?.join(named.trim().strip_prefix("gitdir: ")?))
}

/// The folder that the branches are in: of a second working tree, that of the first.
fn branches(git: &Path) -> PathBuf {
    fs::read_to_string(git.join("commondir")).map_or_else(|_| git.to_owned(), |common| git.join(common.trim()))
}

/// The commit that is checked out, by reading `HEAD` and the branch it names.
fn commit(git: &Path) -> Option<String> {
    let head_file = git.join("HEAD");
    println!("cargo:rerun-if-changed={}", head_file.display());
    let head = fs::read_to_string(head_file).ok()?;
    let Some(branch) = head.trim().strip_prefix("ref: ") else {
        return Some(head.trim().to_owned());
    };
    let branches = branches(git);
    let branch_file = branches.join(branch);
    if branch_file.exists() {
        println!("cargo:rerun-if-changed={}", branch_file.display());
        return Some(fs::read_to_string(branch_file).ok()?.trim().to_owned());
    }
    let packed = fs::read_to_string(branches.join("packed-refs")).ok()?;
    let line = packed.lines().find(|line| line.ends_with(branch))?;
    line.split_whitespace().next().map(str::to_owned)
}
