//! How supervisors start: sentence 17.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;

use rusm_runtime::supervisor::{ChildSpec, FailedChild, SpecError, Strategy};
use rusm_runtime::{Context, ExitReason, InitError};

use super::world::{World, eventually, plenty};

#[test]
fn s17_children_start_in_order_each_after_the_one_before_has_started() {
    let world = World::new();
    let log = world.log.clone();
    let slow = ChildSpec::acknowledged("slow", move |ctx, starting| {
        let log = log.clone();
        async move {
            for _ in 0..100 {
                ctx.yield_now().await;
            }
            log.note("slow has started");
            starting.acknowledge();
            pending::<()>().await;
        }
    });

    world.start(plenty(Strategy::OneForOne).child(world.child("a")).child(slow).child(world.child("b")));

    assert_eq!(world.lines(), ["+a", "slow has started", "+b"]);
}

#[test]
fn s17_a_failed_start_stops_those_already_started_in_reverse_order_and_fails_the_supervisor() {
    let world = World::new();
    let failing =
        ChildSpec::acknowledged(
            "c",
            |ctx, starting| async move { starting.refuse(&ctx, ExitReason::other("no disk")) },
        );
    let supervisor = plenty(Strategy::OneForOne).child(world.child("a")).child(world.child("b"));

    let started = world.on(supervisor.child(failing).child(world.child("d")).start(&world.runtime));

    let Err(InitError::Ended(ExitReason::ShutdownWith(why))) = started else { panic!("{started:?}") };
    let error = InitError::Ended(ExitReason::other("no disk"));
    assert_eq!(why.value::<FailedChild>(), Some(&FailedChild { id: "c".into(), error }));
    assert_eq!(world.lines(), ["+a", "+b", "-b", "-a"]);
    eventually("everybody is gone", || world.runtime.process_count() == 0);
}

#[test]
fn s17_a_child_that_panics_or_returns_while_it_starts_has_failed_to_start() {
    let world = World::new();
    let panics = |_: Context| -> std::future::Pending<()> { panic!("in the closure") };
    for (failing, why) in [
        (ChildSpec::acknowledged("x", |_, _starting| async { panic!("at start") }), "at start"),
        (ChildSpec::acknowledged("x", |_, _starting| async {}), "normal"),
        (ChildSpec::new("x", panics), "in the closure"),
    ] {
        let started = world.on(plenty(Strategy::OneForOne).child(failing).start(&world.runtime));
        let Err(InitError::Ended(reason)) = started else { panic!("{started:?}") };
        assert!(reason.to_string().contains(why), "{reason}");
    }
}

#[test]
fn two_children_of_one_id_are_refused() {
    let world = World::new();
    let supervisor = plenty(Strategy::OneForOne).child(world.child("a")).child(world.child("a"));

    let started = world.on(supervisor.start(&world.runtime));

    let Err(InitError::Ended(ExitReason::ShutdownWith(why))) = started else { panic!("{started:?}") };
    assert_eq!(why.value::<SpecError>(), Some(&SpecError::Duplicate { id: "a".into() }));
}

#[test]
fn a_child_runs_elsewhere_when_whoever_asked_for_it_keeps_the_scheduler() {
    let world = World::new();
    let supervisor = world.start(plenty(Strategy::OneForOne));
    let (give, take) = mpsc::channel();
    let asks = move |ctx: Context| async move {
        for id in 0..100 {
            let (runs, ran) = mpsc::channel();
            let child = ChildSpec::new(id.to_string(), move |_| {
                let runs = runs.clone();
                async move {
                    runs.send(()).expect("the receiver waits");
                    pending::<()>().await;
                }
            });
            supervisor.start_child(&ctx, child).await.expect("it starts");
            // The reply may arrive before the child has run, and this process runs next on the supervisor's scheduler.
            ran.recv_timeout(Duration::from_mins(2)).expect("the child is running meanwhile");
        }
        give.send(()).expect("the test waits");
    };
    world.runtime.spawn(asks).expect("there is room");
    take.recv_timeout(Duration::from_mins(1)).expect("no child waits behind a process that blocks");
}
