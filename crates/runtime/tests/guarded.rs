//! A scheduler whose short-lived processes are left to it, and whatever comes to lie behind a poll that is not short.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusm_runtime::{Config, Context, Down, ExitReason, Runtime};

/// Times that short processes are followed by a long poll.
const ROUNDS: usize = 20;
/// Enough for several looks of whoever might take from the scheduler.
const SHORT: Duration = Duration::from_millis(5);

/// Starts processes that end at once, a few at a time, until the time is over.
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

/// Starts a process and does not return before that one has run, which takes another scheduler.
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
    // Nobody is told of stuck processes meanwhile, which would help as well.
    let config = Config { schedulers: 2, stuck_after: Duration::from_mins(10), ..Config::default() };
    let runtime = Runtime::start(config).unwrap();
    let body = |ctx: Context| async move {
        for _ in 0..ROUNDS {
            short_lives(&ctx).await;
            assert!(wait_within_a_poll(&ctx), "another scheduler takes it");
            ctx.yield_now().await;
        }
    };

    let process = runtime.spawn(body).unwrap();

    assert_eq!(runtime.watch(process).wait(), ExitReason::Normal);
}
