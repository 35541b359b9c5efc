//! Time: timers of processes, tickers for exact periodic work, and real-time priorities of threads.

use std::time::Duration;

pub(crate) mod line_budget;
pub(crate) mod override_stack;
pub(crate) mod realtime;
pub mod ticker;
pub(crate) mod timers;

/// Returns a duration in nanoseconds; longer ones than a `u64` can hold are cut to its maximum.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
