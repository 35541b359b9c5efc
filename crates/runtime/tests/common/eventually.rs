//! Waiting for an expected event.

use std::time::{Duration, Instant};

/// Waits for an expected event; fails after a time by which it surely would have happened.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_mins(1);
    while !done() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::yield_now();
    }
}
