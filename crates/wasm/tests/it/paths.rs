//! Modules that a guest starts: by name, by path, and its own.

use std::os::unix::ffi::OsStrExt;

use rusm_runtime::ExitReason;
use rusm_wasm::{GuestOptions, WasmConfig};

use crate::guests::{Node, raw_with};

/// Starts the module of this name, waits for its end, and ends with the same reason; if the start is refused, the error
/// text becomes the reason.
fn starter(name: &str) -> Vec<u8> {
    raw_with(
        &format!(r#"(data (i32.const 0) "{name}")"#),
        "",
        &format!(
            r"(local.set $pid (call $spawn (i32.const 0) (i32.const {}) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 2)))
            (if (i64.lt_s (local.get $pid) (i64.const 0)) (then
                (local.set $n (call $error_len))
                (drop (call $error_read (i32.const 1024) (local.get $n)))
                (drop (call $exit (call $self) (i32.const 4) (i32.const 1024) (local.get $n)))))
            (if (i32.ne (call $receive (i64.const -1)) (i32.const 3)) (then unreachable))
            (if (i64.ne (call $item_ref) (call $spawn_monitor)) (then unreachable))
            (local.set $n (call $item_read (i32.const 1024) (i32.const 1024) (i32.const 0)))
            (drop (call $exit (call $self) (i32.const 4) (i32.const 1024) (local.get $n)))",
            name.len()
        ),
    )
}

#[test]
fn a_path_starts_a_file_where_the_node_allows_it_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (dir.path().join("divide.wasm"), dir.path().join("bad.wasm"));
    let divide = r#"(module (func (export "run") (drop (i32.div_u (i32.const 1) (i32.const 0)))))"#;
    std::fs::write(&good, wat::parse_str(divide).unwrap()).unwrap();
    std::fs::write(&bad, b"\0asm").unwrap();
    let absent = dir.path().join("absent.wasm");
    let open = Node::start(WasmConfig { capacity: 8, spawn_by_path: true, ..WasmConfig::default() });
    let closed = Node::small();
    let trusted = GuestOptions::default().profile("trusted");
    let end = |node: &Node, path: &std::path::Path| node.end_of(&starter(path.to_str().unwrap()), &trusted).to_string();

    assert_eq!(end(&open, &good), "trap: integer division by zero");
    assert!(open.wasm.module(good.to_str().unwrap()).is_some(), "kept for the next start");
    assert_eq!(end(&open, &good), "trap: integer division by zero");
    assert!(end(&open, &bad).contains("bad.wasm is not valid WebAssembly: 4 bytes are too few for a header"));
    assert!(end(&open, &absent).starts_with("cannot read "), "{}", end(&open, &absent));
    assert_eq!(end(&closed, &good), format!("module {:?} does not exist", good.display().to_string()));
}

#[test]
fn a_name_starts_what_the_node_keeps_under_it() {
    let node = Node::small();
    node.load("ends", &wat::parse_str(r#"(module (func (export "run") unreachable))"#).unwrap());
    let trusted = GuestOptions::default().profile("trusted");

    assert_eq!(node.end_of(&starter("ends"), &trusted), ExitReason::other("trap: unreachable"));
    assert_eq!(node.end_of(&starter("nowhere"), &trusted).to_string(), "module \"nowhere\" does not exist");
}

#[test]
fn a_file_is_kept_once_however_it_is_spelled_and_what_has_no_end_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().canonicalize().unwrap().join("ends.wasm");
    std::fs::write(&file, wat::parse_str(r#"(module (func (export "run") unreachable))"#).unwrap()).unwrap();
    let open = Node::start(WasmConfig { capacity: 8, spawn_by_path: true, ..WasmConfig::default() });
    let trusted = GuestOptions::default().profile("trusted");
    let end = |path: &str| open.end_of(&starter(path), &trusted).to_string();
    let spelled = format!("{}/./ends.wasm", file.parent().unwrap().display());

    assert_eq!(end(&spelled), "trap: unreachable");
    assert!(open.wasm.module(&spelled).is_none());
    assert!(open.wasm.module(file.to_str().unwrap()).is_some());
    assert_eq!(end("/dev/zero"), "cannot read /dev/zero: it is not a regular file");
    // A regular file of no bytes, by its own account; of some such files gigabytes can be read.
    let longer = "/proc/self/maps";
    assert!(end(longer).ends_with("/maps: it grows while it is read"), "{}", end(longer));
}

#[test]
fn a_path_that_is_not_utf_8_has_no_name_and_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(std::ffi::OsStr::from_bytes(b"x\xff.wasm"));
    std::fs::write(&file, wat::parse_str(r#"(module (func (export "run") unreachable))"#).unwrap()).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let open = Node::start(WasmConfig { capacity: 8, spawn_by_path: true, ..WasmConfig::default() });

    let end = open.end_of(&starter(link.to_str().unwrap()), &GuestOptions::default().profile("trusted")).to_string();

    assert!(end.ends_with("its path is not UTF-8"), "{end}");
}

#[test]
fn modules_that_guests_start_by_their_paths_have_a_bound_on_memory() {
    let dir = tempfile::tempdir().unwrap();
    let module = wat::parse_str(r#"(module (func (export "run") unreachable))"#).unwrap();
    let config =
        WasmConfig { capacity: 8, spawn_by_path: true, guests_memory_max_bytes: 2 << 20, ..WasmConfig::default() };
    let node = Node::start(config);
    let trusted = GuestOptions::default().profile("trusted");
    // Each of them counts as 128 KiB, and half a MiB is for all.
    let end = |number: u32| {
        let path = dir.path().join(format!("{number}.wasm"));
        std::fs::write(&path, &module).unwrap();
        node.end_of(&starter(path.to_str().unwrap()), &trusted).to_string()
    };
    let ends: Vec<String> = (0..6).map(end).collect();

    assert!(ends[..4].iter().all(|end| end == "trap: unreachable"), "{ends:?}");
    assert!(ends[4].contains("modules that guests start by their paths take at most 524288 bytes"), "{ends:?}");
    assert_eq!(end(0), "trap: unreachable", "a module that is kept can be started");
}
