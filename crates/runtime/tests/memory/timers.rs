//! Timers leak no memory, and the timer thread does not exist before the first timer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::eventually::eventually;
use crate::heap::{LIVE_BYTES, alone};
use rusm_runtime::{Config, ExitReason, Runtime, observe};

/// Allowed growth after the first round: a third of a byte for each of the 800,000 later timers.
const SLACK_BYTES: usize = 256 * 1024;

/// Number of threads that fire timers.
fn timer_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.trim() == "rusm-timers").count()
}

#[test]
fn a_million_timers_set_and_cancelled_leave_memory_flat() {
    let _alone = alone();
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    assert_eq!(timer_threads(), 0, "no timer thread exists before the first timer");
    let process = runtime
        .spawn(|ctx| async move {
            let mut after_first_round = None;
            for round in 0..5 {
                let far = Duration::from_hours(1);
                let timers: Vec<_> = (0..200_000_u64)
                    .map(|number| {
                        ctx.send_after(ctx.pid(), far + Duration::from_micros(number * 7919 % 1_000_000), round)
                    })
                    .collect();
                for timer in timers {
                    assert!(ctx.cancel(timer).is_some());
                }
                let live = LIVE_BYTES.load(Ordering::Relaxed);
                let before = *after_first_round.get_or_insert(live);
                assert!(live < before + SLACK_BYTES, "round {round}: {before} -> {live} bytes");
            }
        })
        .unwrap();

    assert_eq!(runtime.watch(process).wait(), ExitReason::Normal);
    assert_eq!(observe::timers(&runtime).pending, 0);
    if cfg!(target_os = "linux") {
        assert_eq!(timer_threads(), 1);
        drop(runtime);
        eventually("its thread is gone", || timer_threads() == 0);
    }
}
