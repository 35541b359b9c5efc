//! Limits of single guests and of all guests together.

use bytes::Bytes;
use rusm_runtime::observe::{self, ProcessState};
use rusm_runtime::{Config, ExitReason, Runtime};
use rusm_wasm::{GuestError, GuestLimits, GuestOptions, InstanceAllocator, MemoryLimit, Wasm, WasmConfig};

use crate::facts::{SLICES, fact};
use crate::guests::{Node, echo, number, raw, raw_with, spin};

/// Grows its memory forever.
fn hog() -> Vec<u8> {
    raw("", "(loop $again (drop (memory.grow (i32.const 1))) (br $again))")
}

#[test]
fn memory_beyond_the_limit_is_the_reason() {
    let node = Node::small();

    let reason = node.end_of(&hog(), &GuestOptions::default().memory_max_bytes(5 * 65_536));

    assert_eq!(reason, ExitReason::other("memory_limit(327680)"));
    let ExitReason::Other(detail) = reason else { unreachable!() };
    let limit = MemoryLimit { memory_max_bytes: 327_680, of_all_guests: false, wanted_bytes: 6 * 65_536 };
    assert_eq!(detail.value::<MemoryLimit>(), Some(&limit));
    assert_eq!(node.end_of(&hog(), &GuestOptions::default()).to_string(), "memory_limit(16777216)");
}

#[test]
fn all_guests_together_have_one_bound_on_memory_streams_and_timers() {
    let node = Node::start(WasmConfig { capacity: 64, guests_memory_max_bytes: 4 << 20, ..WasmConfig::default() });
    let open = "(call $stream_open (call $self) (i32.const 1048576))";
    let opens = format!(
        "(loop $again (br_if $again (i64.gt_s {open} (i64.const 0)))) (if (i64.ne {open} (i64.const -8)) (then unreachable))"
    );
    let after = "(call $send_after (call $self) (i64.const 600000) (i64.const 0) (i32.const 0) (i32.const 0))";
    let sets = format!(
        r"(loop $again (local.set $n (i32.add (local.get $n) (i32.const 1))) (br_if $again (i64.gt_s {after} (i64.const 0))))
        (if (i64.ne {after} (i64.const -8)) (then unreachable))
        (if (i32.lt_u (local.get $n) (i32.const 9000)) (then unreachable))"
    );
    let other = node.spawn(&node.load("other", &echo()), &GuestOptions::default());

    // The memory of a guest is free again at its end.
    for _ in 0..3 {
        assert_eq!(
            node.end_of(&hog(), &GuestOptions::default()),
            ExitReason::other("memory_limit(4194304 of all guests)")
        );
        assert_eq!(node.end_of(&raw("", &opens), &GuestOptions::default().profile("trusted")), ExitReason::Normal);
        assert_eq!(node.end_of(&raw("", &sets), &GuestOptions::default()), ExitReason::Normal);
    }
    assert!(node.runtime.is_alive(other));
}

#[test]
fn timers_that_outlive_their_guest_count_in_the_bound_of_all_guests() {
    let node = Node::start(WasmConfig { capacity: 64, guests_memory_max_bytes: 4 << 20, ..WasmConfig::default() });
    // Sets timers of ten minutes for the pid in its first message, and reports their number.
    let setter = raw(
        "",
        "(drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
        (loop $again (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i64.gt_s (call $send_after (i64.load (i32.const 0)) (i64.const 600000) (i64.const 0) (i32.const 0) (i32.const 60)) (i64.const 0))))
        (i32.store (i32.const 8) (local.get $n))
        (drop (call $send (i64.load (i32.const 0)) (i64.const 0) (i32.const 8) (i32.const 4)))",
    );
    let setter = node.load("setter", &setter);
    let rounds = |count: usize| {
        let setter = setter.clone();
        node.inside(move |wasm, ctx| async move {
            let mut set = Vec::new();
            for _ in 0..count {
                let pid = wasm.spawn(&ctx.runtime(), &setter, &GuestOptions::default().profile("trusted")).unwrap();
                ctx.monitor(pid);
                ctx.send(pid, Bytes::copy_from_slice(&number(ctx.pid()).to_le_bytes())).await;
                let answer = ctx.receive_of::<Bytes>().await;
                set.push(u32::from_le_bytes(answer[..].try_into().unwrap()));
                ctx.receive_of::<rusm_runtime::Down>().await;
            }
            set
        })
    };

    let first = rounds(3);

    assert!(first[0] > 8_000 && first[1..].iter().all(|set| *set < 200), "{first:?}");
    // The process for which they were set may still be ending.
    assert!((0..10_000).any(|_| rounds(1)[0] > 8_000), "the timers of a process that has ended are gone");
}

