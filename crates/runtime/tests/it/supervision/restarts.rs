//! Which children are restarted, how often and when: sentences 18 to 20 and 23.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rusm_runtime::observe::{self, CauseKind, EventKind};
use rusm_runtime::supervisor::{
    Backoff, ChildError, ChildSpec, ChildState, Counts, Restart, StartChildError, Strategy, Supervisor, SupervisorRef,
};
use rusm_runtime::{Context, ExitReason};

use super::world::{LONG, World, crash, eventually, gave_up, obedient, plenty};

#[test]
fn s18_one_for_one_restarts_the_child_that_died() {
    let world = World::new();
    let supervisor = world
        .start(plenty(Strategy::OneForOne).child(world.child("a")).child(world.child("b")).child(world.child("c")));
    let before = (world.pid(supervisor, "a"), world.pid(supervisor, "b"), world.pid(supervisor, "c"));
    world.lines::<3>();

    world.end(supervisor, "b", crash());

    assert_eq!(world.lines(), ["+b"]);
    assert_eq!((world.pid(supervisor, "a"), world.pid(supervisor, "c")), (before.0, before.2));
    assert_ne!(world.pid(supervisor, "b"), before.1);
}

#[test]
fn s18_one_for_all_stops_the_others_in_reverse_order_and_starts_all_in_order() {
    let world = World::new();
    let supervisor = world
        .start(plenty(Strategy::OneForAll).child(world.child("a")).child(world.child("b")).child(world.child("c")));
    world.lines::<3>();

    world.end(supervisor, "b", crash());

    assert_eq!(world.lines(), ["-c", "-a", "+a", "+b", "+c"]);
}

#[test]
fn s18_rest_for_one_stops_and_starts_those_started_after_it() {
    let world = World::new();
    let supervisor = world.start(
        plenty(Strategy::RestForOne)
            .child(world.child("a"))
            .child(world.child("b"))
            .child(world.child("c"))
            .child(world.child("d")),
    );
    world.lines::<4>();

    world.end(supervisor, "b", crash());

    assert_eq!(world.lines(), ["-d", "-c", "+b", "+c", "+d"]);
}

