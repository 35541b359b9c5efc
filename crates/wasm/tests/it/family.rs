//! Processes that core modules start and meet: named processes, supervisors, groups.

use rusm_runtime::ExitReason;
use rusm_wasm::GuestOptions;

use crate::guests::{Node, echo, number, raw, raw_with};

#[test]
fn a_guest_hears_who_joins_and_leaves_a_group() {
    let node = Node::small();
    // Ends normally if each step is as expected: the group has one member, another joins and leaves, and then there are
    // no more notifications.
    let listener = raw_with(
        r#"(data (i32.const 0) "crew")"#,
        "(local $monitor i64) (local $first i64)",
        r"(local.set $monitor (call $group_monitor (i32.const 0) (i32.const 4)))
        (if (i64.le_s (local.get $monitor) (i64.const 0)) (then unreachable))
        (if (i32.ne (call $item_read (i32.const 16) (i32.const 100) (i32.const 0)) (i32.const 8)) (then unreachable))
        (local.set $first (i64.load (i32.const 16)))
        (drop (call $send (local.get $first) (i64.const 1) (i32.const 0) (i32.const 0)))
        (if (i32.ne (call $receive (i64.const -1)) (i32.const 4)) (then unreachable))
        (if (i64.ne (call $item_ref) (local.get $monitor)) (then unreachable))
        (local.set $pid (call $item_pid))
        (if (i32.ne (call $members (i32.const 0) (i32.const 4)) (i32.const 2)) (then unreachable))
        (drop (call $send (local.get $first) (i64.const 2) (i32.const 0) (i32.const 0)))
        (if (i32.ne (call $receive (i64.const -1)) (i32.const 5)) (then unreachable))
        (if (i64.ne (call $item_pid) (local.get $pid)) (then unreachable))
        (if (i32.ne (call $group_demonitor (local.get $monitor)) (i32.const 1)) (then unreachable))
        (if (i32.ne (call $group_demonitor (local.get $monitor)) (i32.const 0)) (then unreachable))",
    );
    let listener = node.load("listener", &listener);

    let reason = node.inside(move |wasm, ctx| async move {
        ctx.join("crew").unwrap();
        let guest = GuestOptions::default().profile("trusted").monitored();
        wasm.spawn_from(&ctx, &listener, &guest).unwrap();
        assert_eq!(ctx.receive_of::<rusm_runtime::TaggedBytes>().await.tag, 1);
        let other = ctx.spawn(|ctx| async move {
            ctx.join("crew").unwrap();
            drop(ctx.receive().await);
        });
        assert_eq!(ctx.receive_of::<rusm_runtime::TaggedBytes>().await.tag, 2);
        ctx.send(other, ()).await;
        ctx.receive_of::<rusm_runtime::Down>().await.reason
    });

    assert_eq!(reason, ExitReason::Normal);
}

#[test]
fn a_guest_cannot_fill_the_mailbox_of_a_process_that_monitors_its_group() {
    let node = Node::small();
    // Joins and leaves until it is refused because the mailbox is full.
    let joiner = raw_with(
        r#"(data (i32.const 0) "crew")"#,
        "(local $status i32)",
        r"(loop $again
            (local.set $status (call $join (i32.const 0) (i32.const 4)))
            (drop (call $leave (i32.const 0) (i32.const 4)))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.and (i32.eqz (local.get $status)) (i32.lt_u (local.get $n) (i32.const 1000000)))))
        (if (i32.ne (local.get $status) (i32.const -3)) (then unreachable))",
    );
    let joiner = node.load("joiner", &joiner);

    let reason = node.inside(move |wasm, ctx| async move {
        ctx.monitor_group("crew").unwrap();
        wasm.spawn_from(&ctx, &joiner, &GuestOptions::default().profile("trusted").monitored()).unwrap();
        ctx.receive_of::<rusm_runtime::Down>().await.reason
    });

    assert_eq!(reason, ExitReason::Normal);
}

#[test]
fn a_guest_names_and_bounds_what_it_starts() {
    let node = Node::small();
    node.load("hog", &raw("", "(loop $again (drop (memory.grow (i32.const 1))) (br $again))"));
    node.load("echo", &echo());
    // Starts an echo called `helper`, and a guest that exceeds its memory limit; ends for the same reason as that
    // guest.
    let starter = raw_with(
        r#"(data (i32.const 0) "hog") (data (i32.const 16) "echo") (data (i32.const 32) "helper")"#,
        "",
        r"(if (i64.le_s (i64.const 0) (call $spawn_as (i32.const 16) (i32.const 4) (i32.const 0) (i32.const 0)
                (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 32) (i32.const 6) (i64.const 0)))
            (then (local.set $n (i32.const 1))))
        (if (i32.eqz (local.get $n)) (then unreachable))
        (drop (call $spawn_as (i32.const 0) (i32.const 3) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 2) (i32.const 0) (i32.const 0) (i64.const 131072)))
        (if (i32.ne (call $receive (i64.const -1)) (i32.const 3)) (then unreachable))
        (local.set $n (call $item_read (i32.const 100) (i32.const 100) (i32.const 0)))
        (drop (call $exit (call $self) (i32.const 4) (i32.const 100) (local.get $n)))",
    );

    let reason = node.end_of(&starter, &GuestOptions::default().profile("trusted"));

    assert_eq!(reason.to_string(), "memory_limit(131072)");
    assert!(node.runtime.whereis("helper").is_some());
}