#[test]
fn monitors_and_children_count_in_the_bound_of_all_guests() {
    let node = Node::start(WasmConfig { capacity: 64, guests_memory_max_bytes: 4 << 20, ..WasmConfig::default() });
    let other = node.spawn(&node.load("other", &echo()), &GuestOptions::default());
    let monitors = format!(
        "(loop $again (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i64.ne (call $monitor (i64.const {})) (i64.const 0))))
        (if (i32.gt_u (local.get $n) (i32.const 40000)) (then unreachable))",
        number(other)
    );
    let child =
        "(call $supervisor_child (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 2) (i64.const 0))";
    let children = format!(
        "(loop $again (local.set $n (i32.add (local.get $n) (i32.const 1))) (br_if $again (i32.eqz {child})))
        (if (i32.ne {child} (i32.const -8)) (then unreachable))
        (if (i32.gt_u (local.get $n) (i32.const 4000)) (then unreachable))"
    );
    let guest = |run: &str| raw_with(r#"(data (i32.const 0) "x")"#, "", run);

    // Each is free again at the end of its guest.
    for _ in 0..3 {
        assert_eq!(node.end_of(&guest(&monitors), &GuestOptions::default()), ExitReason::Normal);
        assert_eq!(node.end_of(&guest(&children), &GuestOptions::default().profile("trusted")), ExitReason::Normal);
    }
    assert!(node.runtime.is_alive(other));
}

#[test]
fn a_long_message_that_finds_no_memory_is_charged_to_its_sender_until_its_receiver_takes_another_one() {
    // Room for the memories of the guests, and for no message.
    let config = WasmConfig { capacity: 64, guests_memory_max_bytes: 6 * 65_536, ..WasmConfig::default() };
    let node = Node::start(config);
    // Answers each message; the number of the sender is at its start.
    let keeps = "(loop $again (drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
        (drop (call $send (i64.load (i32.const 0)) (i64.const 0) (i32.const 0) (i32.const 8))) (br $again))";
    let keeps = node.load("keeps", &raw("", keeps));
    let trusted = GuestOptions::default().profile("trusted");
    let [one, two, three] = [(); 3].map(|()| number(node.spawn(&keeps, &trusted)));
    let send = |name: &str, to: i64, bytes: u32| {
        format!("(call ${name} (i64.const {to}) (i64.const 0) (i32.const 0) (i32.const {bytes}))")
    };
    let ask = |to: i64, bytes: u32| {
        format!("(if {} (then unreachable)) (drop (call $receive (i64.const -1)))", send("send", to, bytes))
    };
    let sends = format!(
        "(drop (memory.grow (i32.const 1))) (i64.store (i32.const 0) (call $self)) {} {}
        (if (i32.eqz {third}) (then unreachable)) {} (if {third} (then unreachable))",
        ask(one, 100_000),
        ask(two, 100_000),
        ask(one, 8),
        third = send("try_send", three, 100_000),
    );

    let limits = GuestLimits { sent_max_bytes: Some(200_000), ..GuestLimits::default() };
    assert_eq!(node.end_of(&raw("", &sends), &trusted.limits(limits)), ExitReason::Normal);
}

