//! The supervision tree that observers see: it always shows the real state of the children.

use std::future::pending;
use std::time::Duration;

use rusm_runtime::observe::{self, ChildKey, ChildReport, ChildStatus, SupervisorReport};
use rusm_runtime::supervisor::{
    Backoff, ChildSpec, ChildState, ChildType, ENDS_KEPT, Restart, Strategy, Supervisor, SupervisorRef,
};
use rusm_runtime::{ExitReason, Pid};

use super::world::{LONG, World, crash, eventually, plenty};

impl World {
    fn report(&self, supervisor: SupervisorRef) -> SupervisorReport {
        observe::supervisor(&self.runtime, supervisor.pid()).expect("the supervisor is alive")
    }

    fn page(&self, supervisor: Pid, offset: usize, most: usize) -> Vec<ChildReport> {
        observe::children(&self.runtime, supervisor, offset, most).expect("the supervisor is alive").children
    }

    /// Asserts that observers and `which_children` report the same children.
    fn assert_truth(&self, supervisor: SupervisorRef) {
        let told: Vec<_> = self.children(supervisor).into_iter().map(|child| (child.id, child.state)).collect();
        let seen = self.page(supervisor.pid(), 0, usize::MAX).into_iter().map(|child| {
            let state = match child.state {
                ChildStatus::Running(pid) => ChildState::Running(pid),
                ChildStatus::Ended => ChildState::Ended,
                other => panic!("{other:?}"),
            };
            (child.id, state)
        });
        assert_eq!(seen.collect::<Vec<_>>(), told);
        let (counts, seen) = (self.counts(supervisor), self.report(supervisor).counts);
        assert_eq!((seen.running, seen.total()), (counts.active, counts.specs));
    }
}

fn ids(children: &[ChildReport]) -> Vec<&str> {
    children.iter().map(|child| &*child.id).collect()
}

#[test]
fn the_tree_is_true_under_every_strategy_after_every_restart() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne] {
        let world = World::new();
        let transient = world.child("c").restart(Restart::Transient);
        let supervisor = world.start(plenty(strategy).child(world.child("a")).child(world.child("b")).child(transient));
        world.assert_truth(supervisor);

        for id in ["a", "b", "a"] {
            let before = world.pid(supervisor, id);
            world.end(supervisor, id, crash());
            eventually("its restart", || world.pid_or_none(supervisor, id).is_some_and(|pid| pid != before));
            world.assert_truth(supervisor);
        }
        world.end(supervisor, "c", ExitReason::Normal);
        eventually("its end", || world.report(supervisor).counts.ended == 1);
        world.assert_truth(supervisor);

        let report = world.report(supervisor);
        assert_eq!((report.strategy, report.restarts_total, report.intensity_used), (strategy, 3, 3));
        let children = world.page(supervisor.pid(), 0, 9);
        assert_eq!(children.iter().map(|child| child.restarts_total).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(children[0].last_end.as_ref().map(|end| end.reason.clone()), Some(crash()));
    }
}

#[test]
fn the_last_ends_of_a_child_are_kept_with_their_pids_and_instants_even_once_it_is_dead() {
    let world = World::new();
    let supervisor = world.start(plenty(Strategy::OneForOne).child(world.child("a").restart(Restart::Transient)));
    let mut died = Vec::new();
    for n in 0..12 {
        let pid = world.pid(supervisor, "a");
        died.push(pid);
        world.end(supervisor, "a", ExitReason::other(n));
        eventually("its restart", || world.pid_or_none(supervisor, "a").is_some_and(|new| new != pid));
    }
    died.push(world.pid(supervisor, "a"));
    world.end(supervisor, "a", ExitReason::Shutdown);
    eventually("its end", || world.report(supervisor).counts.ended == 1);

    let [child] = world.page(supervisor.pid(), 0, 9).try_into().expect("one child");
    let (again, ends) = observe::child(&world.runtime, supervisor.pid(), child.key).expect("it is known");

    assert_eq!((&again, child.state, child.restarts_total), (&child, ChildStatus::Ended, 12));
    assert_eq!(ends.len(), ENDS_KEPT);
    assert_eq!(ends[0].reason, ExitReason::Shutdown);
    assert_eq!(ends[1].reason, ExitReason::other(11));
    let newest: Vec<Pid> = died.into_iter().rev().take(ENDS_KEPT).collect();
    assert_eq!(ends.iter().filter_map(|end| end.pid).collect::<Vec<_>>(), newest);
    assert!(ends.is_sorted_by(|newer, older| newer.at >= older.at));
    assert!(ends[0].at <= observe::uptime(&world.runtime));
}

