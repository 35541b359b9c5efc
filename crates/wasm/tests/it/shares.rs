//! Limits of single guests: the node's limits, narrowed by the profile, by the process that starts a guest, and by the
//! limits of a parent guest.

use bytes::Bytes;
use rusm_runtime::{Down, ExitReason};
use rusm_wasm::{Capabilities, GuestLimits, GuestOptions, Profiles, WasmConfig};

use crate::facts::{SLICES, fact};
use crate::guests::{Node, raw, raw_with, spin};

/// Starts a node with the profile `tight`, which has every capability but low limits.
fn tight() -> Node {
    let mut profiles = Profiles::default();
    profiles.set("tight", Capabilities::all());
    let limits = GuestLimits {
        memory_max_bytes: Some(131_072),
        table_max_elements: Some(10),
        parts_max: Some(1),
        message_max_bytes: Some(100),
        cpu_max_percent: Some(30),
        ..GuestLimits::default()
    };
    profiles.set_limits("tight", limits);
    Node::start(WasmConfig { capacity: 16, profiles, ..WasmConfig::default() })
}

/// Ends normally if a table of one element can grow to 10 elements but no further, and a message can have 100 bytes but
/// no more.
const TRIES: &str = r"(if (i32.ne (table.grow $t (ref.null func) (i32.const 9)) (i32.const 1)) (then unreachable))
    (if (i32.ne (table.grow $t (ref.null func) (i32.const 1)) (i32.const -1)) (then unreachable))
    (if (i32.ne (call $send (call $self) (i64.const 0) (i32.const 0) (i32.const 101)) (i32.const -8)) (then unreachable))
    (if (i32.ne (call $send (call $self) (i64.const 0) (i32.const 0) (i32.const 100)) (i32.const 0)) (then unreachable))";

#[test]
fn a_profile_says_what_its_processes_may_use() {
    let node = tight();
    let tries = raw_with("(table $t 1 funcref)", "", TRIES);
    let two_memories = wat::parse_str(r#"(module (memory 1) (memory 1) (func (export "run")))"#).expect("valid");

    assert_eq!(node.end_of(&tries, &GuestOptions::default().profile("tight")), ExitReason::Normal);
    assert_eq!(node.end_of(&two_memories, &GuestOptions::default()), ExitReason::Normal);
    let refused = node.end_of(&two_memories, &GuestOptions::default().profile("tight")).to_string();
    assert!(refused.contains("memory count too high"), "{refused}");
}

#[test]
fn whoever_starts_a_guest_can_limit_it_further_and_not_widen() {
    let node = tight();
    let waits = node.load("waits", &raw("", "(drop (call $receive (i64.const -1)))"));
    let held = |limits: GuestLimits| {
        let pid = node.spawn(&waits, &GuestOptions::default().profile("tight").limits(limits));
        (fact(&node.runtime, pid, "linear_memory_max_bytes"), fact(&node.runtime, pid, "cpu_max_percent"))
    };

    let narrower = GuestLimits { memory_max_bytes: Some(65_536), cpu_max_percent: Some(5), ..GuestLimits::default() };
    let wider = GuestLimits { memory_max_bytes: Some(1 << 30), cpu_max_percent: Some(100), ..GuestLimits::default() };

    assert_eq!(held(narrower), (65_536, 5));
    assert_eq!(held(wider), (131_072, 30));
    assert_eq!(held(GuestLimits::default()), (131_072, 30));
}

#[test]
fn what_a_limited_guest_starts_is_as_limited() {
    let node = tight();
    node.load("tries", &raw_with("(table $t 1 funcref)", "", TRIES));
    // The profile `trusted` has wider limits in every respect, whichever guest requests it with `spawn_as`.
    let starter = raw_with(
        r#"(data (i32.const 0) "tries") (data (i32.const 16) "trusted")"#,
        "",
        r"(drop (call $spawn_as (i32.const 0) (i32.const 5) (i32.const 0) (i32.const 0)
            (i32.const 16) (i32.const 7) (i32.const 2) (i32.const 0) (i32.const 0) (i64.const 0)))
        (if (i32.ne (call $receive (i64.const -1)) (i32.const 3)) (then unreachable))
        (local.set $n (call $item_read (i32.const 100) (i32.const 100) (i32.const 0)))
        (drop (call $exit (call $self) (i32.const 4) (i32.const 100) (local.get $n)))",
    );

    let by =
        |profile: &'static str, limits| node.end_of(&starter, &GuestOptions::default().profile(profile).limits(limits));

    assert_eq!(by("tight", GuestLimits::default()).to_string(), "normal");
    let limits = GuestLimits { message_max_bytes: Some(100), table_max_elements: Some(10), ..GuestLimits::default() };
    assert_eq!(by("trusted", limits).to_string(), "normal", "because of the limits with which it was started");
    assert_eq!(by("trusted", GuestLimits::default()).to_string(), "trap: unreachable", "without limits it can do more");
}

#[test]
fn a_guest_with_a_share_rests_and_one_without_never_does() {
    let node = Node::small();
    let spin = node.load("spin", &spin());
    let limits = GuestLimits { cpu_max_percent: Some(10), ..GuestLimits::default() };

    let (limited, free) =
        (node.spawn(&spin, &GuestOptions::default().limits(limits)), node.spawn(&spin, &GuestOptions::default()));

    node.until("it has rested", |node| fact(&node.runtime, limited, "rests_total") > 5);
    node.until("the other was taken off", |node| fact(&node.runtime, free, SLICES) > 5);
    assert_eq!(
        (fact(&node.runtime, limited, "cpu_max_percent"), fact(&node.runtime, free, "cpu_max_percent")),
        (10, 100)
    );
    assert_eq!(fact(&node.runtime, free, "rests_total"), 0);
    // Each rest lasts at least 10 ms and follows a slice of a tick or two.
    for pid in [limited, free] {
        let watch = node.runtime.watch(pid);
        node.runtime.exit(pid, ExitReason::Killed);
        assert_eq!(watch.wait(), ExitReason::Killed);
    }
}

#[test]
fn a_guest_that_rests_gets_what_it_was_sent_meanwhile_in_its_order() {
    let node = Node::small();
    // Reads the number in a message, works for some ticks, and expects the next number in the next message.
    let works = raw(
        "(local $i i32) (local $work i32)",
        r"(loop $again
            (if (i32.ne (call $receive (i64.const -1)) (i32.const 1)) (then unreachable))
            (drop (call $item_read (i32.const 0) (i32.const 1) (i32.const 0)))
            (if (i32.ne (i32.load8_u (i32.const 0)) (local.get $i)) (then unreachable))
            (local.set $work (i32.const 3000000))
            (loop $work (br_if $work (local.tee $work (i32.sub (local.get $work) (i32.const 1)))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (i32.const 30))))",
    );
    let works = node.load("works", &works);

    let reason = node.inside(move |wasm, ctx| async move {
        let limits = GuestLimits { cpu_max_percent: Some(50), ..GuestLimits::default() };
        let (pid, _) =
            wasm.spawn_from(&ctx, &works, &GuestOptions::default().limits(limits).monitored()).expect("room");
        for number in 0..30_u8 {
            ctx.send(pid, Bytes::from(vec![number])).await;
            ctx.yield_now().await;
        }
        ctx.receive_of::<Down>().await.reason
    });

    assert_eq!(reason, ExitReason::Normal);
}
