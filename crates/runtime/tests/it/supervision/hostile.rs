//! Children that are very numerous, or that panic in unexpected places.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusm_runtime::supervisor::{Backoff, ChildSpec, ChildState, Restart, Strategy, Supervisor};
use rusm_runtime::{Context, ExitReason, Handle, Pid, observe};

use super::world::{World, crash, eventually, plenty};

#[test]
fn a_child_that_panics_in_its_drop_is_restarted_and_can_be_stopped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a drop");
        }
    }
    let world = World::new();
    let log = world.log.clone();
    let body = move |ctx: Context| {
        let log = log.clone();
        async move {
            let _bomb = Bomb;
            log.note("+bomb");
            ctx.receive_of::<()>().await;
        }
    };
    let supervisor = world.start(plenty(Strategy::OneForOne).child(ChildSpec::new("bomb", body)));
    world.lines::<1>();

    for _ in 0..100 {
        world.runtime.try_send(world.pid(supervisor, "bomb"), ()).unwrap();
        world.lines::<1>();
    }

    assert_eq!(world.children(supervisor)[0].restarts_total, 100);
    assert_eq!(world.stop(supervisor), ExitReason::Shutdown);
}

/// Queries its supervisor when it is dropped, and panics.
struct Looks(Handle, Pid);

impl Drop for Looks {
    fn drop(&mut self) {
        assert!(observe::supervisor(&self.0, self.1).is_none_or(|report| report.pid == self.1));
        panic!("in a drop");
    }
}

#[test]
fn arguments_that_look_at_their_supervisor_and_panic_in_their_drop_harm_nobody() {
    let world = World::new();
    let body = |ctx: Context, _: Arc<Looks>| async move { ctx.receive_of::<ExitReason>().await };
    for restart in [Restart::Temporary, Restart::Permanent] {
        let template = ChildSpec::template("looks", body).restart(restart);
        let supervisor = Supervisor::simple_one_for_one(template).intensity(1000, Duration::from_mins(1));
        let supervisor = world.start(supervisor);
        let looks = Arc::new(Looks((*world.runtime).clone(), supervisor.pid()));
        let mut child = world.on(supervisor.start_one(&*world.runtime, looks)).unwrap();

        let ends = if restart == Restart::Permanent { 20 } else { 1 };
        for _ in 0..ends {
            let end = world.runtime.watch(child);
            world.runtime.try_send(child, crash()).unwrap();
            drop(world.on(end));
            let running = || match world.children(supervisor).first()?.state {
                ChildState::Running(pid) => Some(pid),
                _ => None,
            };
            eventually("the next runs", || restart == Restart::Temporary || running().is_some_and(|pid| pid != child));
            child = running().unwrap_or(child);
        }

        assert_eq!(world.counts(supervisor).active, usize::from(restart == Restart::Permanent));
        assert_eq!(world.stop(supervisor), ExitReason::Shutdown);
    }
}

#[test]
fn a_back_off_longer_than_any_clock_is_waited_for() {
    let world = World::new();
    let backoff = Backoff { first: Duration::MAX, limit: Duration::MAX };
    let supervisor = world.start(plenty(Strategy::OneForOne).backoff(backoff).child(world.child("a")));
    world.lines::<1>();

    world.end(supervisor, "a", crash());

    eventually("it waits", || matches!(world.children(supervisor)[0].state, ChildState::Restarting { .. }));
    assert_eq!(world.stop(supervisor), ExitReason::Shutdown);
}

#[test]
fn of_a_hundred_thousand_children_each_is_restarted_and_all_are_stopped() {
    const CHILDREN: usize = 100_000;

    let world = World::new();
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let body = move |ctx: Context, (): ()| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { ctx.receive_of::<ExitReason>().await }
    };
    let template = ChildSpec::template("x", body);
    let supervisor = Supervisor::simple_one_for_one(template).intensity(u32::MAX, Duration::from_millis(1));
    let supervisor = world.start(supervisor);
    let runtime = (*world.runtime).clone();
    let starter = world.runtime.spawn(move |ctx| async move {
        for _ in 0..CHILDREN {
            supervisor.start_one(&ctx, ()).await.expect("there is room");
        }
    });
    let end = runtime.watch(starter.unwrap());
    assert_eq!(world.on(end), ExitReason::Normal);

    let before = world.children(supervisor);
    for child in before.iter().step_by(100) {
        let ChildState::Running(pid) = child.state else { panic!("{child:?}") };
        world.runtime.try_send(pid, crash()).unwrap();
    }

    let wanted = (CHILDREN + CHILDREN / 100) as u32;
    eventually("all are restarted", || starts.load(Ordering::Relaxed) == wanted);
    assert_eq!(world.counts(supervisor).active, CHILDREN);
    assert_eq!(world.stop(supervisor), ExitReason::Shutdown);
    eventually("all are gone", || world.runtime.process_count() == 0);
}