#[test]
fn who_waits_for_a_restart_or_for_its_start_is_shown_so_while_its_supervisor_is_busy() {
    let world = World::new();
    let hour = Duration::from_hours(1);
    let waiting = plenty(Strategy::OneForOne).backoff(Backoff { first: hour, limit: hour });
    let waiting = world.start(waiting.child(world.child("a")).child(world.child("b")));
    world.end(waiting, "a", crash());
    eventually("it waits", || world.report(waiting).counts.waiting == 1);
    let child = &world.page(waiting.pid(), 0, 1)[0];
    assert!(matches!(child.state, ChildStatus::Waiting { left } if left > hour / 2), "{child:?}");

    let slow = ChildSpec::acknowledged("slow", |_, starting| async move {
        let _held = starting;
        pending::<()>().await;
    });
    let tree = Supervisor::new(Strategy::OneForOne).child(world.child("first")).child(slow);
    let busy = world.runtime.spawn(|ctx| async move { drop(tree.start_link(&ctx).await) }).expect("there is room");
    eventually("the slow child was begun", || {
        let top = observe::top_supervisors(&world.runtime, 0, 9).1;
        top.len() == 2 && world.page(top[1], 0, 9).iter().any(|child| matches!(child.state, ChildStatus::Starting(_)))
    });
    let (tops, top) = observe::top_supervisors(&world.runtime, 1, 9);
    assert_eq!((tops, top.len()), (2, 1));
    assert_eq!(observe::supervisor(&world.runtime, top[0]).and_then(|report| report.parent), Some(busy));
}

#[test]
fn supervisors_under_supervisors_are_not_at_the_top_and_leave_the_tree_however_they_end() {
    let world = World::new();
    let inner = plenty(Strategy::OneForAll).child(world.child("leaf"));
    let supervisor = world.start(plenty(Strategy::OneForOne).child(ChildSpec::supervisor("inner", inner)));
    let [child] = world.page(supervisor.pid(), 0, 9).try_into().expect("one child");
    let inner = child.state.pid().expect("it runs");
    assert_eq!(child.child_type, ChildType::Supervisor);
    assert_eq!(observe::top_supervisors(&world.runtime, 0, 9), (1, vec![supervisor.pid()]));
    assert_eq!(observe::supervisor(&world.runtime, inner).map(|report| report.parent), Some(Some(supervisor.pid())));

    world.runtime.exit(inner, ExitReason::Killed);
    eventually("another takes its place", || {
        let new = world.page(supervisor.pid(), 0, 1)[0].state.pid();
        new.is_some_and(|new| new != inner && observe::supervisor(&world.runtime, new).is_some())
    });
    eventually("the killed one left", || observe::supervisor(&world.runtime, inner).is_none());
    world.stop(supervisor);
    eventually("nobody is left", || observe::top_supervisors(&world.runtime, 0, 9) == (0, vec![]));
    assert_eq!(observe::children(&world.runtime, supervisor.pid(), 0, 9), None);
}