#[test]
fn a_long_message_that_waits_for_the_quota_of_its_sender_counts_in_the_bound_of_all_guests() {
    let end_with = |guests_memory_max_bytes: u64| {
        let config = WasmConfig { capacity: 64, guests_memory_max_bytes, ..WasmConfig::default() };
        let send = |bytes| format!("(call $send (call $self) (i64.const 0) (i32.const 0) (i32.const {bytes}))");
        // The first message fills the quota, so the second one does not fit into it.
        let sends = format!("(drop (memory.grow (i32.const 3))) (drop {}) (drop {})", send(200_000), send(200_001));
        let limits = GuestLimits { sent_max_bytes: Some(200_000), ..GuestLimits::default() };
        let node = Node::start(config);
        let module = node.load("sends", &raw("", &sends));
        let pid = node.spawn(&module, &GuestOptions::default().limits(limits));
        (node, pid)
    };

    // Without room to wait, the call returns.
    let (node, pid) = end_with(400_000);
    node.until("it has ended", |node| !node.runtime.is_alive(pid));
    // With room, it waits for the guest to receive the first one, which it never does.
    let (node, pid) = end_with(700_000);
    let waits = [ProcessState::Waiting, ProcessState::Io];
    node.until("it waits", |node| observe::process(&node.runtime, pid).is_some_and(|seen| waits.contains(&seen.state)));
}

#[test]
fn growth_that_no_number_holds_is_beyond_the_limit_too() {
    let node = Node::small();
    // Two memories; the second one may be asked to grow by almost as much as 64 bits can express.
    let wraps = |pages: &str| {
        wat::parse_str(format!(
            r#"(module (memory 1) (memory $wide i64 1)
            (func (export "run") (drop (memory.grow $wide (i64.const {pages})))
                (loop $again (drop (memory.grow 0 (i32.const 1))) (br $again))))"#
        ))
        .unwrap()
    };
    let end =
        |pages: &str| node.end_of(&wraps(pages), &GuestOptions::default().memory_max_bytes(8 * 65_536)).to_string();

    for pages in ["-1", "-2", "281474976710655", "281474976710654", "6", "7"] {
        assert_eq!(end(pages), "memory_limit(524288)", "{pages}");
    }
}

#[test]
fn memory_up_to_the_limit_can_be_used_to_its_last_byte() {
    let whole = raw(
        "",
        r"(if (i32.ne (memory.grow (i32.const 4)) (i32.const 1)) (then unreachable))
        (i32.store8 (i32.const 327679) (i32.const 7))
        (if (i32.ne (i32.load8_u (i32.const 327679)) (i32.const 7)) (then unreachable))
        (drop (i32.load8_u (i32.const 327680)))",
    );

    // An address beyond every guard region.
    let far = raw("", "(drop (i32.load8_u offset=100000000 (i32.const 7)))");
    let rooms = [
        (64, InstanceAllocator::Pool, "pool"),
        (2_000, InstanceAllocator::Pool, "checked pool"),
        (64, InstanceAllocator::Slabs, "slabs"),
    ];

    for (capacity, room, word) in rooms {
        let node = Node::start(WasmConfig { capacity, allocator: room, ..WasmConfig::default() });
        for guest in [&whole, &far] {
            let reason = node.end_of(guest, &GuestOptions::default().memory_max_bytes(5 * 65_536));

            assert_eq!(reason, ExitReason::other("trap: memory out of bounds"), "{word}");
        }
        assert_eq!(node.wasm.stats().allocator, word);
    }
}

