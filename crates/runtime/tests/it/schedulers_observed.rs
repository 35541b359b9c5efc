//! Schedulers as observers see them: steals from both sides, the age of a queue, the running process, and sleep.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::eventually::eventually;
use rusm_runtime::observe::{self, SchedulerReport, SchedulerWatch};
use rusm_runtime::{Config, Runtime};

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, stuck_after: Duration::from_mins(1), ..Config::default() }).unwrap()
}

/// Spawns a process on scheduler 0 that spawns `children` and then does not return from its poll until the flag is set.
fn holder(runtime: &Runtime, children: usize, pinned: bool) -> Arc<AtomicBool> {
    let (release, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (held, told) = (Arc::clone(&release), Arc::clone(&done));
    runtime
        .spawn_pinned(0, move |ctx| async move {
            for _ in 0..children {
                let child = |ctx: rusm_runtime::Context| async move { drop(ctx.receive_match(|_| false).await) };
                if pinned {
                    ctx.spawn_pinned(0, child).unwrap();
                } else {
                    ctx.spawn(child);
                }
            }
            told.store(true, Ordering::Release);
            while !held.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        })
        .unwrap();
    eventually("the process holds its scheduler", || done.load(Ordering::Acquire));
    release
}

#[test]
fn what_one_scheduler_steals_is_stolen_from_another() {
    let runtime = runtime();

    let release = holder(&runtime, 64, false);

    let sums = || {
        let reports = observe::scheduler_reports(&runtime);
        let sum = |of: fn(&SchedulerReport) -> u64| reports.iter().map(of).sum::<u64>();
        (sum(|one| one.counters.steals), sum(|one| one.stolen))
    };
    // The LIFO slot of a scheduler is not stolen from.
    eventually("the children are stolen", || sums().0 >= 63);
    eventually("both sides have counted them", || sums().0 == sums().1);
    assert!(observe::scheduler_reports(&runtime)[0].stolen >= 63);
    release.store(true, Ordering::Release);
}

#[test]
fn pinned_processes_wait_behind_a_long_poll_while_the_other_scheduler_sleeps() {
    let runtime = runtime();
    let release = holder(&runtime, 5, true);

    // It may wake for a moment between two reports.
    let seen = RefCell::new(Vec::new());
    eventually("the other scheduler sleeps", || {
        seen.replace(observe::scheduler_reports(&runtime));
        let other = &seen.borrow()[1];
        other.asleep.is_some() && other.running.is_none() && other.slice.is_none()
    });
    let [busy, other] = seen.into_inner().try_into().unwrap();

    assert_eq!((busy.pinned, busy.counters.run_queue, busy.queued, busy.preempted), (5, 5, 0, 0));
    assert!(busy.running.is_some() && busy.slice.is_some() && busy.asleep.is_none(), "{busy:?}");
    assert!(busy.thread_id != other.thread_id && busy.thread_id != 0);
    release.store(true, Ordering::Release);
    eventually("nothing waits", || observe::scheduler_reports(&runtime)[0].counters.run_queue == 0);
}

#[test]
fn the_age_of_a_queue_is_published_only_while_it_is_watched() {
    let runtime =
        Runtime::start(Config { schedulers: 1, stuck_after: Duration::from_mins(1), ..Config::default() }).unwrap();
    let oldest = || observe::scheduler_reports(&runtime)[0].oldest_ready;
    // Two processes that are always ready: each slice begins with one of them in the queue.
    for _ in 0..2 {
        runtime
            .spawn(|ctx| async move {
                loop {
                    std::hint::black_box((0..2_000).sum::<u64>());
                    ctx.yield_now().await;
                }
            })
            .unwrap();
    }

    assert_eq!(oldest(), None);
    let watch = SchedulerWatch::new(&runtime);
    eventually("an age is published", || oldest().is_some_and(|age| age < Duration::from_secs(1)));
    drop(watch);
}
