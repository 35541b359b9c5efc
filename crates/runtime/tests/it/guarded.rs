//! A scheduler from which short-lived processes are not stolen, and processes that queue there behind a long poll.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusm_runtime::{Config, Context, Down, ExitReason, Runtime};

/// Number of times that a long poll follows short-lived processes.
const ROUNDS: usize = 20;
/// Duration of each run of short-lived processes: long enough for several checks by the scheduler that might steal.
const SHORT: Duration = Duration::from_millis(5);

/// Spawns processes that end at once, a few at a time, for [`SHORT`].
async fn short_lives(ctx: &Context) {
    const EACH: usize = 20;
    let until = Instant::now() + SHORT;
    while Instant::now() < until {
        for _ in 0..EACH {
            ctx.spawn_monitor(|_| async {}).expect("there is room");
        }
        for _ in 0..EACH {
            ctx.receive_of::<Down>().await;
        }
    }
}

/// Spawns a process and blocks this poll until it has run, which requires another scheduler; false after a minute.
fn wait_within_a_poll(ctx: &Context) -> bool {
    let ran = Arc::new(AtomicBool::new(false));
    let runs = Arc::clone(&ran);
    ctx.spawn(move |_| async move { runs.store(true, Ordering::SeqCst) });
    let until = Instant::now() + Duration::from_mins(1);
    while !ran.load(Ordering::SeqCst) && Instant::now() < until {
        std::thread::yield_now();
    }
    ran.load(Ordering::SeqCst)
}

#[test]
fn what_waits_behind_a_long_poll_runs_elsewhere_after_any_number_of_short_ones() {
    // Prevent the detection of stuck processes, which would let the waiting process run as well.
    let config = Config { schedulers: 2, stuck_after: Duration::from_mins(10), ..Config::default() };
    let runtime = Runtime::start(config).unwrap();
    let body = |ctx: Context| async move {
        for _ in 0..ROUNDS {
            short_lives(&ctx).await;
            assert!(wait_within_a_poll(&ctx), "another scheduler runs it");
            ctx.yield_now().await;
        }
    };

    let process = runtime.spawn(body).unwrap();

    assert_eq!(runtime.watch(process).wait(), ExitReason::Normal);
}