#[test]
fn a_memory_that_is_too_large_from_the_start_is_refused_with_the_number() {
    let node = Node::small();
    let large = wat::parse_str(r#"(module (memory (export "memory") 65536) (func (export "run")))"#).unwrap();
    let medium = wat::parse_str(r#"(module (memory (export "memory") 10) (func (export "run")))"#).unwrap();

    let refused = node.wasm.load("large", &large).map(|_| ()).unwrap_err().to_string();

    assert!(refused.contains("large") && refused.contains("memory"), "{refused}");
    let reason = node.end_of(&medium, &GuestOptions::default().memory_max_bytes(65_536));
    assert_eq!(reason.to_string(), "memory_limit(65536)");
}

#[test]
fn beyond_the_capacity_a_spawn_is_an_error_with_the_limit_in_it() {
    let node = Node::start(WasmConfig { capacity: 4, ..WasmConfig::default() });
    let echo = node.load("echo", &echo());
    let pids: Vec<_> = (0..4).map(|_| node.spawn(&echo, &GuestOptions::default())).collect();

    let error = node.wasm.spawn(&node.runtime, &echo, &GuestOptions::default()).unwrap_err();

    assert!(matches!(error, GuestError::Capacity { capacity: 4 }));
    assert_eq!(error.to_string(), "all 4 wasm instances are in use: raise the capacity of the wasm engine");
    assert_eq!((node.wasm.stats().live, node.wasm.stats().refused_total), (4, 1));
    let watch = node.runtime.watch(pids[0]);
    node.runtime.exit(pids[0], ExitReason::Killed);
    watch.wait();
    node.until("there is room again", |node| node.wasm.spawn(&node.runtime, &echo, &GuestOptions::default()).is_ok());
}

#[test]
fn a_spawn_bomb_meets_the_capacity_and_not_the_node() {
    let node = Node::start(WasmConfig { capacity: 50, ..WasmConfig::default() });
    let bomb = raw(
        "",
        r"(loop $again
            (local.set $pid (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
            (br_if $again (i64.gt_s (local.get $pid) (i64.const 0))))
        (drop (call $receive (i64.const -1)))",
    );
    let bomb = node.load("bomb", &bomb);

    node.spawn(&bomb, &GuestOptions::default().profile("trusted"));

    node.until("it has met the limit", |node| node.wasm.stats().refused_total > 0);
    assert_eq!(node.wasm.stats().live, 50);
    assert_eq!(node.inside(|_, ctx| async move { ctx.pid().node() }), 0);
}

#[test]
fn a_table_grows_no_further_than_allowed() {
    let node = Node::start(WasmConfig { capacity: 4, table_max_elements: 100, ..WasmConfig::default() });
    let grow = raw_with(
        "(table $t 1 funcref)",
        "",
        r"(if (i32.ne (table.grow $t (ref.null func) (i32.const 99)) (i32.const 1)) (then unreachable))
        (if (i32.ne (table.grow $t (ref.null func) (i32.const 1)) (i32.const -1)) (then unreachable))",
    );
    // Growth that the table itself does not allow is not counted either.
    let own = raw_with(
        "(table $t 1 2 funcref)",
        "",
        "(if (i32.ne (table.grow $t (ref.null func) (i32.const 2)) (i32.const -1)) (then unreachable)) (drop (call $receive (i64.const -1)))",
    );

    assert_eq!(node.end_of(&grow, &GuestOptions::default()), ExitReason::Normal);
    let own = node.load("own", &own);
    let pid = node.spawn(&own, &GuestOptions::default());
    let elements = ("table_elements", observe::BodyFact::Count(1));
    node.until("it has tried", |node| {
        let facts = observe::body_info(&node.runtime, pid).unwrap().facts();
        facts.contains(&elements) && facts.contains(&("last_host_call", observe::BodyFact::Text("receive".into())))
    });
    node.runtime.exit(pid, ExitReason::Killed);
}

#[test]
fn a_message_beyond_the_limit_is_refused_and_one_below_it_is_whole() {
    let node = Node::start(WasmConfig { capacity: 4, message_max_bytes: 1000, ..WasmConfig::default() });
    let sends = raw(
        "",
        r"(if (i32.ne (call $send (call $self) (i64.const 0) (i32.const 0) (i32.const 1001)) (i32.const -8)) (then unreachable))
        (if (i32.ne (call $send (call $self) (i64.const 0) (i32.const 0) (i32.const 1000)) (i32.const 0)) (then unreachable))
        (if (i32.ne (call $receive (i64.const 0)) (i32.const 1)) (then unreachable))
        (if (i32.ne (call $item_len) (i32.const 1000)) (then unreachable))",
    );

    assert_eq!(node.end_of(&sends, &GuestOptions::default()), ExitReason::Normal);
}

#[test]
fn timers_hold_no_more_for_a_guest_than_it_may_have_itself() {
    let node = Node::small();
    let set = "(call $send_after (call $self) (i64.const 600000) (i64.const 0) (i32.const 0) (i32.const 40000))";
    let sets = raw(
        "",
        &format!(
            r"(local.set $pid {set})
            (if (i64.le_s (local.get $pid) (i64.const 0)) (then unreachable))
            (if (i64.ne {set} (i64.const -8)) (then unreachable))
            (drop (call $cancel (local.get $pid)))
            (if (i64.le_s {set} (i64.const 0)) (then unreachable))"
        ),
    );

    assert_eq!(node.end_of(&sets, &GuestOptions::default().memory_max_bytes(65_536)), ExitReason::Normal);
}

#[test]
fn timers_that_have_fired_stand_in_the_way_of_no_interval() {
    let node = Node::small();
    let sets = raw(
        "(local $i i32)",
        r"(loop $again
            (drop (call $send_after (call $self) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 1)))
            (drop (call $receive (i64.const -1)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (i32.const 40))))
        (if (i64.le_s (call $send_every (call $self) (i64.const 1) (i64.const 0) (i32.const 0) (i32.const 1)) (i64.const 0))
            (then unreachable))",
    );

    assert_eq!(node.end_of(&sets, &GuestOptions::default()), ExitReason::Normal);
}

#[test]
fn arguments_for_another_guest_are_as_few_as_they_may_be() {
    let node = Node::small();
    let spawn = |bytes: u32| {
        format!(
            "(call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const {bytes}) (i32.const 0) (i32.const 0) (i32.const 0))"
        )
    };
    // Arguments are separated by zero bytes, so there is one argument more than bytes. A guest with arguments was
    // started by this one.
    let spawns = raw(
        "",
        &format!(
            r"(if (call $arg_count) (then return))
            (if (i64.ne {} (i64.const -8)) (then unreachable))
            (if (i64.le_s {} (i64.const 0)) (then unreachable))",
            spawn(1024),
            spawn(1023)
        ),
    );

    assert_eq!(node.end_of(&spawns, &GuestOptions::default().profile("trusted")), ExitReason::Normal);
}

/// The node does more with texts than to copy them, and a call is not interrupted.
#[test]
fn texts_and_keys_are_far_shorter_than_the_memory_of_a_guest() {
    let node = Node::small();
    let mut calls = String::from("(drop (memory.grow (i32.const 200)))");
    for bytes in [4_097, 65_537, 13_000_000] {
        for call in [
            format!("(call $register (i32.const 0) (i32.const {bytes}))"),
            format!("(call $unregister (i32.const 0) (i32.const {bytes}))"),
            format!("(call $join (i32.const 0) (i32.const {bytes}))"),
            format!(
                "(i32.wrap_i64 (call $spawn (i32.const 0) (i32.const {bytes}) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))"
            ),
            format!(
                "(i32.wrap_i64 (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const {bytes}) (i32.const 0)))"
            ),
        ] {
            calls.extend(["(if (i32.ne ", call.as_str(), " (i32.const -9)) (then unreachable))\n"]);
        }
        let (log, label) = ("(call $log (i32.const 2) (i32.const 0)", "(call $label (i32.const 0)");
        calls.extend([log, label].map(|call| format!("{call} (i32.const {bytes}))")));
    }
    // One argument of more bytes than all may have together.
    calls.push_str(
        "(memory.fill (i32.const 0) (i32.const 65) (i32.const 70000))
        (if (i64.ge_s (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 65537) (i32.const 0) (i32.const 0)
            (i32.const 0)) (i64.const 0)) (then unreachable))",
    );

    assert_eq!(node.end_of(&raw("", &calls), &GuestOptions::default().profile("trusted")), ExitReason::Normal);
}

