//! Supervisors nested far deeper than a native stack allows for recursion.

use std::future::pending;
use std::thread;
use std::time::Duration;

use rusm_runtime::supervisor::{ChildSpec, FailedChild, Strategy, Supervisor, SupervisorRef};
use rusm_runtime::{Config, ExitReason, InitError, Runtime, observe};

use super::world::eventually;

const DEPTH: usize = 20_000;
/// So small that one frame for each level would overflow it.
const STACK_BYTES: usize = 256 * 1024;

/// Nests supervisors; the innermost one has this child.
fn nested(innermost: ChildSpec) -> Supervisor {
    (1..DEPTH).fold(Supervisor::new(Strategy::OneForOne).child(innermost), |inner, _| {
        Supervisor::new(Strategy::OneForOne).child(ChildSpec::supervisor("inner", inner))
    })
}

fn started(runtime: &Runtime) -> SupervisorRef {
    let tree = nested(ChildSpec::new("leaf", |_| pending::<()>()));
    let started = outside().block_on(tree.start(runtime)).expect("all levels start");
    assert_eq!(runtime.process_count(), DEPTH as u64 + 1);
    started
}

fn outside() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("it builds")
}

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(test).expect("a thread starts");
    thread.join().expect("the test passes");
}

#[test]
fn a_deep_tree_that_never_starts_is_dropped_without_recursion() {
    on_a_small_stack(|| {
        let tree = nested(ChildSpec::new("leaf", |_| pending::<()>()));
        let copy = tree.clone();
        drop(tree);
        drop(copy);
        drop(Supervisor::simple_one_for_one(ChildSpec::supervisor(
            "template",
            nested(ChildSpec::new("leaf", |_| pending::<()>())),
        )));
    });
}

#[test]
fn a_deep_tree_starts_and_stops_in_order() {
    on_a_small_stack(|| {
        let runtime = runtime();
        let top = started(&runtime);

        assert_eq!(observe::children(&runtime, top.pid(), 0, 1).unwrap().total, 1);
        runtime.exit(top.pid(), ExitReason::Shutdown);

        eventually("the end of all", || runtime.process_count() == 0);
    });
}

#[test]
fn a_deep_tree_ends_when_its_top_is_killed() {
    on_a_small_stack(|| {
        let runtime = runtime();
        let top = started(&runtime);

        runtime.exit(top.pid(), ExitReason::Killed);

        eventually("the end of all", || runtime.process_count() == 0);
    });
}

#[test]
fn a_deep_tree_ends_with_its_runtime() {
    on_a_small_stack(|| {
        let runtime = runtime();
        started(&runtime);

        let shutdown = runtime.shutdown(Duration::from_mins(1));

        assert_eq!((shutdown.killed, shutdown.stuck.len()), (0, 0));
    });
}

#[test]
fn the_failure_of_a_deep_tree_names_the_child_and_stays_small() {
    on_a_small_stack(|| {
        let runtime = runtime();
        let leaf = ChildSpec::acknowledged("leaf", |_, _| async { ExitReason::other("disk full") });

        let failed = outside().block_on(nested(leaf).start(&runtime));

        let Err(InitError::Ended(ExitReason::ShutdownWith(detail))) = failed else { panic!("{failed:?}") };
        assert!(detail.text().len() < 2048 && detail.text().ends_with("disk full"), "{}", detail.text());
        let mut levels = vec![detail.value::<FailedChild>().unwrap()];
        while let InitError::Ended(ExitReason::ShutdownWith(detail)) = &levels[levels.len() - 1].error {
            levels.push(detail.value::<FailedChild>().unwrap());
        }
        assert_eq!((levels.len(), &*levels[0].id, &*levels[15].id), (16, "inner", "leaf"));
    });
}
