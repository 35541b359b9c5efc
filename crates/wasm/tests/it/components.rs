//! Components of the `rusm:runtime` world and of WASI.

use rusm_runtime::ExitReason;
use rusm_wasm::GuestOptions;

use crate::guests::Node;

/// A component of the `rusm:runtime` world that sleeps a little and then executes `run`.
pub(crate) fn component(run: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
        (import "rusm:runtime/process@0.1.0" (instance $process (export "sleep" (func (param "ms" u64)))))
        (core module $m
            (import "p" "sleep" (func $sleep (param i64)))
            (memory (export "memory") 1)
            (data (i32.const 64) "disk full")
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
            (func (export "run") (param $args i32) (param $count i32) (result i32)
                (call $sleep (i64.const 1))
                {run}
                (i32.const 16)))
        (alias export $process "sleep" (func $sleep))
        (core func $sleep' (canon lower (func $sleep)))
        (core instance $i (instantiate $m (with "p" (instance (export "sleep" (func $sleep'))))))
        (func (export "run") (param "args" (list string)) (result (result (error string)))
            (canon lift (core func $i "run") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"#
    ))
    .unwrap()
}

#[test]
fn a_component_returns_an_error_or_traps_or_ends() {
    let node = Node::small();
    let error = component(
        "(i32.store (i32.const 16) (i32.const 1)) (i32.store (i32.const 20) (i32.const 64)) (i32.store (i32.const 24) (i32.const 9))",
    );

    assert_eq!(node.end_of(&component(""), &GuestOptions::default().args(["one", "two"])), ExitReason::Normal);
    assert_eq!(node.end_of(&error, &GuestOptions::default()), ExitReason::other("disk full"));
    assert_eq!(
        node.end_of(&component("unreachable"), &GuestOptions::default()),
        ExitReason::other("trap: unreachable")
    );
}

#[test]
fn a_component_with_another_run_is_told_so() {
    let node = Node::small();
    let other = wat::parse_str(
        r#"(component (core module $m (func (export "run"))) (core instance $i (instantiate $m))
        (func (export "run") (canon lift (core func $i "run"))))"#,
    )
    .unwrap();

    let refused = node.wasm.load("other", &other).map(|_| ()).unwrap_err().to_string();

    assert!(refused.starts_with("other exports `run` with a type other than that of rusm:runtime/actor"), "{refused}");
}

#[test]
fn a_wasi_command_runs_to_its_end_and_its_status_is_the_reason() {
    let node = Node::small();
    let command = |status: u32| {
        wat::parse_str(format!(
            r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "\10\00\00\00\06\00\00\00") (data (i32.const 16) "hello\n")
            (func (export "_start")
                (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32)) (then unreachable))
                (if (i32.ne (i32.load (i32.const 32)) (i32.const 6)) (then unreachable))
                (if (i32.eqz (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 5) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 40))) (then unreachable))
                (call $exit (i32.const {status}))))"#
        ))
        .unwrap()
    };

    assert_eq!(node.end_of(&command(0), &GuestOptions::default()), ExitReason::Normal);
    assert_eq!(node.end_of(&command(3), &GuestOptions::default()), ExitReason::other("exit(3)"));
}