#[test]
fn monitors_of_ended_processes_and_of_oneself_keep_no_place() {
    let node = Node::small();
    let monitors = raw(
        "(local $i i32)",
        "(loop $again
            (drop (call $demonitor (call $monitor (i64.const 5555))))
            (drop (call $demonitor (call $monitor (call $self))))
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 70000))))
        (if (i32.ne (call $receive (i64.const 0)) (i32.const 0)) (then unreachable))",
    );

    assert_eq!(node.end_of(&monitors, &GuestOptions::default()), ExitReason::Normal);
}

#[test]
fn monitors_are_as_many_as_they_may_be_and_one_more_is_refused() {
    let node = Node::small();
    let monitors = raw_with(
        "(global $first (mut i64) (i64.const 0))",
        "",
        r"(drop (call $trap_exits (i32.const 1)))
        (global.set $first (call $monitor (call $parent)))
        (loop $again
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (if (i64.eqz (call $monitor (call $parent))) (then unreachable))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 65535))))
        (if (i64.ne (call $monitor (call $parent)) (i64.const 0)) (then unreachable))
        (if (i32.ne (call $receive (i64.const -1)) (i32.const 2)) (then unreachable))
        (if (i32.ne (call $demonitor (global.get $first)) (i32.const 1)) (then unreachable))
        (if (i64.eqz (call $monitor (call $parent))) (then unreachable))",
    );

    assert_eq!(node.end_of(&monitors, &GuestOptions::default()), ExitReason::Normal);
}

