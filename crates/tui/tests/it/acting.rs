//! Commands without a screen, against a real node.

use std::process::{Command, Output, Stdio};

use rusm_console::{Console, ConsoleConfig};
use rusm_runtime::{Config, Runtime};
use tempfile::TempDir;

/// Starts a node and runs rusm-top with these arguments.
fn acted(read_only: bool, arguments: impl Fn(&str) -> Vec<String>) -> (Output, bool) {
    let dir = TempDir::new().expect("a folder");
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("runtime starts");
    let pid = runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).expect("process spawns");
    let watch = runtime.watch(pid);
    let config = ConsoleConfig { dir: dir.path().join("rusm"), read_only, ..ConsoleConfig::named("acted") };
    let console = Console::bind(&runtime, config).expect("console binds");
    let target = format!("unix:{}", console.socket().display());
    let output = Command::new(env!("CARGO_BIN_EXE_rusm-top"))
        .env_clear()
        .arg(target)
        .args(arguments(pid.to_string().trim_matches(['<', '>'])))
        .stdin(Stdio::null())
        .output()
        .expect("rusm-top runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let is_ended = said.contains("ended: ") && watch.wait().to_string() == "leaks memory";
    (output, is_ended)
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_process_is_ended_with_words_and_the_line_says_so() {
    let (output, is_ended) = acted(false, |pid| words(&["--kill", pid, "--reason", "leaks memory"]));

    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with(" ended: leaks memory\n"));
    assert!(is_ended);
}

#[test]
fn what_the_node_refuses_is_one_line_and_a_code() {
    let refused = |read_only, list: &[&str]| {
        let (output, _) = acted(read_only, |_| words(list));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
    };

    assert_eq!(refused(false, &["--kill", "0.999.7"]), (Some(2), "rusm-top: no process <0.999.7>".to_owned()));
    let why = "rusm-top: acted lets this connection only observe: attach with the control token";
    assert_eq!(refused(true, &["--stop"]), (Some(4), why.to_owned()));
    let why = "rusm-top: the filter of this program's log cannot be changed";
    assert_eq!(refused(false, &["--set-log", "debug"]), (Some(2), why.to_owned()));
    let why = "rusm-top: --reason needs --kill or --kill-all";
    assert_eq!(refused(false, &["--reason", "x"]), (Some(2), why.to_owned()));
}
