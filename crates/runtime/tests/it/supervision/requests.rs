//! Requests to a supervisor and its replies: sentence 22.

use rusm_runtime::supervisor::{
    AutoShutdown, ChildError, ChildSpec, Counts, Restart, SpecError, StartChildError, Strategy, SupervisorRef,
};
use rusm_runtime::{ExitReason, InitError};

use super::world::{World, crash, plenty};

#[test]
fn s22_significant_children_end_their_supervisor_with_the_first_or_the_last() {
    for (auto_shutdown, ends) in [(AutoShutdown::AnySignificant, 1), (AutoShutdown::AllSignificant, 2)] {
        let world = World::new();
        let significant = |id| world.child(id).restart(Restart::Transient).significant(true);
        let supervisor = plenty(Strategy::OneForOne).auto_shutdown(auto_shutdown);
        let supervisor =
            world.start(supervisor.child(significant("a")).child(significant("b")).child(world.child("c")));
        world.lines::<3>();
        let end = world.runtime.watch(supervisor.pid());
        world.end(supervisor, "a", crash());
        assert_eq!(world.lines(), ["+a"], "a child that is restarted has not ended");

        for id in ["b", "a"].into_iter().take(ends) {
            world.end(supervisor, id, ExitReason::Normal);
        }

        assert_eq!(world.on(end), ExitReason::Shutdown);
    }
}

#[test]
fn s22_a_terminated_significant_child_ends_nobody() {
    let world = World::new();
    let child = world.child("a").restart(Restart::Temporary).significant(true);
    let supervisor = plenty(Strategy::OneForOne).auto_shutdown(AutoShutdown::AnySignificant).child(child);
    let supervisor = world.start(supervisor);

    assert_eq!(world.on(supervisor.terminate_child(&*world.runtime, "a")), Ok(()));

    assert_eq!(world.counts(supervisor), Counts::default());
}

#[test]
fn s22_children_are_listed_and_counted_as_they_are() {
    let world = World::new();
    let nested = ChildSpec::supervisor("nested", plenty(Strategy::OneForOne).child(world.child("x")));
    let supervisor = world.start(plenty(Strategy::OneForOne).child(world.child("a")).child(nested));
    world.on(supervisor.terminate_child(&*world.runtime, "a")).unwrap();

    assert_eq!(world.counts(supervisor), Counts { specs: 2, active: 1, supervisors: 1, workers: 1 });
    let ids: Vec<_> = world.children(supervisor).into_iter().map(|child| child.id).collect();
    assert_eq!(ids, ["a".into(), "nested".into()]);
    let nested = SupervisorRef::of(world.pid(supervisor, "nested"));
    assert_eq!(world.counts(nested).workers, 1);
}

#[test]
fn children_are_started_terminated_restarted_and_deleted_at_run_time() {
    let world = World::new();
    let supervisor = world.start(plenty(Strategy::OneForOne).child(world.child("a")));
    let runtime = &*world.runtime;
    let start = |spec| world.on(supervisor.start_child(runtime, spec));

    let b = start(world.child("b")).unwrap();
    assert_eq!(start(world.child("b")), Err(StartChildError::AlreadyStarted(Some(b))));
    assert_eq!(world.on(supervisor.delete_child(runtime, "b")), Err(ChildError::Running));
    assert_eq!(world.on(supervisor.restart_child(runtime, "b")), Err(ChildError::Running));
    assert_eq!(world.on(supervisor.terminate_child(runtime, "b")), Ok(()));
    assert!(!runtime.is_alive(b));
    assert_eq!(start(world.child("b")), Err(StartChildError::AlreadyPresent));
    let again = world.on(supervisor.restart_child(runtime, "b")).unwrap();
    assert_eq!(world.pid(supervisor, "b"), again);
    assert_eq!(world.on(supervisor.terminate_child(runtime, again)), Ok(()), "by its pid, too");
    assert_eq!(world.on(supervisor.delete_child(runtime, "b")), Ok(()));
    for nobody in [
        world.on(supervisor.delete_child(runtime, "b")),
        world.on(supervisor.terminate_child(runtime, "b")),
        world.on(supervisor.restart_child(runtime, "b")).map(drop),
    ] {
        assert_eq!(nobody, Err(ChildError::NotFound));
    }

    let failing = ChildSpec::acknowledged("c", |_, _starting| async { crash() });
    assert_eq!(start(failing), Err(StartChildError::Init(InitError::Ended(crash()))));
    let significant = world.child("c").significant(true);
    assert_eq!(start(significant), Err(StartChildError::Spec(SpecError::Significant { id: "c".into() })));
    assert_eq!(world.counts(supervisor).specs, 1, "a child that did not start is not kept");
}
