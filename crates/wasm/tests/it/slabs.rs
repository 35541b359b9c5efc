//! The allocator for many instances: guests that live in slabs.

use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::ExitReason;
use rusm_wasm::{GuestOptions, InstanceAllocator, WasmConfig};

use crate::guests::{Node, echo, raw, raw_with};

fn slabs(capacity: u32) -> Node {
    Node::start(WasmConfig {
        capacity,
        allocator: InstanceAllocator::Slabs,
        memory_max_bytes: 1 << 20,
        ..WasmConfig::default()
    })
}

#[test]
fn capacity_chooses_the_room() {
    let of = |capacity| {
        Node::start(WasmConfig { capacity, memory_max_bytes: 65_536, ..WasmConfig::default() }).wasm.allocator()
    };

    assert_eq!((of(8), of(100_000)), (InstanceAllocator::Pool, InstanceAllocator::Slabs));
}

#[test]
fn two_thousand_wait_and_each_answers() {
    let node = slabs(2_000);
    let echo = node.load("echo", &echo());
    let pids: Vec<_> = (0..2_000).map(|_| node.spawn(&echo, &GuestOptions::default())).collect();

    let answers = node.inside({
        let pids = pids.clone();
        move |_, ctx| async move {
            let mut answers = 0;
            for pid in pids {
                let answer: Result<Bytes, _> = ctx.call(pid, Bytes::from_static(b"ping"), Duration::from_mins(1)).await;
                answers += u32::from(answer == Ok(Bytes::from_static(b"ping")));
            }
            answers
        }
    });

    assert_eq!(answers, 2_000);
    let stats = node.wasm.stats();
    assert_eq!((stats.live, stats.stacks.used, stats.memories.used), (2_000, 2_000, 2_000));
    for pid in pids {
        node.runtime.exit(pid, ExitReason::Killed);
    }
    node.until("all are gone", |node| node.wasm.stats().memories.used == 0);
}

#[test]
fn a_memory_that_comes_again_is_empty() {
    let node = slabs(2);
    // Fails if anything is left of the previous guest, then overwrites the whole memory.
    let dirty = raw(
        "(local $p i32)",
        r"(drop (memory.grow (i32.const 3)))
        (loop $again
            (if (i64.ne (i64.load (local.get $p)) (i64.const 0)) (then unreachable))
            (i64.store (local.get $p) (i64.const -1))
            (local.set $p (i32.add (local.get $p) (i32.const 512)))
            (br_if $again (i32.lt_u (local.get $p) (i32.const 262144))))",
    );

    for _ in 0..200 {
        assert_eq!(node.end_of(&dirty, &GuestOptions::default()), ExitReason::Normal);
    }
}

#[test]
fn recursion_and_bounds_trap_there_too() {
    let node = slabs(4);
    let module = |run| raw_with("(func $deeper (call $deeper))", "", run);

    assert_eq!(node.end_of(&module("(call $deeper)"), &GuestOptions::default()).to_string(), "trap: stack overflow");
    // At every depth, up to the last one before the overflow, the node has enough stack for a host call.
    let calls = "(func $deeper (drop (call $random (i32.const 0) (i32.const 64))) (drop (call $digest (i32.const 0)
        (i32.const 0) (i32.const 64) (i32.const 64))) (call $label (i32.const 0) (i32.const 5)) (call $deeper))";
    for node in [&node, &Node::small()] {
        let deep = raw_with(calls, "", "(call $deeper)");
        assert_eq!(node.end_of(&deep, &GuestOptions::default()).to_string(), "trap: stack overflow");
    }
    let beyond = node.end_of(&module("(drop (i32.load (i32.const 65536)))"), &GuestOptions::default());
    assert_eq!(beyond.to_string(), "trap: memory out of bounds");
    let hog = module("(loop $again (drop (memory.grow (i32.const 1))) (br $again))");
    assert_eq!(node.end_of(&hog, &GuestOptions::default()).to_string(), "memory_limit(1048576)");
}
