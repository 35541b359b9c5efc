//! Failed restarts and lost children: they are counted, and reported with reason, child and supervisor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusm_runtime::observe::{self, EventKind, RuntimeEvent, SupervisionCounters};
use rusm_runtime::supervisor::{Backoff, ChildSpec, Strategy, Supervisor, SupervisorRef};
use rusm_runtime::{Context, ExitReason, InitError, Starting};

use super::world::{LONG, World, crash, eventually, gave_up, obedient};

/// A child that starts once and then fails to start `times` times.
fn refuses(world: &World, id: &'static str, times: u32) -> ChildSpec {
    let (log, starts) = (world.log.clone(), Arc::new(AtomicU32::new(0)));
    let body = move |ctx: Context, starting: Starting| {
        let (log, nth) = (log.clone(), starts.fetch_add(1, Ordering::Relaxed));
        async move {
            if (1..=times).contains(&nth) {
                return starting.refuse(&ctx, ExitReason::other("no disk"));
            }
            obedient(ctx, Some(starting), log, id).await
        }
    };
    ChildSpec::acknowledged(id, body)
}

/// Returns the events about a supervisor's children, except their crashes: kind, child and reason.
fn told(world: &World, supervisor: SupervisorRef) -> Vec<(&'static str, String, String)> {
    let of_ours = |kind| {
        let (of, kind, child, why) = match kind {
            EventKind::Restart { supervisor, child, reason, .. } => (supervisor, "restart", child, reason.to_string()),
            EventKind::RestartFailed { supervisor, child, error } => (supervisor, "failed", child, error.to_string()),
            EventKind::ChildLost { supervisor, child, reason } => (supervisor, "lost", child, reason.to_string()),
            EventKind::GaveUp { supervisor, child, reason } => (supervisor, "gave up", child, reason.to_string()),
            _ => return None,
        };
        (of == supervisor.pid()).then(|| (kind, child.to_string(), why))
    };
    observe::events(&world.runtime, 0, 100).into_iter().filter_map(|event| of_ours(event.kind)).collect()
}

