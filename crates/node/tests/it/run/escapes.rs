//! Hostile text on each of its ways to the log, the terminal and error lines: it is shown, and is not interpreted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use rusm_text::is_plain;

use crate::run::harness::{folder, rusm};

/// Text that would forge a line, control a terminal, or hide itself.
const HOSTILE: [&str; 10] = [
    "x\n2026-11-24T00:00:00.000000Z  INFO rusm::audit: control command client=\"root\" allowed=true",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "\u{9b}31m\u{90}\u{9c}",
    "\r\u{8}\u{8}\u{8}rusm: all is well",
    "\u{7f}\u{0}\u{1}\u{1f}",
    "\u{202e}gpj.exe\u{2066}\u{2069}",
    "a\u{85}b\u{2028}c\u{2029}d",
    "\u{feff}\u{200b}\u{e0041}\u{ad}",
    "\u{1b}\\\u{1b}P+q\u{1b}\\",
    "{x}%s%n\t\"'\\",
];

fn wat(text: &str) -> String {
    text.bytes().fold(String::new(), |data, byte| data + &format!("\\{byte:02x}"))
}

/// Checks the output of a program: whole lines of plain characters, none of them forged.
fn check(what: &str, hostile: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("{what} {hostile:?}: not UTF-8"));
    assert!(!text.is_empty(), "{what} {hostile:?}: nothing was written");
    for line in text.lines() {
        assert!(line.chars().all(is_plain), "{what} {hostile:?}: {line:?}");
        assert!(!line.starts_with("2026-11-24T00:00:00.000000Z"), "{what} {hostile:?}: {line:?} is forged");
    }
}

/// Returns guests that output the text: in a log line, an exit reason, a shutdown reason, on standard output, in a
/// label.
fn guests(hostile: &str) -> Vec<(&'static str, String)> {
    let (data, n) = (wat(hostile), hostile.len());
    let raw = |imports: &str, body: &str| {
        format!(
            r#"(module {imports} (memory (export "memory") 1) (data (i32.const 64) "{data}") (func (export "run") {body}))"#
        )
    };
    let exit = |kind: u32| {
        let imports = r#"(import "rusm" "exit" (func $exit (param i64 i32 i32 i32) (result i32)))
            (import "rusm" "self" (func $self (result i64)))"#;
        raw(imports, &format!("(drop (call $exit (call $self) (i32.const {kind}) (i32.const 64) (i32.const {n})))"))
    };
    let log = raw(
        r#"(import "rusm" "log" (func $log (param i32 i32 i32)))"#,
        &format!("(call $log (i32.const 1) (i32.const 64) (i32.const {n}))"),
    );
    let name = r#"(import "rusm" "register" (func $register (param i32 i32) (result i32)))"#;
    let named = raw(name, &format!("(drop (call $register (i32.const 64) (i32.const {n}))) unreachable"));
    let output = format!(
        r#"(module (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1) (data (i32.const 64) "{data}")
            (func (export "_start") (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const {n}))
                (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    );
    let import =
        format!(r#"(module (import "{data}" "{data}" (func)) (memory (export "memory") 1) (func (export "run")))"#);
    let function = format!(r#"(module (func $f (@name "{data}") unreachable) (func (export "run") (call $f)))"#);
    vec![
        ("log", log),
        ("exit", exit(4)),
        ("shutdown", exit(2)),
        ("name", named),
        ("output", output),
        ("import", import),
        ("function", function),
    ]
}

#[test]
fn words_of_a_guest_stay_within_their_line() {
    for hostile in HOSTILE {
        for (way, text) in guests(hostile) {
            let dir = folder(&[("guest.wat", &text)]);
            for format in ["text", "json"] {
                let output = rusm(dir.path(), &["--log-format", format, "guest.wat"]).output().unwrap();
                check(way, hostile, &output.stderr);
                for line in output.stderr.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    let is_last_word = line.starts_with(b"rusm: ");
                    let begins = if format == "json" { line[0] == b'{' } else { line.starts_with(b"20") };
                    assert!(begins || is_last_word, "{way} {hostile:?}: {}", String::from_utf8_lossy(line));
                }
            }
        }
    }
}

#[test]
fn words_of_the_command_line_stay_within_their_line() {
    let binary = env!("CARGO_BIN_EXE_rusm");
    for hostile in HOSTILE {
        // An argument cannot contain a null byte.
        let hostile = hostile.replace('\0', "");
        let dir = folder(&[]);
        let cases: [&[&str]; 14] = [
            &[&hostile],
            &["run", &hostile],
            &["run", "--profile", &hostile, "x.wat"],
            &["node", "--config", &hostile],
            &["node", "--name", &hostile],
            &["node", "--log-file", "/nowhere/\u{1b}[2J"],
            &["node", "--listen", &hostile],
            &["bench", "run", &hostile],
            &["bench", "run", "ping-pong", "--param", &hostile],
            &["bench", "list", &hostile],
            &["bench", "compare", &hostile, &hostile],
            &["bench", "sweep", "ping-pong", "--grid", &hostile],
            &["loadtest", "http", &hostile],
            &["loadtest", "http", "--from", &hostile],
        ];
        for args in cases {
            let mut command = Command::new(binary);
            let output = command.args(args).current_dir(dir.path()).env_clear().output().unwrap();
            check(&format!("{args:?}"), &hostile, &[output.stderr, output.stdout].concat());
            assert!(!output.status.success(), "{args:?}");
        }
    }
}

#[test]
fn names_of_files_that_are_not_text_stay_within_their_line() {
    let name = OsStr::from_bytes(b"\xff\x1b[2J\n.toml");
    let dir = folder(&[]);

    for args in [["node", "--config"], ["run", "--config"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
        let output = command.args(args).arg(name).current_dir(dir.path()).env_clear().output().unwrap();

        check("path", "a name that is not UTF-8", &output.stderr);
        assert_eq!(output.status.code(), Some(2));
    }
}

/// Appends the text to every string.
fn spoil(json: &mut serde_json::Value, hostile: &str) {
    match json {
        serde_json::Value::String(text) => text.push_str(hostile),
        serde_json::Value::Array(values) => values.iter_mut().for_each(|value| spoil(value, hostile)),
        serde_json::Value::Object(fields) => {
            let keep = ["scenario", "kind", "verdict", "unit", "better"];
            fields.iter_mut().filter(|(name, _)| !keep.contains(&name.as_str())).for_each(|(_, v)| spoil(v, hostile));
        }
        _ => {}
    }
}

/// Returns a report of ours with the text in every string.
fn report(hostile: &str) -> String {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/report.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    spoil(&mut json, hostile);
    json.to_string()
}

#[test]
fn words_of_foreign_reports_stay_within_their_line() {
    for hostile in HOSTILE {
        let dir = folder(&[("a.json", &report(hostile)), ("b.json", &report("")), ("c.json", hostile)]);
        for args in [["a.json", "b.json"], ["b.json", "a.json"], ["a.json", "a.json"], ["a.json", "c.json"]] {
            for json in [&[][..], &["--json"]] {
                let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
                command.args(["bench", "compare"]).args(args).args(json);
                let output = command.current_dir(dir.path()).env_clear().output().unwrap();
                check(&format!("{args:?}"), hostile, &[output.stderr, output.stdout].concat());
            }
        }
    }
}