#[test]
fn a_guest_starts_a_supervisor_whose_children_come_back() {
    let node = Node::small();
    node.load("echo", &echo());
    let child = |name: &str, restart: u32| {
        format!(
            "(call $supervisor_child (i32.const {name}) (i32.const 1) (i32.const 0) (i32.const 4) (i32.const 0) (i32.const 0)
                (i32.const 0) (i32.const 0) (i32.const {name}) (i32.const 1) (i64.const 0) (i32.const {restart}) (i64.const 1000))"
        )
    };
    // A child with an unknown restart type is refused, and the others are started.
    let boss = raw_with(
        r#"(data (i32.const 0) "echo") (data (i32.const 16) "a") (data (i32.const 32) "b")"#,
        "",
        &format!(
            r"(if {} (then unreachable))
            (if (i32.ne {} (i32.const -9)) (then unreachable))
            (if {} (then unreachable))
            (if (i64.ge_s (i64.const 0) (call $supervisor_start (i32.const 1) (i32.const 5) (i64.const 5000))) (then unreachable))
            (drop (call $receive (i64.const -1)))",
            child("16", 0),
            child("32", 3),
            child("32", 0),
        ),
    );
    let boss = node.load("boss", &boss);
    let boss = node.spawn(&boss, &GuestOptions::default().profile("trusted"));
    let both = |node: &Node| Some([node.runtime.whereis("a")?, node.runtime.whereis("b")?].map(number));
    node.until("both live", |node| both(node).is_some());
    let before = both(&node);

    node.runtime.exit(node.runtime.whereis("a").unwrap(), ExitReason::Killed);

    node.until("both are others, one for all", |node| {
        both(node).zip(before).is_some_and(|(now, before)| now[0] != before[0] && now[1] != before[1])
    });
    node.runtime.exit(boss, ExitReason::Killed);
    node.until("the supervisor takes its children along", |node| node.wasm.stats().live == 0);
}

#[test]
fn a_bomb_of_supervisors_and_one_that_is_to_remember_everything_meet_bounds() {
    let node = Node::small();
    let starts = |intensity: &str, then: &str| {
        raw(
            "",
            &format!(
                r"(loop $again
                (local.set $pid (call $supervisor_start (i32.const 0) (i32.const {intensity}) (i64.const 1000)))
                (if (i64.gt_s (local.get $pid) (i64.const 0)) (then (local.set $n (i32.add (local.get $n) (i32.const 1))) (br $again))))
                {then}
                (local.set $n (call $error_read (i32.const 1024) (i32.const 500)))
                (drop (call $exit (call $self) (i32.const 4) (i32.const 1024) (local.get $n)))"
            ),
        )
    };
    let trusted = GuestOptions::default().profile("trusted");
    let end = |guest: &[u8]| node.end_of(guest, &trusted).to_string();

    let bomb = starts("1", "(if (i32.ne (local.get $n) (i32.const 256)) (then unreachable))");
    assert_eq!(end(&bomb), "a process may have at most 256 supervisors: end some");
    assert_eq!(end(&starts("65537", "")), "intensity of 65537 is over the limit of 65536");
    assert_eq!(end(&starts("-1", "")), "intensity of 4294967295 is over the limit of 65536");
}

#[test]
fn supervisors_that_have_ended_make_room_for_others() {
    let node = Node::small();
    // Ends each of 600 supervisors before it starts the next, like a guest with supervisors that finish their work.
    let starts = raw(
        "",
        r"(drop (call $trap_exits (i32.const 1)))
        (loop $again
            (local.set $pid (call $supervisor_start (i32.const 0) (i32.const 1) (i64.const 1000)))
            (if (i64.le_s (local.get $pid) (i64.const 0)) (then unreachable))
            (drop (call $exit (local.get $pid) (i32.const 3) (i32.const 0) (i32.const 0)))
            (if (i32.ne (call $receive (i64.const -1)) (i32.const 2)) (then unreachable))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 600))))",
    );

    assert_eq!(node.end_of(&starts, &GuestOptions::default().profile("trusted")), ExitReason::Normal);
}

#[test]
fn what_is_asked_for_without_the_right_or_sense_is_a_status() {
    let node = Node::small();
    let ends_with = |call: &str| {
        let run = format!(
            r"(if (i32.ge_s (local.tee $n {call}) (i32.const 0)) (then unreachable))
            (local.set $n (call $error_read (i32.const 1024) (i32.const 500)))
            (drop (call $exit (call $self) (i32.const 4) (i32.const 1024) (local.get $n)))"
        );
        raw("", &run)
    };
    let spawn_with = |memory_max: &str| {
        ends_with(&format!(
            "(i32.wrap_i64 (call $spawn_as (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                (i32.const 0) (i32.const 0) (i32.const 0) (i64.const {memory_max})))"
        ))
    };
    let end = |guest: &[u8], profile: &str| node.end_of(guest, &GuestOptions::default().profile(profile)).to_string();

    assert_eq!(end(&ends_with("(call $members (i32.const 0) (i32.const 1))"), "sandboxed"), "denied: groups");
    assert_eq!(end(&spawn_with("-1"), "trusted"), "memory_max_bytes of -1 is negative: use 0 for the default");
}
