//! How children are stopped, and events that occur during a stop: sentence 21.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusm_runtime::supervisor::{ChildSpec, ChildState, Shutdown, Strategy, Supervisor, SupervisorRef};
use rusm_runtime::{Exit, ExitReason, Pid};

use super::world::{LONG, Log, World, crash, eventually, obedient, plenty};

#[test]
fn s21_a_child_is_killed_or_asked_or_asked_and_killed() {
    let world = World::new();
    let deaf = |id, log: &Log| {
        let log = log.clone();
        ChildSpec::new(id, move |ctx| {
            let log = log.clone();
            async move {
                ctx.trap_exits(true);
                log.note("up");
                let exit = ctx.receive_of::<Exit>().await;
                log.note(&exit.reason);
                pending::<()>().await;
            }
        })
    };
    let stubborn = deaf("stubborn", &world.log).shutdown(Shutdown::Timeout(Duration::from_secs(2)));
    let brutal = deaf("brutal", &world.log).shutdown(Shutdown::BrutalKill);
    let polite = world.child("polite").shutdown(Shutdown::Infinity);
    let supervisor = world.start(plenty(Strategy::OneForOne).child(stubborn).child(brutal).child(polite));
    world.lines::<3>();
    let stubborn = world.runtime.watch(world.pid(supervisor, "stubborn"));
    let brutal = world.runtime.watch(world.pid(supervisor, "brutal"));

    assert_eq!(world.stop(supervisor), ExitReason::Shutdown);

    assert_eq!((world.on(stubborn), world.on(brutal)), (ExitReason::Killed, ExitReason::Killed));
    assert_eq!(world.log.take(), ["-polite", "shutdown"]);
}

#[test]
fn s21_a_child_that_dies_by_itself_while_it_is_stopped_is_not_restarted() {
    let world = World::new();
    let log = world.log.clone();
    let crashing = ChildSpec::new("a", move |ctx| {
        let log = log.clone();
        async move {
            ctx.trap_exits(true);
            log.note("+a");
            ctx.receive_of::<Exit>().await;
            panic!("while it is stopped");
        }
    });
    let supervisor = world.start(Supervisor::new(Strategy::OneForOne).intensity(0, LONG).child(crashing));
    world.lines::<1>();

    assert_eq!(world.on(supervisor.terminate_child(&*world.runtime, "a")), Ok(()));

    let [a] = world.children(supervisor).try_into().unwrap();
    assert_eq!((a.state, a.restarts_total), (ChildState::Ended, 0));
    assert_eq!(world.log.len(), 0);
}

#[test]
fn s21_a_second_death_during_a_restart_is_not_lost() {
    let world = World::new();
    let other: Arc<Mutex<Option<Pid>>> = Arc::default();
    let (log, of_b) = (world.log.clone(), Arc::clone(&other));
    // While `b` restarts, `a` dies: the supervisor is busy at that time.
    let b = ChildSpec::acknowledged("b", move |ctx, starting| {
        let (log, other) = (log.clone(), of_b.lock().take());
        async move {
            if let Some(other) = other {
                let reference = ctx.monitor(other);
                ctx.exit(other, ExitReason::Killed);
                ctx.receive_match(move |message| {
                    message.downcast_ref::<rusm_runtime::Down>().is_some_and(|down| down.reference == reference)
                })
                .await;
            }
            obedient(ctx, Some(starting), log, "b").await
        }
    });
    let supervisor = world.start(plenty(Strategy::OneForOne).child(world.child("a")).child(b));
    world.lines::<2>();
    *other.lock() = Some(world.pid(supervisor, "a"));

    world.end(supervisor, "b", crash());

    assert_eq!(world.lines(), ["+b", "+a"]);
    assert_eq!(world.counts(supervisor).active, 2);
}

#[test]
fn s21_a_child_that_unlinked_itself_is_stopped_all_the_same() {
    let world = World::new();
    let naughty = ChildSpec::acknowledged("naughty", |ctx, starting| async move {
        if let Some(parent) = ctx.parent() {
            ctx.unlink(parent);
        }
        starting.acknowledge();
        pending::<()>().await;
    });
    let supervisor = world.start(plenty(Strategy::OneForOne).child(naughty));

    assert_eq!(world.stop(supervisor), ExitReason::Shutdown);

    eventually("it is gone", || world.runtime.process_count() == 0);
}

#[test]
fn the_death_of_a_killed_supervisor_reaches_its_children_through_their_links() {
    let world = World::new();
    let nested = plenty(Strategy::OneForOne).child(ChildSpec::new("x", |_| pending::<()>()));
    let supervisor =
        plenty(Strategy::OneForOne).child(world.child("a")).child(ChildSpec::new("b", |_| pending::<()>()));
    let supervisor = world.start(supervisor.child(ChildSpec::supervisor("nested", nested)));
    world.lines::<1>();
    let b = world.runtime.watch(world.pid(supervisor, "b"));

    world.runtime.exit(supervisor.pid(), ExitReason::Killed);

    assert_eq!(world.on(b), ExitReason::Killed);
    assert_eq!(world.lines(), ["-a"]);
    eventually("everybody is gone", || world.runtime.process_count() == 0);
}

#[test]
fn a_supervisor_obeys_its_parent_and_ignores_other_exit_signals() {
    let world = World::new();
    let nested = ChildSpec::supervisor("nested", plenty(Strategy::OneForOne).child(world.child("x")));
    let supervisor = world.start(plenty(Strategy::OneForOne).child(nested));
    world.lines::<1>();
    let inner = SupervisorRef::of(world.pid(supervisor, "nested"));

    let stranger = world.runtime.spawn(move |ctx| async move { ctx.exit(inner.pid(), crash()) }).unwrap();
    world.on(world.runtime.watch(stranger));
    assert_eq!(world.counts(inner).active, 1);

    assert_eq!(world.stop(supervisor), ExitReason::Shutdown);
    assert_eq!(world.lines(), ["-x"]);
}
