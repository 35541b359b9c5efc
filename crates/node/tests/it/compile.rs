//! Modules are compiled in a process of their own: under which limits and dispositions it starts, and what it reads.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::run::harness::folder;

/// Runs `rusm` from a shell that first runs `before`.
fn rusm_after(before: &str, dir: &Path, args: &[&str]) -> Output {
    let script = format!("{before}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_rusm")]).args(args).current_dir(dir).env_clear();
    command.env("XDG_RUNTIME_DIR", dir).env("XDG_CACHE_HOME", dir.join("cache")).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ENDS: &str = "(module (func (export \"run\")))";
/// A node for few guests reserves little memory of its own.
const SETTINGS: &str = "[engine]\ncapacity = 8\n[[process]]\nmodule = \"ends.wat\"\nrestart = \"temporary\"\n";

#[test]
fn the_compiler_starts_under_a_hard_limit_below_its_own_and_where_children_are_not_waited_for() {
    for before in ["ulimit -d 1000000", "ulimit -v 900000000", "trap '' CHLD", "ulimit -s 4096"] {
        let dir = folder(&[("ends.wat", ENDS), ("rusm.toml", SETTINGS)]);

        let output = rusm_after(before, dir.path(), &["run", "rusm.toml"]);

        assert_eq!(output.status.code(), Some(0), "{before}: {}", text(&output));
    }
}

#[test]
fn a_file_whose_read_would_wait_for_ever_is_an_error() {
    let dir = folder(&[]);

    // A regular file by its kind; a read waits for the next message of the kernel.
    let output = rusm_after(":", dir.path(), &["run", "/proc/kmsg"]);

    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("/proc/kmsg"), "{}", text(&output));
}
