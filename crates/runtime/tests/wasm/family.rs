//! What core modules start and whom they meet: processes with a name, supervisors, groups.

use rusm_runtime::ExitReason;
use rusm_runtime::wasm::Guest;

use crate::guests::{Node, echo, number, raw, raw_with};

#[test]
fn a_guest_hears_who_joins_and_leaves_a_group() {
    let node = Node::small();
    // Ends well if each step is as it should be: one member, another joins, leaves, and then nothing more is told.
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
        let guest = Guest::default().profile("trusted").monitored();
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
fn a_guest_names_and_bounds_what_it_starts() {
    let node = Node::small();
    node.load("hog", &raw("", "(loop $again (drop (memory.grow (i32.const 1))) (br $again))"));
    node.load("echo", &echo());
    // Starts an echo called `helper`, and a hog, whose end is its own.
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

    let reason = node.end_of(&starter, &Guest::default().profile("trusted"));

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
    // A child with a restart that there is not is refused, and the others are started.
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
    let boss = node.spawn(&boss, &Guest::default().profile("trusted"));
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
