//! Guests as children of supervisors.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::supervisor::{ChildSpec, Restart, Shutdown, Strategy, Supervisor};
use rusm_runtime::{Context, Down, ExitReason, Pid, TaggedBytes};
use rusm_wasm::{GuestOptions, Module, Wasm};

use crate::guests::{Node, raw, spin};

const NAMES: [&str; 3] = ["first", "second", "third"];

/// Returns on a message with the tag 1, traps on any other tag.
fn child() -> Vec<u8> {
    raw(
        "",
        r"(loop $again (br_if $again (i32.ne (call $receive (i64.const -1)) (i32.const 1))))
        (if (i64.ne (call $item_tag) (i64.const 1)) (then unreachable))",
    )
}

/// Waits forever and ignores requests to stop.
fn stubborn() -> Vec<u8> {
    raw("", "(drop (call $trap_exits (i32.const 1))) (loop $again (drop (call $receive (i64.const -1))) (br $again))")
}

fn spec(wasm: &Wasm, module: &Module, name: &'static str) -> ChildSpec {
    wasm.child(name, module, GuestOptions::default().name(name))
}

fn pids(ctx: &Context) -> [Option<Pid>; 3] {
    NAMES.map(|name| ctx.whereis(name))
}

/// Ends a child with a message and waits for its down message.
async fn end(ctx: &Context, name: &str, tag: u64) {
    let old = ctx.whereis(name).unwrap();
    let monitor = ctx.monitor(old);
    ctx.send(old, TaggedBytes { tag, body: Bytes::new() }).await;
    assert_eq!(ctx.receive_of::<Down>().await.reference, monitor);
}

async fn all_there_but(ctx: &Context, old: Pid, name: &str) {
    while pids(ctx).contains(&None) || ctx.whereis(name) == Some(old) {
        ctx.yield_now().await;
    }
}

#[test]
fn s17_a_failed_start_stops_the_guests_that_had_started_and_fails_the_supervisor() {
    let node = Node::small();
    let module = node.load("child", &child());
    let holder = node.spawn(&module, &GuestOptions::default().name("third"));

    let error = node.inside(move |wasm, ctx| async move {
        ctx.trap_exits(true);
        let tree = NAMES
            .iter()
            .fold(Supervisor::new(Strategy::OneForOne), |tree, name| tree.child(spec(&wasm, &module, name)));
        let error = tree.start_link(&ctx).await.map(|_| ()).unwrap_err().to_string();
        assert_eq!(pids(&ctx), [None, None, Some(holder)]);
        error
    });

    assert!(error.contains("name \"third\" is taken"), "{error}");
    node.until("only the holder is left", |node| node.wasm.stats().live == 1);
}

#[test]
fn s18_each_strategy_restarts_the_guests_that_it_should() {
    let node = Node::small();
    let module = node.load("child", &child());
    for (strategy, expected) in [
        (Strategy::OneForOne, [false, true, false]),
        (Strategy::OneForAll, [true, true, true]),
        (Strategy::RestForOne, [false, true, true]),
    ] {
        let module = module.clone();
        let restarted = node.inside(move |wasm, ctx| async move {
            let tree = Supervisor::new(strategy).intensity(5, Duration::from_mins(1));
            let tree = NAMES.iter().fold(tree, |tree, name| tree.child(spec(&wasm, &module, name)));
            let supervisor = tree.start_link(&ctx).await.unwrap();
            let before = pids(&ctx);
            end(&ctx, "second", 2).await;
            all_there_but(&ctx, before[1].unwrap(), "second").await;
            // The reply arrives after all restarts.
            assert_eq!(supervisor.count_children(&ctx).await.unwrap().active, 3);
            let after = pids(&ctx);
            ctx.unlink(supervisor.pid());
            let monitor = ctx.monitor(supervisor.pid());
            ctx.exit(supervisor.pid(), ExitReason::Shutdown);
            assert_eq!(ctx.receive_of::<Down>().await.reference, monitor);
            assert_eq!(pids(&ctx), [None; 3], "stopped with their supervisor");
            [0, 1, 2].map(|child| before[child] != after[child])
        });
        assert_eq!(restarted, expected, "{strategy:?}");
    }
}

#[test]
fn s18_a_supervisor_that_a_guest_started_restarts_its_child() {
    let node = Node::small();
    let counter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests/prebuilt/rust/counter.wasm");

    // The guest uses its server, crashes it, and queries the restarted one; it ends with the shutdown of its
    // supervisor.
    let reason = node.end_of(&std::fs::read(counter).unwrap(), &GuestOptions::default().profile("trusted"));

    assert_eq!(reason, ExitReason::Normal);
    node.until("its family is gone", |node| node.wasm.stats().live == 0);
}