#[test]
fn s18_simple_one_for_one_starts_children_of_one_kind_on_request() {
    let world = World::new();
    let log = world.log.clone();
    let template = ChildSpec::template("worker", move |ctx, name: &'static str| obedient(ctx, None, log.clone(), name));
    let supervisor = Supervisor::simple_one_for_one(template.restart(Restart::Transient)).intensity(10, LONG);
    let supervisor = world.start(supervisor);
    let start = |name| world.on(supervisor.start_one(&*world.runtime, name));
    let (one, two) = (start("one").unwrap(), start("two").unwrap());
    let wrong = world.on(supervisor.start_one(&*world.runtime, 7_u8));
    let how = "the template of this supervisor takes a value of type &str, from start_one";
    assert_eq!(wrong, Err(StartChildError::WrongKind(how.into())));
    world.lines::<2>();

    world.runtime.try_send(one, crash()).unwrap();
    assert_eq!(world.lines(), ["+one"], "with its original arguments");
    world.runtime.try_send(two, ExitReason::Normal).unwrap();
    eventually("a normal end forgets the child", || world.counts(supervisor).specs == 1);

    let [left] = world.children(supervisor).try_into().unwrap();
    let ChildState::Running(pid) = left.state else { panic!("{left:?}") };
    assert_eq!((&*left.id, left.restarts_total, left.last_exit), ("worker", 1, Some(crash())));
    assert_eq!(world.on(supervisor.restart_child(&*world.runtime, pid)), Err(ChildError::Dynamic));
    assert_eq!(world.on(supervisor.terminate_child(&*world.runtime, pid)), Ok(()));
    assert_eq!(world.on(supervisor.terminate_child(&*world.runtime, pid)), Err(ChildError::NotFound));
    assert_eq!(world.counts(supervisor), Counts::default());
}

#[test]
fn s19_permanent_always_transient_after_an_abnormal_end_temporary_never() {
    let world = World::new();
    let supervisor = world.start(
        plenty(Strategy::OneForOne)
            .child(world.child("permanent"))
            .child(world.child("transient").restart(Restart::Transient))
            .child(world.child("temporary").restart(Restart::Temporary)),
    );
    world.lines::<3>();

    world.end(supervisor, "permanent", ExitReason::Normal);
    assert_eq!(world.lines(), ["+permanent"]);
    world.end(supervisor, "transient", crash());
    assert_eq!(world.lines(), ["+transient"]);
    world.end(supervisor, "transient", ExitReason::ShutdownWith("done".into()));
    eventually("it stays ended", || world.children(supervisor)[1].state == ChildState::Ended);
    world.end(supervisor, "temporary", crash());
    eventually("it is forgotten", || world.counts(supervisor).specs == 2);
    assert_eq!(world.log.len(), 0);
}

#[test]
fn s20_exactly_the_intensity_does_not_end_a_supervisor_and_one_more_does() {
    let world = World::new();
    let supervisor = Supervisor::new(Strategy::OneForOne).intensity(3, Duration::from_hours(1));
    let supervisor = world.start(supervisor.child(world.child("a")).child(world.child("b")));
    world.lines::<2>();
    let end = world.runtime.watch(supervisor.pid());
    for _ in 0..3 {
        world.end(supervisor, "b", crash());
        assert_eq!(world.lines(), ["+b"]);
    }
    assert_eq!(world.counts(supervisor).active, 2);

    world.end(supervisor, "b", crash());

    assert!(gave_up(&world.on(end)));
    assert_eq!(world.lines(), ["-a"], "its other child was stopped");
}

#[test]
fn restarts_and_giving_up_are_events() {
    let world = World::new();
    let supervisor =
        world.start(Supervisor::new(Strategy::OneForOne).intensity(1, Duration::from_hours(1)).child(world.child("a")));
    let old = world.pid(supervisor, "a");
    let end = world.runtime.watch(supervisor.pid());
    world.end(supervisor, "a", crash());
    eventually("its restart", || world.counts(supervisor).active == 1 && world.pid(supervisor, "a") != old);
    let new = world.pid(supervisor, "a");

    world.end(supervisor, "a", crash());
    world.on(end);

    let supervisor = supervisor.pid();
    let child: Arc<str> = "a".into();
    let told = observe::events(&world.runtime, 0, 10).into_iter().map(|event| event.kind);
    let expected = [
        EventKind::Failure { pid: old, name: None, reason: crash(), kind: CauseKind::Crash },
        EventKind::Restart { supervisor, child: Arc::clone(&child), old, new, reason: crash() },
        EventKind::Failure { pid: new, name: None, reason: crash(), kind: CauseKind::Crash },
        EventKind::GaveUp { supervisor, child: Arc::clone(&child), reason: crash() },
        EventKind::ChildLost { supervisor, child, reason: crash() },
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn s20_a_child_that_dies_at_once_is_started_exactly_as_often_as_the_intensity_says_and_once_more() {
    let world = World::new();
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let body = move |_: Context| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { panic!("at once") }
    };
    let supervisor = Supervisor::new(Strategy::OneForOne).intensity(5_000, Duration::from_hours(1));
    let tree = Supervisor::new(Strategy::OneForOne).intensity(0, LONG);
    let storm = ChildSpec::supervisor("storm", supervisor.child(ChildSpec::new("x", body)));
    let tree = world.start(tree.child(storm.restart(Restart::Temporary)));

    eventually("the supervisor of the storm gives up", || world.counts(tree).specs == 0);

    assert_eq!(starts.load(Ordering::Relaxed), 5_001);
}

#[test]
fn s20_a_failed_restart_counts_as_another_restart() {
    let world = World::new();
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let once = ChildSpec::acknowledged("once", move |ctx, starting| {
        let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if !first {
                return starting.refuse(&ctx, ExitReason::other("only once"));
            }
            starting.acknowledge();
            ctx.receive_of::<ExitReason>().await
        }
    });
    let supervisor = Supervisor::new(Strategy::OneForAll).intensity(4, Duration::from_hours(1));
    let supervisor = world.start(supervisor.child(world.child("a")).child(once));
    let end = world.runtime.watch(supervisor.pid());

    world.end(supervisor, "once", crash());

    assert!(gave_up(&world.on(end)));
    assert_eq!(starts.load(Ordering::Relaxed), 1 + 4);
    assert_eq!(world.log.take(), ["+a", "-a", "+a", "-a", "+a", "-a", "+a", "-a", "+a", "-a"]);
}

#[test]
fn s23_a_child_that_waits_for_its_restart_is_shown_as_restarting_with_the_delay() {
    let world = World::new();
    let hour = Duration::from_hours(1);
    let supervisor = plenty(Strategy::OneForOne).backoff(Backoff { first: hour, limit: hour });
    let supervisor = world.start(supervisor.child(world.child("a")).child(world.child("b")));
    world.lines::<2>();
    world.end(supervisor, "a", crash());

    let restarting = || match world.children(supervisor)[0].state {
        ChildState::Restarting { left } => Some(left),
        _ => None,
    };
    eventually("it is shown", || restarting().is_some());
    let left = restarting().unwrap();
    assert!(left <= hour && left > hour / 2, "{left:?}");
    assert_eq!(world.counts(supervisor), Counts { specs: 2, active: 1, supervisors: 0, workers: 2 });
    assert_eq!(world.on(supervisor.restart_child(&*world.runtime, "a")), Err(ChildError::Restarting));
    assert_eq!(world.on(supervisor.delete_child(&*world.runtime, "a")), Err(ChildError::Restarting));
    assert_eq!(world.on(supervisor.terminate_child(&*world.runtime, "a")), Ok(()), "which ends the wait");
    assert!(world.on(supervisor.restart_child(&*world.runtime, "a")).is_ok());
    assert_eq!(world.lines(), ["+a"]);
}

#[test]
fn s23_after_its_delay_a_child_is_restarted_and_off_is_the_default() {
    let world = World::new();
    let (first, limit) = (Duration::from_millis(5), Duration::from_secs(1));
    let supervisor = plenty(Strategy::OneForOne).backoff(Backoff { first, limit });
    let supervisor = world.start(supervisor.child(world.child("a")));
    world.lines::<1>();

    let crashed = Instant::now();
    world.end(supervisor, "a", crash());
    assert_eq!(world.lines(), ["+a"]);
    world.end(supervisor, "a", crash());
    assert_eq!(world.lines(), ["+a"]);

    assert!(crashed.elapsed() >= 3 * first, "5 and 10 ms");
    assert_eq!(world.children(supervisor)[0].restarts_total, 2);
}

#[test]
fn a_temporary_child_is_gone_after_the_restart_of_all() {
    let world = World::new();
    let supervisor = plenty(Strategy::OneForAll).child(world.child("a"));
    let supervisor = world.start(supervisor.child(world.child("t").restart(Restart::Temporary)));
    world.lines::<2>();

    world.end(supervisor, "a", crash());

    assert_eq!(world.lines(), ["-t", "+a"]);
    assert_eq!(world.counts(supervisor).specs, 1);
}

#[test]
fn a_supervisor_that_gave_up_is_restarted_by_its_own() {
    let world = World::new();
    let nested = Supervisor::new(Strategy::OneForOne).intensity(0, LONG).child(world.child("x"));
    let supervisor = world.start(plenty(Strategy::OneForOne).child(ChildSpec::supervisor("nested", nested)));
    let before = world.pid(supervisor, "nested");
    world.lines::<1>();

    world.end(SupervisorRef::of(before), "x", crash());

    assert_eq!(world.lines(), ["+x"]);
    assert_ne!(world.pid(supervisor, "nested"), before);
}

/// Runs a supervisor that allows one restart in five seconds, with a child that lives for `life`. Returns the number of
/// restarts within an hour and three seconds, or `None` if the supervisor ended before.
#[cfg(feature = "test")]
fn restarts_in_an_hour(life: Duration) -> Option<u64> {
    rusm_runtime::test::run(1, move |ctx| async move {
        ctx.trap_exits(true);
        let child = ChildSpec::new("a", move |ctx| async move {
            ctx.sleep(life).await;
            crash()
        });
        let supervisor = Supervisor::new(Strategy::OneForOne).intensity(1, Duration::from_secs(5)).child(child);
        let supervisor = supervisor.start_link(&ctx).await.ok()?;
        ctx.sleep(Duration::from_secs(3603)).await;
        Some(supervisor.which_children(&ctx).await.ok()?[0].restarts_total)
    })
}

#[cfg(feature = "test")]
#[test]
fn s20_the_window_slides_so_that_what_it_forgives_it_forgives_for_ever() {
    assert_eq!(restarts_in_an_hour(Duration::from_secs(6)), Some(600));
    assert_eq!(restarts_in_an_hour(Duration::from_secs(4)), None, "two restarts are within five seconds");
}
