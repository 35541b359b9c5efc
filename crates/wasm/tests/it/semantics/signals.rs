//! Messages, ends, names, timers and calls.

use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::{Config, Down, ExitReason, Runtime, TaggedBytes};
use rusm_wasm::{GuestOptions, Wasm, WasmConfig};

use super::end_of;
use super::family::{NOTHING, family, message, order, says, signal, start, status, trapping, word};
use crate::guests::{Node, echo, number, raw, spin};

#[test]
fn s01_s03_what_a_guest_sent_before_its_end_arrives_in_order_and_before_its_signals() {
    let steps = [
        trapping(1),
        start("a", 3),
        order("a", 7),
        r"(local.set $t (i64.const 100))
        (loop $next
            (call $kind (i32.const 1))
            (call $must (call $is (local.get $t)))
            (local.set $t (i64.add (local.get $t) (i64.const 1)))
            (br_if $next (i64.lt_s (local.get $t) (i64.const 600))))"
            .to_owned(),
        // The exit signal and the down message, in either order.
        "(local.set $n (call $receive (i64.const -1)))".to_owned(),
        says("normal"),
        "(call $must (i32.eq (i32.add (local.get $n) (call $receive (i64.const -1))) (i32.const 5)))".to_owned(),
        says("normal"),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s02_to_a_dead_pid_send_vanishes_and_try_send_and_call_say_so() {
    let steps = [
        start("a", 2),
        order("a", 1),
        signal(3, "a"),
        status(0, "(call $send (local.get $a) (i64.const 0) (i32.const 0) (i32.const 8))"),
        status(-2, "(call $try_send (local.get $a) (i64.const 0) (i32.const 0) (i32.const 8))"),
        status(-2, "(call $call (local.get $a) (i64.const 0) (i32.const 0) (i32.const 8) (i64.const 60000))"),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s02_a_full_mailbox_hands_the_message_back_and_what_is_in_it_is_whole() {
    let steps = [
        r"(loop $fill
            (local.set $n (call $try_send (call $self) (local.get $t) (i32.const 0) (i32.const 0)))
            (if (i32.eqz (local.get $n)) (then
                (local.set $t (i64.add (local.get $t) (i64.const 1)))
                (br $fill))))
        (call $must (i32.eq (local.get $n) (i32.const -3)))
        (call $must (i64.gt_s (local.get $t) (i64.const 0)))
        (loop $empty
            (call $kind (i32.const 1))
            (call $must (call $is (local.get $u)))
            (local.set $u (i64.add (local.get $u) (i64.const 1)))
            (br_if $empty (i64.lt_s (local.get $u) (local.get $t))))"
            .to_owned(),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s04_a_guest_selects_the_first_that_matches_and_a_timeout_of_zero_only_looks() {
    let own = |tag| format!("(call $tell (call $self) (i64.const {tag}))");
    let tagged = |tag, kind| status(kind, &format!("(call $receive_tagged (i64.const {tag}) (i64.const 0))"));
    let steps = [
        NOTHING.to_owned(),
        own(1),
        own(9),
        own(2),
        own(9),
        own(3),
        tagged(8, 0),
        status(0, "(call $receive_tagged (i64.const 8) (i64.const 3))"),
        tagged(9, 1),
        message(1),
        tagged(3, 1),
        message(2),
        message(9),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s05_a_guest_with_a_full_mailbox_dies_at_once_when_killed() {
    let steps = [
        start("a", 2),
        order("a", 8),
        r"(loop $fill
            (local.set $n (call $try_send (local.get $a) (i64.const 5) (i32.const 0) (i32.const 0)))
            (br_if $fill (i32.eqz (local.get $n))))"
            .to_owned(),
        status(0, &format!("(call $exit (local.get $a) (i32.const 3) {})", word(""))),
        // The child replied to none of the many messages.
        signal(3, "a"),
        says("killed"),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s06_a_guest_ends_with_a_reason_that_other_guests_read() {
    let exit = |reason: u32| format!("(call $exit (local.get $a) (i32.const {reason}) {})", word("bye"));
    let mut steps = Vec::new();
    for (how, reason) in [
        (order("a", 1), "normal"),
        (order("a", 2), "trap: unreachable"),
        (order("a", 3), "bye"),
        (status(0, &exit(1)), "shutdown"),
        (status(0, &exit(2)), "shutdown: bye"),
        (status(0, &exit(3)), "killed"),
        (status(0, &exit(4)), "bye"),
    ] {
        steps.extend([start("a", 2), how, signal(3, "a"), says(reason)]);
    }

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s13_whatever_ends_a_guest_its_names_groups_timers_and_rooms_are_free_again() {
    let node = Node::small();
    let (name, crew) = (word("name"), word("crew"));
    let holds = [
        status(0, &format!("(call $register {name})")),
        status(0, &format!("(call $join {crew})")),
        "(drop (call $send_after (call $self) (i64.const 3600000) (i64.const 1) (i32.const 0) (i32.const 8)))"
            .to_owned(),
        "(drop (call $send_every (call $self) (i64.const 3600000) (i64.const 1) (i32.const 0) (i32.const 8)))"
            .to_owned(),
        start("a", 1),
        "(drop (call $monitor (local.get $a)))".to_owned(),
    ];
    let ends = [
        ("return".to_owned(), "normal"),
        ("unreachable".to_owned(), "trap: unreachable"),
        ("(loop $more (drop (memory.grow (i32.const 1))) (br $more))".to_owned(), "memory_limit(65536)"),
        (format!("(drop (call $exit (call $self) (i32.const 4) {})) unreachable", word("bye")), "bye"),
        (order("a", 2) + "(drop (call $receive_tagged (i64.const 1) (i64.const -1)))", "trap: unreachable"),
        (format!("(drop (call $exit (call $self) (i32.const 3) {}))", word("")), "killed"),
    ];
    for round in 1..=3 {
        for (end, reason) in &ends {
            let steps = [&holds[..], std::slice::from_ref(end)].concat();

            // If a name were not released, the next guest would trap before its own end.
            let guest = GuestOptions::default().profile("trusted").memory_max_bytes(65_536);
            assert_eq!(node.end_of(&family(&steps), &guest).to_string(), *reason);

            assert_eq!(node.runtime.whereis("name"), None);
            assert!(node.runtime.members("crew").is_empty());
        }
        // Only the normal end leaves the linked child alive.
        node.until("all room but that of its child is free", |node| node.wasm.stats().live <= round);
    }
}

#[test]
fn s14_a_guest_in_a_tight_loop_leaves_its_scheduler_to_others_and_dies_when_killed() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let node = Node { runtime, wasm: Wasm::start(WasmConfig { capacity: 4, ..WasmConfig::default() }).unwrap() };
    let (spin, echo) = (node.load("spin", &spin()), node.load("echo", &echo()));
    let (spin, echo) = (node.spawn(&spin, &GuestOptions::default()), node.spawn(&echo, &GuestOptions::default()));
    let watch = node.runtime.watch(spin);

    let answers = node.inside(move |_, ctx| async move {
        let mut answers = Vec::new();
        for tag in 0..10 {
            let body = Bytes::copy_from_slice(&number(ctx.pid()).to_le_bytes());
            ctx.send(echo, TaggedBytes { tag: tag + 1, body }).await;
            answers.push(ctx.receive_of::<TaggedBytes>().await.tag);
        }
        ctx.exit(spin, ExitReason::Killed);
        answers
    });

    assert_eq!(answers, (1..11).collect::<Vec<_>>());
    assert_eq!(watch.wait(), ExitReason::Killed);
}

#[test]
fn s15_a_taken_name_is_an_error_and_free_before_anyone_is_told_of_the_death() {
    let name = word("name");
    let whereis = |pid: &str| format!("(call $must (i64.eq (call $whereis {name}) {pid}))");
    let steps = [
        start("a", 2),
        start("b", 2),
        order("a", 9),
        message(0),
        order("b", 9),
        message(-7),
        whereis("(local.get $a)"),
        order("a", 1),
        signal(3, "a"),
        whereis("(i64.const 0)"),
        status(0, &format!("(call $register {name})")),
        whereis("(call $self)"),
        status(0, &format!("(call $unregister {name})")),
        status(-6, &format!("(call $unregister {name})")),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s15_a_group_is_left_before_anyone_is_told_of_the_death() {
    let node = Node::small();
    let member =
        family(&[status(0, &format!("(call $join {})", word("crew"))), "(call $kind (i32.const 1))".to_owned()]);
    let member = node.load("member", &member);

    let events = node.inside(move |wasm, ctx| async move {
        let mut events = Vec::new();
        ctx.monitor_group("crew").unwrap();
        let (pid, _) = wasm.spawn_from(&ctx, &member, &GuestOptions::default().profile("trusted").monitored()).unwrap();
        events.push(ctx.receive_of::<rusm_runtime::Joined>().await.pid == pid);
        ctx.send(pid, Bytes::new()).await;
        events.push(ctx.receive_of::<Down>().await.reason == ExitReason::Normal);
        events.push(ctx.members("crew").is_empty());
        events.push(ctx.receive_of::<rusm_runtime::Left>().await.pid == pid);
        events
    });

    assert_eq!(events, [true; 4]);
}

#[test]
fn s16_a_timer_fires_once_and_not_before_its_time_and_cancel_tells_what_was_left() {
    let after = |to: &str, ms: u32, tag: u32| {
        format!("(call $send_after {to} (i64.const {ms}) (i64.const {tag}) (i32.const 0) (i32.const 0))")
    };
    let own = |ms, tag| after("(call $self)", ms, tag);
    let gone = "(call $must (i64.eq (call $cancel (local.get $t)) (i64.const -1)))".to_owned();
    let steps = [
        "(local.set $u (call $now_ns))".to_owned(),
        format!("(local.set $t {})", own(20, 1)),
        message(1),
        "(call $must (i64.ge_s (i64.sub (call $now_ns) (local.get $u)) (i64.const 20000000)))".to_owned(),
        gone.clone(),
        NOTHING.to_owned(),
        format!("(local.set $t {})", own(3_600_000, 2)),
        "(local.set $u (call $cancel (local.get $t)))".to_owned(),
        "(call $must (i64.gt_s (local.get $u) (i64.const 3000000)))".to_owned(),
        "(call $must (i64.le_s (local.get $u) (i64.const 3600000)))".to_owned(),
        gone.clone(),
        NOTHING.to_owned(),
        // A timer for a process that ends is cancelled; one for a dead process does nothing.
        start("a", 2),
        format!("(local.set $t {})", after("(local.get $a)", 3_600_000, 5)),
        order("a", 1),
        signal(3, "a"),
        gone,
        format!("(drop {})", after("(local.get $a)", 1, 5)),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s24_a_late_reply_is_never_taken_for_the_next_one() {
    let call =
        |tag: u32, ms: u32| format!("(call $call (local.get $a) (i64.const {tag}) {} (i64.const {ms}))", word("bye"));
    let steps = [
        start("a", 2),
        status(-4, &call(11, 1)),
        // The callee replies to the first call, which has timed out, and then to this one.
        status(0, &call(12, 60_000)),
        says("bye"),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s24_the_end_of_the_callee_ends_the_call_with_its_reason() {
    let node = Node::small();
    let steps = [
        start("a", 0),
        status(-5, &format!("(call $call (local.get $a) (i64.const 13) {} (i64.const 60000))", word("bye"))),
        NOTHING.to_owned(),
        "(drop (call $error_read (i32.const 2048) (call $error_len)))".to_owned(),
        "(drop (call $exit (call $self) (i32.const 4) (i32.const 2048) (call $error_len)))".to_owned(),
    ];

    let reason = node.end_of(&family(&steps), &GuestOptions::default().profile("trusted"));

    assert_eq!(reason.to_string(), "the callee ended: trap: unreachable");
}

#[test]
fn s24_a_guest_waits_for_its_reply_no_longer_than_it_said() {
    let node = Node::small();
    let silent = node.load("silent", &raw("", "(loop $again (drop (call $receive (i64.const -1))) (br $again))"));
    let silent = node.spawn(&silent, &GuestOptions::default());

    let timed_out = node.inside(move |_, ctx| async move {
        let answer: Result<Bytes, _> = ctx.call(silent, Bytes::new(), Duration::from_millis(5)).await;
        matches!(answer, Err(rusm_runtime::CallError::Timeout { .. }))
    });

    assert!(timed_out && node.runtime.is_alive(silent));
}