#[test]
fn s19_permanent_always_transient_after_a_trap_temporary_never() {
    let node = Node::small();
    let module = node.load("child", &child());

    let left = node.inside(move |wasm, ctx| async move {
        let kinds = [Restart::Permanent, Restart::Transient, Restart::Temporary];
        let tree = Supervisor::new(Strategy::OneForOne).intensity(5, Duration::from_mins(1));
        let tree = NAMES
            .iter()
            .zip(kinds)
            .fold(tree, |tree, (name, kind)| tree.child(spec(&wasm, &module, name).restart(kind)));
        let supervisor = tree.start_link(&ctx).await.unwrap();
        for name in ["first", "second"] {
            let old = ctx.whereis(name).unwrap();
            end(&ctx, name, 2).await;
            all_there_but(&ctx, old, name).await;
        }
        end(&ctx, "third", 2).await;
        let old = ctx.whereis("first").unwrap();
        end(&ctx, "first", 1).await;
        while ctx.whereis("first").is_none_or(|pid| pid == old) {
            ctx.yield_now().await;
        }
        end(&ctx, "second", 1).await;
        supervisor.count_children(&ctx).await.unwrap();
        pids(&ctx).map(|pid| pid.is_some())
    });

    assert_eq!(left, [true, false, false]);
}

#[test]
fn s20_one_restart_too_many_ends_the_supervisor_and_its_guests() {
    let node = Node::small();
    let module = node.load("child", &child());

    let reason = node.inside(move |wasm, ctx| async move {
        let tree = Supervisor::new(Strategy::OneForOne).intensity(2, Duration::from_hours(1));
        let tree = NAMES.iter().fold(tree, |tree, name| tree.child(spec(&wasm, &module, name)));
        ctx.trap_exits(true);
        let supervisor = tree.start_link(&ctx).await.unwrap();
        for _ in 0..2 {
            let old = ctx.whereis("first").unwrap();
            end(&ctx, "first", 2).await;
            all_there_but(&ctx, old, "first").await;
        }
        assert_eq!(supervisor.count_children(&ctx).await.unwrap().active, 3, "the allowed number does not end it");
        end(&ctx, "first", 2).await;
        let exit = ctx.receive_of::<rusm_runtime::Exit>().await;
        assert_eq!((exit.from, pids(&ctx)), (supervisor.pid(), [None; 3]));
        exit.reason
    });

    assert!(matches!(reason, ExitReason::ShutdownWith(_)), "{reason}");
}

#[test]
fn s21_guests_that_do_not_stop_when_asked_are_killed() {
    let node = Node::small();
    let (stubborn, spin) = (node.load("stubborn", &stubborn()), node.load("spin", &spin()));

    let reason = node.inside(move |wasm, ctx| async move {
        let brief = Shutdown::Timeout(Duration::from_millis(5));
        let tree = Supervisor::new(Strategy::OneForOne)
            .child(spec(&wasm, &stubborn, "first").shutdown(brief))
            .child(spec(&wasm, &stubborn, "second").shutdown(Shutdown::BrutalKill))
            .child(spec(&wasm, &spin, "third").shutdown(brief));
        ctx.trap_exits(true);
        let supervisor = tree.start_link(&ctx).await.unwrap();
        ctx.exit(supervisor.pid(), ExitReason::Shutdown);
        let exit = ctx.receive_of::<rusm_runtime::Exit>().await;
        assert_eq!((exit.from, pids(&ctx)), (supervisor.pid(), [None; 3]));
        exit.reason
    });

    assert_eq!(reason, ExitReason::Shutdown);
    node.until("all room is free again", |node| node.wasm.stats().live == 0);
}

#[test]
fn s22_children_that_are_guests_are_listed_with_their_pids() {
    let node = Node::small();
    let module = node.load("child", &child());

    let listed = node.inside(move |wasm, ctx| async move {
        let tree = Supervisor::new(Strategy::OneForOne);
        let tree =
            NAMES.iter().fold(tree, |tree, name| tree.child(spec(&wasm, &module, name).restart(Restart::Temporary)));
        let supervisor = tree.start_link(&ctx).await.unwrap();
        let before = supervisor.count_children(&ctx).await.unwrap().active;
        end(&ctx, "second", 2).await;
        (before, supervisor.which_children(&ctx).await.unwrap().len())
    });

    assert_eq!(listed, (3, 2));
}
