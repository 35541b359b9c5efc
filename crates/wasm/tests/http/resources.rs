//! Resources of a component count in the bound of all guests.

use rusm_runtime::{Config, Context, ExitReason, Runtime};
use rusm_wasm::{Folder, GuestOptions, Profiles, Wasm, WasmConfig};

/// Runs a component with this code, with a bound of 4 MiB for all guests.
fn end_of(code: &str) -> ExitReason {
    end_of_text(&include_str!("resources.wat").replace("CODE", code), Profiles::default())
}

fn end_of_text(text: &str, profiles: Profiles) -> ExitReason {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
    let wasm =
        Wasm::start(WasmConfig { capacity: 8, guests_memory_max_bytes: 4 << 20, profiles, ..WasmConfig::default() })
            .unwrap();
    let module = wasm.load("keeps", &wat::parse_str(text).unwrap()).unwrap();
    let start =
        |ctx: Context| async move { wasm.spawn_watched(&ctx, &module, &GuestOptions::default()).unwrap().1.await };
    runtime.block_on(start)
}

/// Repeats code while `$i` is below a number.
fn times(count: u32, code: &str) -> String {
    format!(
        "(local.set $i (i32.const 0))
        (loop $again {code} (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (i32.const {count}))))"
    )
}

const APPEND: &str =
    "(call $append (local.get $f) (i32.const 16) (i32.const 3) (i32.const 1024) (i32.const 7000) (i32.const 0))";

fn limit() -> ExitReason {
    ExitReason::other("memory_limit(4194304 of all guests)")
}

#[test]
fn fields_count_with_their_content() {
    let fields = format!("(local.set $f (call $fields)) {APPEND} {APPEND} {APPEND} {APPEND}");
    assert_eq!(end_of(&times(100, &fields)), ExitReason::Normal);
    assert_eq!(end_of(&times(1_000, &fields)), limit());
    // Dropped fields make room.
    assert_eq!(end_of(&times(1_000, &format!("{fields} (call $drop (local.get $f))"))), ExitReason::Normal);
}

#[test]
fn copies_of_fields_count_as_if_they_were_changed() {
    let full = format!("(local.set $f (call $fields)) {APPEND} {APPEND} {APPEND} {APPEND}");
    assert_eq!(end_of(&format!("{full} {}", times(1_000, "(drop (call $clone (local.get $f)))"))), limit());
    assert_eq!(
        end_of(&format!("{full} {}", times(1_000, "(call $drop (call $clone (local.get $f)))"))),
        ExitReason::Normal
    );
}

#[test]
fn bodies_that_nobody_reads_count() {
    let body = "(call $body (call $response (call $fields)) (i32.const 0))";
    assert_eq!(end_of(&times(20, body)), ExitReason::Normal);
    assert_eq!(end_of(&times(200, body)), limit());
}

#[test]
fn a_component_has_as_many_pollables_as_it_may() {
    // A pollable is a resource, and its deadline another one.
    let wait = "(drop (call $wait (i64.const 1000000000000)))";
    assert_eq!(end_of(&times(500, wait)), ExitReason::Normal);
    let beyond = end_of(&times(600, wait)).to_string();
    assert!(beyond.contains("resource table"), "{beyond}");
}

#[test]
fn lists_of_folders_count_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..100 {
        std::fs::write(folder.path().join(number.to_string()), "").unwrap();
    }
    let list = |drop: &str| {
        let mut profiles = Profiles::default();
        let granted = Folder { path: folder.path().into(), guest_path: "/".to_owned(), is_writable: false };
        profiles.set_folders("sandboxed", [granted]);
        end_of_text(&include_str!("folders.wat").replace("DROP", drop), profiles).to_string()
    };

    assert_eq!(list("(call $drop (i32.load (i32.const 84)))"), "normal");
    assert_eq!(list(""), "trap: unreachable");
}
