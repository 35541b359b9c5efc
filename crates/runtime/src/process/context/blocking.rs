//! Blocking code on threads outside the schedulers.
//!
//! Tokio's pool panics if the system does not start its first thread. Here the code waits until the system does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::runtime::panics::{self, without_panic};

/// First and longest pause before the next attempt to get a thread.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Runs code on a thread outside the schedulers. Returns its panic as an error, and `None` if the runtime ended first.
pub async fn run<T: Send + 'static>(code: impl FnOnce() -> T + Send + 'static) -> Option<thread::Result<T>> {
    let (sender, mut outcome) = oneshot::channel();
    let run = move || {
        let result = panics::of_process(|| catch_unwind(AssertUnwindSafe(code)));
        let location = if result.is_err() { panics::take_location() } else { None };
        if let Err((Err(payload), location)) = sender.send((result, location)) {
            // The process has ended, and does not report the panic.
            panics::report(payload, location);
        }
    };
    let job = Arc::new(Mutex::new(Some(run)));
    let [mut delay, delay_max] = RETRY_DELAYS;
    while !is_queued(&job) {
        // The failed attempt may have left the job in the queue.
        match tokio::time::timeout(delay, &mut outcome).await {
            Ok(outcome) => return outcome.ok().map(received),
            Err(_elapsed) => delay = (delay * 2).min(delay_max),
        }
    }
    drop(job);
    outcome.await.ok().map(received)
}

/// Keeps the location of a panic for this thread, which reports it.
fn received<T>((result, location): (thread::Result<T>, Option<String>)) -> thread::Result<T> {
    if location.is_some() {
        panics::set_location(location);
    }
    result
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