#[test]
fn a_wasi_component_runs_to_its_end_and_what_it_returns_is_the_reason() {
    let node = Node::small();
    // Reads the clock and random numbers; without WASI it could not be linked.
    let command = |run: &str| {
        wat::parse_str(format!(
            r#"(component
            (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock (export "now" (func (result u64)))))
            (import "wasi:random/random@0.2.0" (instance $random (export "get-random-u64" (func (result u64)))))
            (import "wasi:cli/exit@0.2.0" (instance $end (export "exit" (func (param "status" (result))))))
            (alias export $clock "now" (func $now))
            (alias export $random "get-random-u64" (func $get))
            (alias export $end "exit" (func $exit))
            (core func $now' (canon lower (func $now)))
            (core func $get' (canon lower (func $get)))
            (core func $exit' (canon lower (func $exit)))
            (core module $m
                (import "wasi" "now" (func $now (result i64)))
                (import "wasi" "get" (func $get (result i64)))
                (import "wasi" "exit" (func $exit (param i32)))
                (func (export "run") (result i32)
                    (if (i64.gt_u (call $now) (call $now)) (then unreachable))
                    (if (i64.eq (call $get) (call $get)) (then unreachable))
                    {run}))
            (core instance $i (instantiate $m (with "wasi" (instance
                (export "now" (func $now')) (export "get" (func $get')) (export "exit" (func $exit'))))))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $r (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $r)))"#
        ))
        .unwrap()
    };
    let end = |run: &str| node.end_of(&command(run), &GuestOptions::default()).to_string();

    assert_eq!(node.load("command", &command("(i32.const 0)")).kind(), "wasi component");
    assert_eq!(end("(i32.const 0)"), "normal");
    assert_eq!(end("(i32.const 1)"), "run returned an error");
    assert_eq!(end("unreachable"), "trap: unreachable");
    assert_eq!(end("(call $exit (i32.const 0)) unreachable"), "normal");
    assert_eq!(end("(call $exit (i32.const 1)) unreachable"), "exit(1)");
}

/// A component that sets its label to the text of this many bytes at `place`.
fn labelled(place: u32, bytes: u32) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
        (import "rusm:runtime/process@0.1.0" (instance $process (export "label" (func (param "text" string)))))
        (core module $memory (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
        (core instance $memory (instantiate $memory))
        (core module $m
            (import "p" "label" (func $label (param i32 i32)))
            (func (export "run") (param i32 i32) (result i32)
                (call $label (i32.const {place}) (i32.const {bytes}))
                (i32.const 16)))
        (alias export $process "label" (func $label))
        (core func $label' (canon lower (func $label) (memory (core memory $memory "memory"))))
        (core instance $i (instantiate $m (with "p" (instance (export "label" (func $label'))))))
        (func (export "run") (param "args" (list string)) (result (result (error string)))
            (canon lift (core func $i "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))"#
    ))
    .unwrap()
}

/// A component that sends this many bytes at `place` to no process.
fn sending(place: u32, bytes: u32) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
        (import "rusm:runtime/types@0.1.0" (instance $types
            (type $pid' (record (field "node" u32) (field "slot" u32) (field "generation" u32)))
            (export "pid" (type $pid (eq $pid')))
            (type $reason' (variant (case "normal") (case "shutdown") (case "shutdown-with" string) (case "killed")
                (case "no-process") (case "no-connection") (case "panic" string) (case "other" string)))
            (export "exit-reason" (type $reason (eq $reason')))
            (type $error' (variant (case "denied" string) (case "no-process") (case "mailbox-full") (case "timed-out")
                (case "callee-exited" $reason) (case "no-such" string) (case "taken" string) (case "limit" string)
                (case "invalid" string)))
            (export "error" (type (eq $error')))))
        (alias export $types "pid" (type $pid))
        (alias export $types "error" (type $error))
        (import "rusm:runtime/process@0.1.0" (instance $process
            (alias outer 1 $pid (type $pid'))
            (export "pid" (type $pid (eq $pid')))
            (alias outer 1 $error (type $error'))
            (export "error" (type $error (eq $error')))
            (export "send" (func (param "to" $pid) (param "tag" u64) (param "body" (list u8)) (result (result (error $error)))))))
        (core module $memory (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
        (core instance $memory (instantiate $memory))
        (core module $m
            (import "p" "send" (func $send (param i32 i32 i32 i64 i32 i32 i32)))
            (func (export "run") (param i32 i32) (result i32)
                (call $send (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0)
                    (i32.const {place}) (i32.const {bytes}) (i32.const 64))
                (i32.const 16)))
        (alias export $process "send" (func $send))
        (core func $send' (canon lower (func $send) (memory (core memory $memory "memory"))
            (realloc (core func $memory "realloc"))))
        (core instance $i (instantiate $m (with "p" (instance (export "send" (func $send'))))))
        (func (export "run") (param "args" (list string)) (result (result (error string)))
            (canon lift (core func $i "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))"#
    ))
    .unwrap()
}

#[test]
fn a_component_that_sends_what_is_outside_of_its_memory_traps() {
    let node = Node::small();

    for (place, bytes) in [(65_536, 0), (65_505, 31), (65_504, 32), (0, 65_536)] {
        assert_eq!(
            node.end_of(&sending(place, bytes), &GuestOptions::default()),
            ExitReason::Normal,
            "{place}, {bytes}"
        );
    }
    for (place, bytes) in
        [(65_535, 2), (65_506, 31), (0, u32::MAX), (u32::MAX, 1), (u32::MAX, u32::MAX), (0x8000_0000, 0x8000_0000)]
    {
        let ended = node.end_of(&sending(place, bytes), &GuestOptions::default()).to_string();

        assert_eq!(ended, "trap: list pointer/length out of bounds of memory", "{place}, {bytes}");
    }
    assert_eq!(node.wasm.stats().traps_total, [("other", 6)]);
}

#[test]
fn a_component_that_passes_a_place_outside_of_its_memory_traps() {
    let node = Node::small();

    assert_eq!(
        node.end_of(&labelled(65_536, 0), &GuestOptions::default()),
        ExitReason::Normal,
        "there is nothing to read"
    );
    for (place, bytes) in [(65_535, 2), (0, u32::MAX), (u32::MAX, 1), (u32::MAX, u32::MAX), (0x8000_0000, 0x8000_0000)]
    {
        let ended = node.end_of(&labelled(place, bytes), &GuestOptions::default()).to_string();

        assert_eq!(ended, "trap: string pointer/length out of bounds of memory", "{place}, {bytes}");
    }
    assert_eq!(node.wasm.stats().traps_total, [("other", 5)]);
    assert_eq!(node.end_of(&component(""), &GuestOptions::default()), ExitReason::Normal, "the node still works");
}

/// Types that the interfaces of the `rusm:runtime` world share.
const TYPES: &str = r#"
            (type $pid' (record (field "node" u32) (field "slot" u32) (field "generation" u32)))
            (export "pid" (type $pid (eq $pid')))
            (type $reason' (variant (case "normal") (case "shutdown") (case "shutdown-with" string) (case "killed")
                (case "no-process") (case "no-connection") (case "panic" string) (case "other" string)))
            (export "exit-reason" (type $reason (eq $reason')))"#;

/// A component that monitors a group, joins and leaves it, and traps unless it is notified of both.
fn watcher() -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
        (import "rusm:runtime/process@0.1.0" (instance $process
            {TYPES}
            (type $message' (record (field "tag" u64) (field "body" (list u8)) (field "reply-to" (option u64))))
            (export "message" (type $message (eq $message')))
            (type $signal' (record (field "from" $pid) (field "reason" $reason)))
            (export "exit-signal" (type $signal (eq $signal')))
            (type $down' (record (field "monitor" u64) (field "pid" $pid) (field "reason" $reason)))
            (export "down" (type $down (eq $down')))
            (type $change' (record (field "monitor" u64) (field "group" string) (field "pid" $pid) (field "joined" bool)))
            (export "group-change" (type $change (eq $change')))
            (type $received' (variant (case "message" $message) (case "exit" $signal) (case "down" $down)
                (case "group" $change) (case "opaque" string)))
            (export "received" (type $received (eq $received')))
            (export "receive" (func (param "timeout-ms" (option u64)) (result (option $received))))))
        (import "rusm:runtime/groups@0.1.0" (instance $groups
            {TYPES}
            (type $error' (variant (case "denied" string) (case "no-process") (case "mailbox-full") (case "timed-out")
                (case "callee-exited" $reason) (case "no-such" string) (case "taken" string) (case "limit" string)
                (case "invalid" string)))
            (export "error" (type $error (eq $error')))
            (export "join" (func (param "group" string) (result (result (error $error)))))
            (export "leave" (func (param "group" string) (result (result (error $error)))))
            (export "monitor" (func (param "group" string) (result (result (tuple u64 (list $pid)) (error $error)))))
            (export "demonitor" (func (param "monitor" u64) (result bool)))))
        (core module $memory
            (memory (export "memory") 1)
            (data (i32.const 64) "crew")
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
        (core instance $memory (instantiate $memory))
        (core module $m
            (import "m" "memory" (memory 1))
            (import "g" "receive" (func $receive (param i32 i64 i32)))
            (import "g" "join" (func $join (param i32 i32 i32)))
            (import "g" "leave" (func $leave (param i32 i32 i32)))
            (import "g" "monitor" (func $monitor (param i32 i32 i32)))
            (import "g" "demonitor" (func $demonitor (param i64) (result i32)))
            (func $must (param $holds i32) (if (i32.eqz (local.get $holds)) (then unreachable)))
            (func $hears (param $reference i64) (param $joined i32)
                (call $receive (i32.const 0) (i64.const 0) (i32.const 256))
                (call $must (i32.load8_u (i32.const 256)))
                (call $must (i32.eq (i32.load8_u (i32.const 264)) (i32.const 3)))
                (call $must (i64.eq (i64.load (i32.const 272)) (local.get $reference)))
                (call $must (i32.eq (i32.load (i32.const 284)) (i32.const 4)))
                (call $must (i32.eq (i32.load (i32.load (i32.const 280))) (i32.load (i32.const 64))))
                (call $must (i32.eq (i32.load8_u (i32.const 300)) (local.get $joined))))
            (func (export "run") (param $args i32) (param $count i32) (result i32)
                (local $reference i64)
                (call $monitor (i32.const 64) (i32.const 4) (i32.const 128))
                (call $must (i32.eqz (i32.load8_u (i32.const 128))))
                (local.set $reference (i64.load (i32.const 136)))
                (call $must (i32.eqz (i32.load (i32.const 148))))
                (call $join (i32.const 64) (i32.const 4) (i32.const 192))
                (call $must (i32.eqz (i32.load8_u (i32.const 192))))
                (call $hears (local.get $reference) (i32.const 1))
                (call $leave (i32.const 64) (i32.const 4) (i32.const 192))
                (call $must (i32.eqz (i32.load8_u (i32.const 192))))
                (call $hears (local.get $reference) (i32.const 0))
                (call $must (call $demonitor (local.get $reference)))
                (call $must (i32.eqz (call $demonitor (local.get $reference))))
                (i32.const 16)))
        (alias export $process "receive" (func $receive))
        (alias export $groups "join" (func $join))
        (alias export $groups "leave" (func $leave))
        (alias export $groups "monitor" (func $monitor))
        (alias export $groups "demonitor" (func $demonitor))
        (core func $receive' (canon lower (func $receive) (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
        (core func $join' (canon lower (func $join) (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
        (core func $leave' (canon lower (func $leave) (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
        (core func $monitor' (canon lower (func $monitor) (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
        (core func $demonitor' (canon lower (func $demonitor)))
        (core instance $i (instantiate $m
            (with "m" (instance $memory))
            (with "g" (instance
                (export "receive" (func $receive')) (export "join" (func $join')) (export "leave" (func $leave'))
                (export "monitor" (func $monitor')) (export "demonitor" (func $demonitor'))))))
        (func (export "run") (param "args" (list string)) (result (result (error string)))
            (canon lift (core func $i "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))"#
    ))
    .unwrap()
}

#[test]
fn a_component_hears_who_joins_and_leaves_a_group_that_it_monitors() {
    let node = Node::small();

    assert_eq!(node.end_of(&watcher(), &GuestOptions::default().profile("trusted")), ExitReason::Normal);
    let denied = node.end_of(&watcher(), &GuestOptions::default()).to_string();
    assert_eq!(denied, "trap: unreachable", "`groups` was not granted, which is an error and not an empty group");
}
