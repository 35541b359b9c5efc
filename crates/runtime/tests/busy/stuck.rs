//! Schedulers blocked by a poll that does not return: the processes behind it run elsewhere.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::eventually::eventually;
use rusm_runtime::{Config, CrashHook, Runtime, observe};

#[test]
fn s14_a_stuck_process_is_named_and_its_scheduler_is_emptied_by_the_others() {
    let runtime =
        Runtime::start(Config { schedulers: 2, stuck_after: Duration::from_millis(100), ..Config::default() }).unwrap();
    let (stop, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (stopped, going) = (Arc::clone(&stop), Arc::clone(&go_on));
    let stuck = runtime
        .spawn(move |ctx| async move {
            // Both processes are on this scheduler: one in its run queue, the other in its next-to-run slot.
            let going = &going;
            let waiting = ctx.spawn({
                let going = Arc::clone(going);
                move |ctx| async move {
                    ctx.receive().await;
                    going.store(true, Ordering::Release);
                }
            });
            ctx.yield_now().await;
            ctx.spawn(|_| async {});
            ctx.try_send(waiting, ()).unwrap();
            while !stopped.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        })
        .unwrap();

    eventually("it is called stuck", || observe::stuck(&runtime) == [stuck]);
    eventually("the others run", || go_on.load(Ordering::Acquire) && runtime.process_count() == 1);

    stop.store(true, Ordering::Release);
    eventually("it is stuck no longer", || observe::stuck(&runtime).is_empty());
}

#[test]
fn s14_a_process_whose_crash_takes_long_to_report_is_named_and_not_the_next_one_of_its_slot() {
    let (reported, waiting) = mpsc::channel::<()>();
    let waiting = parking_lot::Mutex::new(waiting);
    let on_crash = CrashHook::new(move |_| waiting.lock().recv().unwrap_or(()));
    let config = Config { schedulers: 1, stuck_after: Duration::from_millis(100), ..Config::default() };
    let runtime = Runtime::start(Config { on_crash: Some(on_crash), log_crashes: false, ..config }).unwrap();

    let crashed = runtime.spawn(|_| async { Err::<(), _>("no change") }).unwrap();

    eventually("something is called stuck", || !observe::stuck(&runtime).is_empty());
    assert_eq!(observe::stuck(&runtime), [crashed]);
    drop(reported);
}

#[test]
fn s14_a_scheduler_that_is_never_idle_runs_what_waits_behind_a_stuck_process_too() {
    let runtime =
        Runtime::start(Config { schedulers: 2, stuck_after: Duration::from_millis(100), ..Config::default() }).unwrap();
    let (release, blocked) = mpsc::channel::<()>();
    let ran = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ran);
    runtime
        .spawn_pinned(1, |ctx| async move {
            loop {
                ctx.yield_now().await;
            }
        })
        .unwrap();
    runtime
        .spawn_pinned(0, move |ctx| async move {
            for _ in 0..100 {
                let counted = Arc::clone(&counted);
                ctx.spawn(move |_| async move { _ = counted.fetch_add(1, Ordering::Relaxed) });
            }
            blocked.recv().unwrap_or(());
        })
        .unwrap();

    eventually("the hundred have run", || ran.load(Ordering::Relaxed) == 100);

    drop(release);
}
