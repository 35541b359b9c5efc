//! A budget of log lines and their bytes per second. Lines beyond it are counted and reported with the next line.
//!
//! Never reads a clock: `now` is an argument, so its tests need no sleeping.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::WasmConfig;

/// A number of lines per second, and of bytes in them.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use std::time::{Duration, Instant};
/// use rusm::wasm::LogRateLimiter;
///
/// let (mut budget, now) = (LogRateLimiter::per_sec(1).with_bytes_per_sec(100), Instant::now());
/// assert_eq!(budget.spend(now, 40), Some(0));
/// assert_eq!(budget.spend(now, 40), None, "this line is cut");
/// assert_eq!(budget.spend(now + Duration::from_secs(1), 40), Some(1), "and told with the next one");
/// ```
#[derive(Clone, Debug)]
pub struct LogRateLimiter {
    lines_per_sec: u32,
    bytes_per_sec: u64,
    since: Option<Instant>,
    lines: u32,
    bytes: u64,
    cut: u64,
}

impl LogRateLimiter {
    /// Creates a budget of this many lines per second, counted from the first line; bytes are not limited.
    #[must_use]
    pub const fn per_sec(lines: u32) -> Self {
        Self { lines_per_sec: lines, bytes_per_sec: u64::MAX, since: None, lines: 0, bytes: 0, cut: 0 }
    }

    /// Adds a limit of bytes per second. A single line may exceed it.
    #[must_use]
    pub const fn with_bytes_per_sec(self, bytes: u64) -> Self {
        Self { bytes_per_sec: bytes, ..self }
    }

    /// Spends a line of this many bytes at `now`. Returns the number of lines that were cut before it, or `None` if
    /// this one is cut.
    pub fn spend(&mut self, now: Instant, bytes: usize) -> Option<u64> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1)) {
            (self.since, self.lines, self.bytes) = (Some(now), 0, 0);
        }
        if self.lines >= self.lines_per_sec || (self.bytes > 0 && self.bytes + bytes as u64 > self.bytes_per_sec) {
            self.cut += 1;
            return None;
        }
        self.lines += 1;
        self.bytes += bytes as u64;
        Some(std::mem::take(&mut self.cut))
    }

    /// Adds lines that were cut for another reason, or that must be reported again.
    pub(crate) fn count_cut(&mut self, lines: u64) {
        self.cut += lines;
    }
}

/// The budget of all guests of an engine together is this many times that of one guest.
const BUDGETS_OF_ALL: u32 = 16;

/// The budget of one guest.
pub(crate) fn log_budget_of_guest(config: &WasmConfig) -> Mutex<LogRateLimiter> {
    Mutex::new(LogRateLimiter::per_sec(config.log_lines_per_sec).with_bytes_per_sec(config.log_bytes_per_sec))
}

/// The budget of all guests of an engine: starting further guests must not multiply the budget.
pub(crate) fn log_budget_of_all(config: &WasmConfig) -> Mutex<LogRateLimiter> {
    let lines = LogRateLimiter::per_sec(config.log_lines_per_sec.saturating_mul(BUDGETS_OF_ALL));
    Mutex::new(lines.with_bytes_per_sec(config.log_bytes_per_sec.saturating_mul(BUDGETS_OF_ALL.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_lines_is_cut_and_counted() {
        let (mut budget, start) = (LogRateLimiter::per_sec(1_000), Instant::now());

        assert!((0..1_000).all(|_| budget.spend(start, 1) == Some(0)));
        assert!((0..7).all(|_| budget.spend(start, 1).is_none()));

        assert_eq!(budget.spend(start + Duration::from_secs(1), 1), Some(7));
        assert_eq!(budget.spend(start + Duration::from_secs(1), 1), Some(0));
    }

    #[test]
    fn long_lines_are_cut_by_their_bytes_and_one_is_always_written() {
        let (mut budget, start) = (LogRateLimiter::per_sec(1_000).with_bytes_per_sec(100), Instant::now());

        assert_eq!(budget.spend(start, 5_000), Some(0));
        assert_eq!(budget.spend(start, 1), None);
        let later = start + Duration::from_secs(1);
        assert_eq!([60, 60, 40, 1].map(|bytes| budget.spend(later, bytes)), [Some(1), None, Some(1), None]);
    }
}