#[test]
fn a_heap_with_a_collector_has_the_same_limit() {
    let node = Node::small();
    let collects = raw_with(
        "(type $bytes (array (mut i8)))
        (type $node (struct (field (ref null $node)) (field (ref $bytes))))
        (global $head (mut (ref null $node)) (ref.null $node))",
        "",
        "(loop $again
            (global.set $head (struct.new $node (global.get $head) (array.new_default $bytes (i32.const 65000))))
            (br $again))",
    );

    assert_eq!(node.end_of(&collects, &GuestOptions::default()).to_string(), "memory_limit(16777216)");
}

#[test]
fn what_a_guest_uses_is_in_its_row() {
    let node = Node::small();
    let spin = node.load("spin", &spin());
    let pid = node.spawn(&spin, &GuestOptions::default());
    let seen = |node: &Node| observe::body_info(&node.runtime, pid).unwrap();

    node.until("its memory is counted", |node| {
        seen(node).facts().contains(&("linear_memory_bytes", observe::BodyFact::Bytes(65_536)))
    });
    let extra = seen(&node);
    assert_eq!((extra.kind(), extra.source().as_deref()), ("wasm", Some("spin")));
    let memory = observe::process_in_slot(&node.runtime, pid.slot()).unwrap().memory_bytes();
    assert!(memory > 65_536, "{memory}");
    node.runtime.exit(pid, ExitReason::Killed);
}

#[test]
fn a_process_that_is_ready_does_not_wait_for_all_guests_that_compute() {
    let node = Node::small();
    let spin = node.load("spin", &spin());
    let guests: Vec<_> = (0..40).map(|_| node.spawn(&spin, &GuestOptions::default())).collect();
    let slices = |node: &Node| guests.iter().map(|pid| fact(&node.runtime, *pid, SLICES)).sum::<u64>();
    node.until("all of them compute", |node| guests.iter().all(|pid| fact(&node.runtime, *pid, SLICES) > 0));

    let before = slices(&node);
    node.inside(|_, ctx| async move {
        for _ in 0..100 {
            ctx.yield_now().await;
        }
    });

    // In turn with all of them, each of its 100 turns would take 20 slices on each of two schedulers.
    let taken = slices(&node) - before;
    assert!(taken < 1_000, "{taken}");
}

