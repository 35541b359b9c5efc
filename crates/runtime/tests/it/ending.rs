//! The shutdown of a runtime while threads still use its handles, and the order in which its processes end.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use rusm_runtime::{Config, ExitReason, Pid, Runtime, SpawnError};

const LONG: Duration = Duration::from_mins(2);

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

#[test]
fn many_processes_started_from_outside_are_all_asked_to_end_before_any_is_killed() {
    let runtime = runtime();
    for _ in 0..40_000 {
        runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).expect("there is room");
    }

    assert_eq!(runtime.shutdown(LONG).killed, 0);
}

#[test]
fn a_runtime_may_end_with_the_thread_that_keeps_it() {
    thread_local! {
        static KEPT: Cell<Option<Runtime>> = const { Cell::new(None) };
    }
    let (give, take) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let kept = runtime();
        let held = move |_| async move {
            let _give = give;
            std::future::pending::<()>().await;
        };
        kept.spawn(held).expect("there is room");
        KEPT.set(Some(kept));
        // The runtime is destroyed after the thread's own data about panics.
        drop(runtime());
    });

    thread.join().expect("the thread ends");
    assert_eq!(take.recv(), Err::<(), _>(mpsc::RecvError), "the process was dropped");
}

#[test]
fn a_deadline_that_never_comes_is_one() {
    let runtime = runtime();
    let (give, take) = mpsc::channel();
    let body = move |ctx: rusm_runtime::Context| async move {
        ctx.trap_exits(true);
        give.send("begun").expect("the test waits");
        drop(ctx.receive().await);
        give.send("asked").expect("the test waits");
    };
    runtime.spawn(body).expect("there is room");
    assert_eq!(take.recv(), Ok("begun"));

    assert_eq!(runtime.shutdown(Duration::MAX).killed, 0);
    assert_eq!(take.try_recv(), Ok("asked"));
}

#[test]
fn a_process_that_is_being_made_outside_is_there_before_the_runtime_ends_or_never() {
    for _ in 0..20 {
        let runtime = runtime();
        let (handle, (give, take)) = (runtime.clone(), mpsc::channel());
        let maker = std::thread::spawn(move || {
            let dropped = Arc::new(());
            let held = Arc::clone(&dropped);
            let made = handle.spawn(|_| {
                give.send(()).expect("the test waits");
                for _ in 0..100 {
                    std::thread::yield_now();
                }
                async move {
                    std::future::pending::<()>().await;
                    drop(held);
                }
            });
            // The wait returns when the process has ended, and what it held is dropped.
            if let Ok(pid) = made {
                handle.wait(pid);
            }
            dropped
        });
        take.recv().expect("the closure runs");
        drop(runtime);

        let dropped = maker.join().expect("no panic");
        assert_eq!(Arc::strong_count(&dropped), 1);
    }
}

#[test]
fn a_process_whose_creation_outlasts_the_runtime_ends_with_it() {
    let runtime = runtime();
    let (handle, (tell, told), (go, going)) = (runtime.clone(), mpsc::channel(), mpsc::channel::<()>());
    let creator = std::thread::spawn(move || {
        let held = Arc::new(());
        let of_process = Arc::clone(&held);
        let pid = handle.spawn(move |_| {
            tell.send(()).expect("the test waits");
            going.recv().expect("the test has ended the runtime");
            async move {
                std::future::pending::<()>().await;
                drop(of_process);
            }
        });
        handle.wait(pid.expect("the runtime was there at the start"));
        Arc::strong_count(&held)
    });
    told.recv().expect("the closure runs");

    drop(runtime);
    go.send(()).expect("the closure waits");

    assert_eq!(creator.join().expect("no panic"), 1);
}

#[test]
fn a_process_that_sends_to_a_dead_one_in_a_loop_can_be_ended() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("it starts");
    let dead = runtime.spawn(|_| async {}).expect("there is room");
    runtime.wait(dead);
    let sender = runtime.spawn(move |ctx| async move {
        loop {
            ctx.send(dead, 1_u64).await;
        }
    });
    let sender = sender.expect("there is room");

    let other = runtime.spawn(|_| async {}).expect("the other process has its turn");
    runtime.wait(other);
    runtime.exit(sender, ExitReason::Killed);

    assert_eq!(runtime.wait(sender), ExitReason::Killed);
    assert_eq!(runtime.shutdown(Duration::MAX).stuck, []);
}

#[test]
fn handles_of_a_runtime_that_has_ended_find_nobody() {
    let runtime = runtime();
    let handle = runtime.clone();
    let pids: Vec<Pid> =
        (0..2_000).map(|_| handle.spawn(|_| std::future::pending::<()>()).expect("there is room")).collect();
    let stop = Arc::new(AtomicU64::new(0));
    let users: Vec<_> = (0..2)
        .map(|_| {
            let (handle, pids, stop) = (handle.clone(), pids.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                while stop.load(Ordering::Relaxed) == 0 {
                    for pid in &pids {
                        drop(handle.try_send(*pid, 1_u64));
                        if let Some(seen) = rusm_runtime::observe::process_in_slot(&handle, pid.slot()) {
                            assert_ne!(seen.memory_bytes(), 0);
                        }
                    }
                }
            })
        })
        .collect();
    drop(runtime);
    stop.store(1, Ordering::Relaxed);
    for user in users {
        user.join().expect("no panic");
    }

    assert!(pids.iter().all(|pid| handle.try_send(*pid, 1_u64).is_err()));
    assert_eq!(handle.spawn(|_| async {}), Err(SpawnError::ShuttingDown));
}

#[test]
fn a_pid_that_was_told_before_its_process_began_becomes_nobody_elses() {
    let runtime = runtime();
    let told = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..3 {
        let told = Arc::clone(&told);
        let unborn = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.spawn(move |ctx| {
                told.lock().push(ctx.pid());
                assert_eq!(ctx.pid(), Pid::NONE, "before the future exists");
                std::future::pending::<()>()
            })
        }));
        assert!(unborn.is_err());
    }
    let born = runtime.spawn(|_| std::future::pending::<()>()).expect("there is room");

    let told = told.lock();
    assert_eq!(told.len(), 3);
    assert!(!told.contains(&born) && told[0] != told[1], "{told:?} {born}");
}
