//! Hostile input: each gives one clear error line, and the node stays up.

use rusm_runtime::{Config, ExitReason, Runtime};
use rusm_wasm::{GuestOptions, Wasm, WasmConfig};

use crate::components::component;
use crate::facts::{SLICES, fact};
use crate::guests::{Node, echo, raw, raw_with};

fn refused(node: &Node, bytes: &[u8]) -> String {
    let refused = node.wasm.load("bad", bytes).map(|_| ()).unwrap_err().to_string();
    assert!(!refused.contains('\n'), "more than one line: {refused}");
    refused
}

#[test]
fn fuzz_modules() {
    let node = Node::small();
    let guests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/guests/prebuilt");
    let target = rusm_fuzz::Fuzz::new("modules").seed(echo()).seed(component("")).cases(150);
    let target = target.seeds_of(format!("{guests}/wat")).seeds_of(format!("{guests}/c"));
    target.words(&["\0asm", "run", "_start", "memory", "rusm:runtime/actor", "\x7f\x7f\x7f\x7f\x7f"]).run(|input| {
        match node.wasm.load("mutant", input) {
            Ok(module) => {
                // The guest may do anything, but the node must be able to end it.
                if let Ok(pid) = node.wasm.spawn(&node.runtime, &module, &GuestOptions::default()) {
                    node.runtime.exit(pid, ExitReason::Killed);
                    node.until("the guest ends", |node| !node.runtime.is_alive(pid));
                }
            }
            Err(error) => {
                let line = error.to_string();
                assert!(line.chars().all(|character| !character.is_control()), "{line:?}");
            }
        }
    });
}

#[test]
fn every_truncation_of_a_module_is_refused() {
    let node = Node::small();
    let whole = echo();

    for len in (0..whole.len()).step_by(7).chain([1, 4, 8]) {
        refused(&node, &whole[..len]);
    }
}

#[test]
fn every_truncation_of_a_component_is_refused() {
    let node = Node::small();
    let whole = component("");

    for len in (0..whole.len()).step_by(7).chain([1, 4, 8]) {
        refused(&node, &whole[..len]);
    }
}

#[test]
fn calls_of_the_host_in_a_row_are_interrupted() {
    let node = Node::small();
    let digests = "(drop (call $digest (i32.const 0) (i32.const 0) (i32.const 524288) (i32.const 0)))".repeat(500);
    let digests = wat::parse_str(format!(
        r#"(module
        (import "rusm" "digest" (func $digest (param i32 i32 i32 i32) (result i32)))
        (import "rusm" "receive" (func $receive (param i64) (result i32)))
        (memory (export "memory") 8)
        (func (export "run") {digests} (drop (call $receive (i64.const -1)))))"#
    ));
    let digests = node.load("digests", &digests.unwrap());
    let pid = node.spawn(&digests, &GuestOptions::default());

    node.until("it is interrupted several times", |node| fact(&node.runtime, pid, SLICES) >= 10);

    node.runtime.exit(pid, ExitReason::Killed);
}

#[test]
fn endless_recursion_is_a_trap_of_that_process_alone() {
    let node = Node::small();
    let endless = raw_with("(func $deeper (call $deeper))", "", "(call $deeper)");

    for _ in 0..3 {
        assert_eq!(node.end_of(&endless, &GuestOptions::default()).to_string(), "trap: stack overflow");
    }
}

#[test]
fn a_file_of_something_else_is_named_as_such() {
    let node = Node::small();

    assert_eq!(refused(&node, b""), "bad is not valid WebAssembly: 0 bytes are too few for a header");
    assert_eq!(
        refused(&node, b"\x7fELF\x02\x01\x01\0\0"),
        "bad is not valid WebAssembly: it does not begin with the bytes \\0asm"
    );
    assert_eq!(refused(&node, b"  (module)"), "bad is not valid WebAssembly: it is text: translate it to binary first");
    assert_eq!(
        refused(&node, b"\0asm\x02\0\0\0"),
        "bad is not valid WebAssembly: module version 2 (layer 0) is not supported by this node"
    );
}