fn lines(told: &[(&'static str, String, String)]) -> Vec<String> {
    told.iter().map(|(kind, child, _)| format!("{kind} {child}")).collect()
}

#[test]
fn a_restart_that_fails_is_counted_and_told_with_its_reason_and_so_is_the_one_that_succeeds() {
    let world = World::new();
    let tree = Supervisor::new(Strategy::OneForOne).intensity(10, LONG).child(refuses(&world, "a", 2));
    let supervisor = world.start(tree);
    world.lines::<1>();

    world.end(supervisor, "a", crash());
    world.lines::<1>();

    let counted = SupervisionCounters { restarts: 1, restarts_failed: 2, ..SupervisionCounters::default() };
    eventually("it is counted", || observe::supervision(&world.runtime) == counted);
    eventually("all is told", || told(&world, supervisor).len() == 3);
    let told = told(&world, supervisor);
    assert_eq!(lines(&told), ["failed a", "failed a", "restart a"]);
    assert_eq!(told[0].2, InitError::Ended(ExitReason::other("no disk")).to_string());
    assert_eq!(told[2].2, crash().to_string());
    assert_eq!(world.counts(supervisor).active, 1);
}

#[test]
fn a_child_whose_supervisor_gives_up_is_lost_and_its_running_sibling_is_not() {
    let world = World::new();
    let tree = Supervisor::new(Strategy::OneForOne).intensity(2, LONG);
    let supervisor = world.start(tree.child(refuses(&world, "a", u32::MAX - 1)).child(world.child("b")));
    world.lines::<2>();
    let end = world.runtime.watch(supervisor.pid());

    world.end(supervisor, "a", crash());

    assert!(gave_up(&world.on(end)));
    let counted = SupervisionCounters { restarts: 0, restarts_failed: 2, children_lost: 1, gave_up: 1 };
    assert_eq!(observe::supervision(&world.runtime), counted);
    assert_eq!(lines(&told(&world, supervisor)), ["failed a", "failed a", "gave up a", "lost a"]);
}

#[test]
fn children_that_wait_for_their_restart_are_lost_with_the_one_that_was_too_many() {
    let world = World::new();
    let tree = Supervisor::new(Strategy::OneForOne).intensity(2, LONG).backoff(Backoff { first: LONG, limit: LONG });
    let tree = tree.child(world.child("a")).child(world.child("b")).child(world.child("c")).child(world.child("d"));
    let supervisor = world.start(tree);
    world.lines::<4>();
    let end = world.runtime.watch(supervisor.pid());

    for id in ["a", "b", "c"] {
        world.end(supervisor, id, crash());
    }

    assert!(gave_up(&world.on(end)));
    let counted = SupervisionCounters { children_lost: 3, gave_up: 1, ..SupervisionCounters::default() };
    assert_eq!(observe::supervision(&world.runtime), counted);
    let told = told(&world, supervisor);
    assert_eq!(lines(&told)[1..], ["lost a", "lost b", "lost c"], "in start order, after it gave up");
}

#[test]
fn a_delayed_restart_is_told_too_with_the_process_that_it_was_before() {
    let world = World::new();
    let soon = Duration::from_millis(1);
    let tree = Supervisor::new(Strategy::RestForOne).intensity(9, LONG).backoff(Backoff { first: soon, limit: LONG });
    let supervisor = world.start(tree.child(world.child("a")));
    let before = world.pid(supervisor, "a");
    world.lines::<1>();

    world.end(supervisor, "a", crash());
    world.lines::<1>();

    let after = world.pid(supervisor, "a");
    let is_told = |event: &RuntimeEvent| matches!(event.kind, EventKind::Restart { old, new, .. } if (old, new) == (before, after));
    eventually("it is told", || observe::events(&world.runtime, 0, 100).iter().any(is_told));
}

#[test]
fn a_supervisor_that_runs_short_of_restarts_says_so_and_one_with_plenty_does_not() {
    let world = World::new();
    let short = world.start(Supervisor::new(Strategy::OneForOne).intensity(3, LONG).child(world.child("a")));
    let plenty = world.start(Supervisor::new(Strategy::OneForOne).intensity(9, LONG).child(world.child("b")));
    world.lines::<2>();
    let pressures = || observe::restart_pressure(&world.runtime);

    for (supervisor, id) in [(short, "a"), (plenty, "b")] {
        world.end(supervisor, id, crash());
        world.lines::<1>();
    }
    assert_eq!(pressures(), [], "one restart is not a storm");
    for (supervisor, id) in [(plenty, "b"), (short, "a")] {
        world.end(supervisor, id, crash());
        world.lines::<1>();
    }

    eventually("one has used most of its restarts", || pressures().len() == 1);
    let [pressure] = pressures().try_into().unwrap();
    assert_eq!((pressure.supervisor, pressure.used, pressure.intensity.restarts), (short.pid(), 2, 3));
}

#[test]
fn siblings_that_were_stopped_for_a_restart_which_never_came_are_lost_too() {
    let world = World::new();
    let tree = Supervisor::new(Strategy::OneForAll).intensity(3, LONG).child(world.child("a"));
    let tree = tree.child(refuses(&world, "b", u32::MAX - 1)).child(world.child("c")).child(world.child("d"));
    let supervisor = world.start(tree);
    world.lines::<4>();
    let end = world.runtime.watch(supervisor.pid());

    world.end(supervisor, "b", crash());

    assert!(gave_up(&world.on(end)));
    // Child `a` had been restarted before `b` failed to start.
    assert_eq!(observe::supervision(&world.runtime).children_lost, 3);
}

#[test]
fn restarts_that_fail_strain_their_supervisor_and_are_not_called_restarts() {
    let world = World::new();
    let soon = Duration::from_millis(1);
    let tree = Supervisor::new(Strategy::OneForOne).intensity(20, LONG).backoff(Backoff { first: soon, limit: soon });
    let supervisor = world.start(tree.child(refuses(&world, "a", 17)));
    world.lines::<1>();

    world.end(supervisor, "a", crash());
    world.lines::<1>();

    assert_eq!(world.children(supervisor)[0].restarts_total, 1);
    let pressures = observe::restart_pressure(&world.runtime);
    assert!(pressures.iter().any(|pressure| pressure.supervisor == supervisor.pid()), "{pressures:?}");
}
