//! Blocking code on threads outside the schedulers.
//!
//! Tokio's pool panics if the system does not start its first thread. Here the code waits until the system does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::runtime::panics::without_panic;

/// First and longest pause before the next attempt to get a thread.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Runs code on a thread outside the schedulers. Returns its panic as an error, and `None` if the runtime ended first.
pub async fn run<T: Send + 'static>(code: impl FnOnce() -> T + Send + 'static) -> Option<thread::Result<T>> {
    let (sender, mut outcome) = oneshot::channel();
    let job = Arc::new(Mutex::new(Some(move || drop(sender.send(catch_unwind(AssertUnwindSafe(code)))))));
    let [mut delay, delay_max] = RETRY_DELAYS;
    while !is_queued(&job) {
        // The failed attempt may have left the job in the queue.
        match tokio::time::timeout(delay, &mut outcome).await {
            Ok(outcome) => return outcome.ok(),
            Err(_elapsed) => delay = (delay * 2).min(delay_max),
        }
    }
    drop(job);
    outcome.await.ok()
}

/// Passes a job to the pool; the job is taken only once, however often it is passed. Returns false while the pool is
/// without threads.
fn is_queued<F: FnOnce() + Send + 'static>(job: &Arc<Mutex<Option<F>>>) -> bool {
    let job = Arc::clone(job);
    let run = move || {
        let taken = job.lock().take();
        if let Some(job) = taken {
            job();
        }
    };
    without_panic(|| drop(tokio::task::spawn_blocking(run))).is_some()
}