#[test]
fn supervisors_at_the_top_are_found_by_their_places_also_behind_one_that_has_ended() {
    let world = World::new();
    let [first, second, third] = [(); 3].map(|()| world.start(plenty(Strategy::OneForOne)));
    let places = |pids: [Pid; 3]| observe::top_positions(&world.runtime, pids);
    let (a, b, c) = (first.pid(), second.pid(), third.pid());
    assert_eq!(places([c, a, b]), [(0, a), (1, b), (2, c)]);

    world.stop(second);
    eventually("it left", || observe::supervisor(&world.runtime, b).is_none());

    assert_eq!(places([c, a, b]), [(0, a), (1, c)]);
    assert_eq!(observe::top_supervisors(&world.runtime, 1, 9), (2, vec![c]));
    world.stop(first);
    eventually("it left", || observe::supervisor(&world.runtime, a).is_none());
    assert_eq!(places([c, a, b]), [(0, c)]);
}

#[test]
fn a_failed_start_is_an_end_of_nobody_in_particular() {
    let world = World::new();
    let log = world.log.clone();
    let once = ChildSpec::new("once", move |ctx| {
        assert!(log.len() == 0, "only once");
        log.note("started");
        async move { ctx.receive_of::<ExitReason>().await }
    });
    let hour = Duration::from_hours(1);
    let patient = Backoff { first: Duration::ZERO, limit: hour };
    // So many that it does not give up before the page is read.
    let supervisor = Supervisor::new(Strategy::OneForOne).intensity(1_000_000, LONG).backoff(patient);
    let supervisor = world.start(supervisor.child(once));

    world.end(supervisor, "once", crash());
    eventually("it fails to start", || {
        world
            .page(supervisor.pid(), 0, 1)
            .iter()
            .any(|child| child.last_end.as_ref().is_some_and(|end| end.pid.is_none()))
    });

    world.stop(supervisor);
}

#[test]
fn pages_stay_whole_while_children_die_and_are_forgotten() {
    let world = World::new();
    let template = ChildSpec::template("session", |_, _: u32| pending::<()>()).restart(Restart::Temporary);
    let supervisor = world.start(Supervisor::simple_one_for_one(template));
    let start = |n: u32| world.on(supervisor.start_one(&*world.runtime, n)).expect("there is room");
    let mut pids: Vec<Pid> = (0..500).map(start).collect();

    while pids.len() > 20 {
        let victim = pids.remove(pids.len() * 7 / 11);
        world.runtime.exit(victim, ExitReason::Killed);
        eventually("it is forgotten", || world.report(supervisor).counts.total() == pids.len());
        for offset in [0, pids.len() / 3, pids.len() - 10, pids.len() + 3] {
            let page = observe::children(&world.runtime, supervisor.pid(), offset, 10).expect("it is alive");
            let seen: Vec<Pid> = page.children.iter().filter_map(|child| child.state.pid()).collect();
            let expected: Vec<Pid> = pids.iter().skip(offset).take(10).copied().collect();
            assert_eq!((page.total, seen), (pids.len(), expected), "from {offset}");
        }
        let page = world.page(supervisor.pid(), 5, 9);
        let mut keys: Vec<ChildKey> = page.iter().map(|child| child.key).collect();
        keys.push(ChildKey::of(10_000));
        let places =
            observe::child_positions(&world.runtime, supervisor.pid(), &keys).expect("the supervisor is alive");
        let expected: Vec<Option<usize>> = (5..14).map(Some).chain([None]).collect();
        assert_eq!(places, expected);
    }
}

#[test]
fn a_page_is_read_while_a_storm_rages() {
    let world = World::new();
    let storm = ChildSpec::new("storm", |_| async { crash() });
    let supervisor = Supervisor::new(Strategy::OneForOne).intensity(u32::MAX, Duration::from_millis(1));
    let supervisor = world.start(supervisor.child(world.child("calm")).child(storm));

    eventually("it has raged", || {
        let page = world.page(supervisor.pid(), 0, 9);
        assert_eq!(ids(&page), ["calm", "storm"]);
        assert!(matches!(page[1].state, ChildStatus::Running(_) | ChildStatus::Restarting), "{page:?}");
        page[1].restarts_total > 10_000
    });

    let (storm, ends) = observe::child(&world.runtime, supervisor.pid(), ChildKey::of(1)).expect("it is known");
    assert_eq!(ends.len(), ENDS_KEPT);
    assert!(storm.restarts_total <= world.report(supervisor).restarts_total);
}
