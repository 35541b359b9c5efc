//! Waiting for what will happen.

use std::time::{Duration, Instant};

/// Waits for something, and fails after a time in which it surely would have happened.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_mins(1);
    while !done() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::yield_now();
    }
}