#[test]
fn a_file_for_another_world_is_told_what_it_lacks() {
    let node = Node::small();
    let module = |text: &str| wat::parse_str(text).unwrap();

    let foreign = refused(
        &node,
        &module(r#"(module (import "env" "abort" (func)) (func (export "run")) (memory (export "memory") 1))"#),
    );
    assert!(foreign.contains("env::abort"), "{foreign}");
    let absent = refused(
        &node,
        &module(r#"(module (import "rusm" "teleport" (func)) (func (export "run")) (memory (export "memory") 1))"#),
    );
    assert!(absent.contains("rusm::teleport"), "{absent}");
    let typed = refused(
        &node,
        &module(
            r#"(module (import "rusm" "self" (func (result i32))) (func (export "run")) (memory (export "memory") 1))"#,
        ),
    );
    assert!(typed.contains("rusm::self"), "{typed}");
    let component =
        refused(&node, &module(r#"(component (import "acme:weather/sky@1.0.0" (instance (export "f" (func)))))"#));
    assert!(component.contains("acme:weather/sky"), "{component}");
    let newer =
        refused(&node, &module(r#"(component (import "rusm:runtime/teleport@0.1.0" (instance (export "f" (func)))))"#));
    assert!(newer.contains("rusm:runtime/teleport"), "{newer}");
    assert_eq!(
        refused(&node, &module("(component)")),
        "bad exports neither `run` of rusm:runtime/actor nor wasi:cli/run: it was built for another world"
    );
    assert_eq!(
        refused(&node, &module("(module)")),
        "bad exports neither a function `run` nor the `_start` of a WASI command"
    );
    assert_eq!(
        refused(&node, &module(r#"(module (func (export "run") (param i32)))"#)),
        "bad exports `run` with parameters: a core module reads its arguments with `arg_read`"
    );
    // A WASI command may use the name `run` for any function.
    assert_eq!(
        node.end_of(
            &module(r#"(module (func (export "run") (param i32)) (func (export "_start")))"#),
            &GuestOptions::default()
        ),
        ExitReason::Normal
    );
    assert_eq!(
        refused(&node, &module(r#"(module (import "rusm" "self" (func (result i64))) (func (export "run")))"#)),
        "bad imports functions but exports no memory called `memory` for them to use"
    );
}

#[test]
fn a_component_for_a_module_and_a_module_for_a_component_are_refused() {
    let node = Node::small();
    let mut module = raw("", "");
    module[4..8].copy_from_slice(&[0x0d, 0, 1, 0]);
    let mut component = wat::parse_str("(component (core module) )").unwrap();
    component[4..8].copy_from_slice(&[1, 0, 0, 0]);

    assert!(refused(&node, &module).starts_with("bad is not valid WebAssembly: "));
    assert!(refused(&node, &component).starts_with("bad is not valid WebAssembly: "));
}

#[test]
fn a_start_function_that_traps_or_never_returns_is_the_end_of_that_process_alone() {
    let node = Node::small();
    let traps = wat::parse_str(r#"(module (func $s unreachable) (start $s) (func (export "run")))"#).unwrap();
    let loops = wat::parse_str(r#"(module (func $s (loop $l (br $l))) (start $s) (func (export "run")))"#).unwrap();

    assert_eq!(node.end_of(&traps, &GuestOptions::default()), ExitReason::other("trap: unreachable"));
    assert_eq!(end_of_one_that_runs(&node, &loops), ExitReason::Killed);
}

/// Kills a guest that has been taken off its scheduler at least once.
fn end_of_one_that_runs(node: &Node, guest: &[u8]) -> ExitReason {
    let module = node.load("runs", guest);
    let pid = node.spawn(&module, &GuestOptions::default());
    let watch = node.runtime.watch(pid);
    node.until("it was taken off its scheduler", |node| fact(&node.runtime, pid, SLICES) > 0);
    node.runtime.exit(pid, ExitReason::Killed);
    watch.wait()
}

#[test]
fn absurd_places_and_lengths_are_statuses() {
    let node = Node::small();
    let mut calls = String::new();
    for (p, n) in [(0, -1), (-1, 1), (65_536, 1), (65_535, 2), (i32::MAX, i32::MAX), (i32::MIN, 0), (-1, -1)] {
        for call in [
            format!("(call $send (call $self) (i64.const 0) (i32.const {p}) (i32.const {n}))"),
            format!("(call $try_send (i64.const -1) (i64.const 0) (i32.const {p}) (i32.const {n}))"),
            format!("(call $call (i64.const 1) (i64.const 0) (i32.const {p}) (i32.const {n}) (i64.const 1))"),
            format!("(call $item_read (i32.const {p}) (i32.const {n}) (i32.const {n}))"),
            format!("(call $register (i32.const {p}) (i32.const {n}))"),
            format!("(call $digest (i32.const 0) (i32.const {p}) (i32.const {n}) (i32.const 0))"),
            format!("(call $digest (i32.const 0) (i32.const 0) (i32.const 1) (i32.const {p}))"),
            format!("(call $random (i32.const {p}) (i32.const {n}))"),
            format!("(call $exit (call $self) (i32.const 4) (i32.const {p}) (i32.const {n}))"),
            format!(
                "(call $hmac (i32.const 0) (i32.const {p}) (i32.const {n}) (i32.const 0) (i32.const 1) (i32.const 0))"
            ),
            format!(
                "(call $hmac (i32.const 0) (i32.const 0) (i32.const 1) (i32.const {p}) (i32.const {n}) (i32.const 0))"
            ),
            format!("(call $unregister (i32.const {p}) (i32.const {n}))"),
            format!("(call $join (i32.const {p}) (i32.const {n}))"),
            format!("(call $leave (i32.const {p}) (i32.const {n}))"),
            format!("(call $error_read (i32.const {p}) (i32.const {n}))"),
            format!("(call $arg_read (i32.const 0) (i32.const {p}) (i32.const {n}))"),
            format!("(call $reply (i64.const 1) (i32.const {p}) (i32.const {n}))"),
            format!("(i32.sub (i32.const -1) (i32.wrap_i64 (call $whereis (i32.const {p}) (i32.const {n}))))"),
            format!(
                "(i32.wrap_i64 (call $send_every (call $self) (i64.const 1) (i64.const 0) (i32.const {p}) (i32.const {n})))"
            ),
            format!(
                "(i32.wrap_i64 (call $spawn (i32.const 0) (i32.const 0) (i32.const {p}) (i32.const {n}) (i32.const 0) (i32.const 0) (i32.const 0)))"
            ),
            format!(
                "(i32.wrap_i64 (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const {p}) (i32.const {n}) (i32.const 0)))"
            ),
            format!(
                "(i32.wrap_i64 (call $send_after (call $self) (i64.const 0) (i64.const 0) (i32.const {p}) (i32.const {n})))"
            ),
            format!(
                "(i32.wrap_i64 (call $spawn (i32.const {p}) (i32.const {n}) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))"
            ),
        ] {
            // At 65,535 a digest begins inside the memory and ends outside.
            calls.extend(["(if (i32.ge_s ", call.as_str(), " (i32.const 0)) (then unreachable))\n"]);
        }
    }
    calls
        .push_str("(call $log (i32.const 7) (i32.const -1) (i32.const -1)) (call $label (i32.const -1) (i32.const 3))");

    // An empty range inside the memory is valid, so the one call with such a range is removed.
    let calls =
        calls.replace("(call $digest (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0))", "(i32.const -1)");
    assert_eq!(node.end_of(&raw("", &calls), &GuestOptions::default().profile("trusted")), ExitReason::Normal);
}

#[test]
fn numbers_that_name_nothing_are_harmless() {
    let node = Node::small();
    let run = r"
        (if (call $reply (i64.const 99) (i32.const 0) (i32.const 0)) (then unreachable))
        (if (call $demonitor (i64.const -1)) (then unreachable))
        (if (i64.ne (call $cancel (i64.const 12345)) (i64.const -1)) (then unreachable))
        (if (i32.ne (call $call (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i64.const 10)) (i32.const -2)) (then unreachable))
        (if (i32.ne (call $call (call $self) (i64.const 0) (i32.const 0) (i32.const 0) (i64.const 10)) (i32.const -9)) (then unreachable))
        (drop (call $send (i64.const -1) (i64.const 0) (i32.const 0) (i32.const 0)))
        (call $unlink (i64.const -1))
        (drop (call $monitor (i64.const -1)))
        (if (i32.ne (call $receive (i64.const -1)) (i32.const 3)) (then unreachable))
        (if (i32.ne (call $receive (i64.const 0)) (i32.const 0)) (then unreachable))
        (drop (call $arg_read (i32.const -1) (i32.const 0) (i32.const 10)))";

    assert_eq!(node.end_of(&raw("", run), &GuestOptions::default()), ExitReason::Normal);
}

#[test]
fn a_storm_of_host_calls_is_interrupted_like_any_loop() {
    let node = Node::start(WasmConfig { capacity: 4, ..WasmConfig::default() });
    let storm = raw("", "(loop $again (drop (call $self)) (br $again))");

    assert_eq!(end_of_one_that_runs(&node, &storm), ExitReason::Killed);
}

#[test]
fn a_storm_of_calls_with_numbers_of_chance_ends_nobody_but_its_caller() {
    let node = Node::small();
    let bystander = node.load("echo", &echo());
    let bystander = node.spawn(&bystander, &GuestOptions::default());
    // Each call gets the next numbers of a generator; most are outside of every memory, half of them only just.
    let fields = r"(global $seed (mut i64) (i64.const 88172645463325252))
        (func $l (result i64)
            (global.set $seed (i64.xor (global.get $seed) (i64.shl (global.get $seed) (i64.const 13))))
            (global.set $seed (i64.xor (global.get $seed) (i64.shr_u (global.get $seed) (i64.const 7))))
            (global.set $seed (i64.xor (global.get $seed) (i64.shl (global.get $seed) (i64.const 17))))
            (global.get $seed))
        (func $i (result i32)
            (if (result i32) (i64.lt_s (call $l) (i64.const 0))
                (then (i32.wrap_i64 (call $l)))
                (else (i32.and (i32.wrap_i64 (call $l)) (i32.const 131071)))))";
    let storm = crate::guests::raw_with(
        fields,
        "(local $round i32)",
        r"(loop $again
            (drop (call $send (call $l) (call $l) (call $i) (call $i)))
            (drop (call $try_send (call $l) (call $l) (call $i) (call $i)))
            (drop (call $call (call $l) (call $l) (call $i) (call $i) (i64.const 0)))
            (drop (call $receive (i64.const 0)))
            (drop (call $receive_tagged (call $l) (i64.const 0)))
            (drop (call $reply (call $l) (call $i) (call $i)))
            (drop (call $item_read (call $i) (call $i) (call $i)))
            (call $link (call $self))
            (call $unlink (call $l))
            (drop (call $demonitor (call $monitor (call $l))))
            (drop (call $demonitor (call $l)))
            (drop (call $exit (call $l) (i32.const 5) (call $i) (call $i)))
            (drop (call $register (call $i) (call $i)))
            (drop (call $unregister (call $i) (call $i)))
            (drop (call $whereis (call $i) (call $i)))
            (drop (call $join (call $i) (call $i)))
            (drop (call $leave (call $i) (call $i)))
            (drop (call $cancel (call $send_after (call $l) (call $l) (call $l) (call $i) (call $i))))
            (drop (call $cancel (call $send_every (call $l) (call $l) (call $l) (call $i) (call $i))))
            (drop (call $cancel (call $l)))
            (call $log (call $i) (call $i) (call $i))
            (call $label (call $i) (call $i))
            (drop (call $random (call $i) (i32.and (call $i) (i32.const 131071))))
            (drop (call $digest (call $i) (call $i) (call $i) (call $i)))
            (drop (call $hmac (call $i) (call $i) (call $i) (call $i) (call $i) (call $i)))
            (drop (call $arg_len (call $i)))
            (drop (call $arg_read (call $i) (call $i) (call $i)))
            (drop (call $error_read (call $i) (call $i)))
            (drop (call $spawn (call $i) (i32.or (call $i) (i32.const 1)) (call $i) (call $i) (call $i) (call $i) (call $i)))
            (local.set $round (i32.add (local.get $round) (i32.const 1)))
            (br_if $again (i32.lt_s (local.get $round) (i32.const 300))))",
    );

    for profile in ["sandboxed", "trusted"] {
        let reason = node.end_of(&storm, &GuestOptions::default().profile(profile));
        assert_eq!(reason, ExitReason::Normal, "{profile}");
    }

    assert!(node.runtime.is_alive(bystander));
    node.until("nobody else is left", |node| node.wasm.stats().live == 1);
}

#[test]
fn a_guest_that_never_receives_cannot_fill_its_mailbox_nor_that_of_its_parent() {
    let config = Config { schedulers: 2, mailbox_capacity: 16, ..Config::default() };
    let runtime = Runtime::start(config).unwrap();
    let node = Node { runtime, wasm: Wasm::start(WasmConfig { capacity: 8, ..WasmConfig::default() }).unwrap() };
    // Each loop ends when a call is refused, or runs forever.
    let until_refused = |call: &str| {
        raw(
            "",
            &format!(
                "(drop (call $trap_exits (i32.const 1))) (loop $again (br_if $again (i32.ne {call} (i32.const -3))))"
            ),
        )
    };
    let signals = until_refused("(call $exit (call $self) (i32.const 4) (i32.const 0) (i32.const 60000))");
    let timers = until_refused(
        "(i32.wrap_i64 (call $send_after (call $self) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 9)))",
    );
    let links = raw("", "(drop (call $trap_exits (i32.const 1))) (loop $again (call $link (i64.const 1)) (br $again))");
    let parents = raw(
        "",
        "(loop $again (br_if $again (i64.ne (i64.const -3)
            (call $send_after (call $parent) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 9)))))",
    );

    assert_eq!(node.end_of(&signals, &GuestOptions::default()), ExitReason::Normal);
    assert_eq!(node.end_of(&timers, &GuestOptions::default()), ExitReason::Normal);
    assert_eq!(node.end_of(&links, &GuestOptions::default()), ExitReason::Killed);
    // The parent receives selectively and leaves the rest unread.
    assert_eq!(node.end_of(&parents, &GuestOptions::default()), ExitReason::Normal);
}

#[test]
fn a_guest_has_so_many_names_and_groups_and_timers_of_short_periods_and_no_more() {
    let node = Node::small();
    let trusted = GuestOptions::default().profile("trusted");
    // Names of four letters that encode a counter.
    let letter = |by: u32| {
        format!(
            "(i32.shl (i32.and (i32.shr_u (local.get $i) (i32.const {})) (i32.const 15)) (i32.const {}))",
            4 * by,
            8 * by
        )
    };
    let name =
        format!("(i32.add (i32.const 0x41414141) (i32.add (i32.add {} {}) {}))", letter(0), letter(1), letter(2));
    let many = |call: &str| {
        raw(
            "(local $i i32)",
            &format!(
                "(loop $again
                    (i32.store (i32.const 0) {name})
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (if (i32.gt_u (local.get $i) (i32.const 4000)) (then unreachable))
                    (br_if $again (i32.ne {call} (i32.const -8))))"
            ),
        )
    };
    let periods = raw(
        "(local $i i32)",
        "(loop $again
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (if (i32.gt_u (local.get $i) (i32.const 100)) (then unreachable))
            (br_if $again (i64.gt_s
                (call $send_every (call $self) (i64.const 1) (i64.const 0) (i32.const 0) (i32.const 1)) (i64.const 0))))",
    );

    assert_eq!(node.end_of(&many("(call $join (i32.const 0) (i32.const 4))"), &trusted), ExitReason::Normal);
    assert_eq!(node.end_of(&many("(call $register (i32.const 0) (i32.const 4))"), &trusted), ExitReason::Normal);
    assert_eq!(node.end_of(&periods, &GuestOptions::default()), ExitReason::Normal);
}