#[test]
fn a_process_that_is_ready_does_not_wait_for_all_guests_of_a_spawn_bomb() {
    let node = Node::start(WasmConfig { capacity: 200, ..WasmConfig::default() });
    let bomb = raw(
        "",
        "(loop $again
            (drop (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
            (br $again))",
    );
    let bomb = node.load("bomb", &bomb);

    let ticks = node.inside(move |wasm, ctx| async move {
        wasm.spawn_from(&ctx, &bomb, &GuestOptions::default().profile("trusted")).unwrap();
        while wasm.stats().live < 2 {
            ctx.yield_now().await;
        }
        let before = wasm.stats().ticks_total;
        for _ in 0..50 {
            ctx.yield_now().await;
        }
        wasm.stats().ticks_total - before
    });

    // In turn with all of them, each of its 50 turns would take 100 ticks.
    assert!(ticks < 1_500, "{ticks}");
}

#[test]
fn a_guest_that_receives_no_ends_of_its_children_starts_no_more() {
    let node = Node::small();
    // Ties: 1 is a link, with an exit that the guest traps, and 2 a monitor.
    for ties in [1, 2, 3] {
        let parent = raw_with(
            r#"(data (i32.const 0) "child") "#,
            "(local $starts i32)",
            &format!(
                r"(if (call $arg_count) (then (return)))
                (drop (call $trap_exits (i32.const 1)))
                (loop $again
                    (local.set $pid (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 0) (i32.const 0) (i32.const {ties})))
                    (call $yield)
                    (local.set $starts (i32.add (local.get $starts) (i32.const 1)))
                    (if (i32.gt_u (local.get $starts) (i32.const 100000)) (then unreachable))
                    (br_if $again (i64.gt_s (local.get $pid) (i64.const 0))))"
            ),
        );

        let reason = node.end_of(&parent, &GuestOptions::default().profile("trusted"));

        assert_eq!(reason, ExitReason::Normal, "with ties {ties}");
    }
}

#[test]
fn a_guest_that_receives_no_ends_of_its_supervisors_starts_no_more() {
    let node = Node::small();
    let parent = raw_with(
        "",
        "(local $starts i32)",
        r"(if (call $arg_count) (then (call $sleep (i64.const 100000))))
        (drop (call $trap_exits (i32.const 1)))
        (loop $again
            (drop (call $supervisor_child (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1)
                (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 0) (i64.const 0)))
            (local.set $pid (call $supervisor_start (i32.const 0) (i32.const 0) (i64.const 1000)))
            (drop (call $exit (local.get $pid) (i32.const 1) (i32.const 0) (i32.const 0)))
            (call $yield)
            (local.set $starts (i32.add (local.get $starts) (i32.const 1)))
            (if (i32.gt_u (local.get $starts) (i32.const 100000)) (then unreachable))
            (br_if $again (i64.gt_s (local.get $pid) (i64.const 0))))",
    );

    assert_eq!(node.end_of(&parent, &GuestOptions::default().profile("trusted")), ExitReason::Normal);
}

#[test]
fn others_do_not_fill_the_mailbox_of_a_guest_by_links() {
    let config = Config { schedulers: 2, mailbox_capacity: 16, ..Config::default() };
    let runtime = Runtime::start(config).unwrap();
    let node = Node { runtime, wasm: Wasm::start(WasmConfig { capacity: 8, ..WasmConfig::default() }).unwrap() };
    let parent = raw_with(
        "",
        "(local $starts i32) (local $ends i32)",
        r"(if (call $arg_count) (then (call $link (call $parent)) (unreachable)))
        (drop (call $trap_exits (i32.const 1)))
        (loop $again
            (drop (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)))
            (call $yield)
            (local.set $starts (i32.add (local.get $starts) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $starts) (i32.const 2000))))
        (loop $next
            (local.set $ends (i32.add (local.get $ends) (i32.const 1)))
            (if (i32.gt_u (local.get $ends) (i32.const 32)) (then unreachable))
            (br_if $next (call $receive (i64.const 0))))",
    );

    assert_eq!(node.end_of(&parent, &GuestOptions::default().profile("trusted")), ExitReason::Normal);
}
