//! A number of log lines for each second. Lines beyond it are counted, and the next line or the watchdog tells the number.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Maximum number of lines in a second of each budget.
pub(crate) const LINES_PER_SECOND: u64 = 32;
const SECOND_NS: u64 = 1_000_000_000;

/// A number of lines for each second, for all threads together.
pub(crate) struct LineBudget {
    /// Time of the first line.
    started: OnceLock<Instant>,
    /// The current second, and in the lowest 16 bits the number of its lines.
    state: AtomicU64,
    /// Lines that were not logged since the last one that was.
    skipped: AtomicU64,
}

impl LineBudget {
    pub(crate) const fn new() -> Self {
        Self { started: OnceLock::new(), state: AtomicU64::new(0), skipped: AtomicU64::new(0) }
    }

    /// Takes a line. Threads that ask at the same time may get a line too many.
    pub(crate) fn has_room(&self, now_ns: u64) -> bool {
        let (second, state) = (now_ns / SECOND_NS, self.state.load(Ordering::Relaxed));
        let lines = if state >> 16 == second { state & 0xffff } else { 0 };
        if lines < LINES_PER_SECOND {
            self.state.store(second << 16 | (lines + 1), Ordering::Relaxed);
        }
        lines < LINES_PER_SECOND
    }

    fn now_ns(&self) -> u64 {
        self.started.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    /// Takes a line, and returns how many were not logged before it; `None` if this one is not logged either.
    pub(crate) fn take(&self) -> Option<u64> {
        if self.has_room(self.now_ns()) {
            return Some(self.skipped.swap(0, Ordering::Relaxed));
        }
        self.skipped.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Returns how many lines were not logged, if no line has told it, and one may; `at_end` in any case.
    pub(crate) fn take_left(&self, at_end: bool) -> Option<u64> {
        let is_left = self.skipped.load(Ordering::Relaxed) > 0 && (at_end || self.has_room(self.now_ns()));
        // Another thread may tell it at the same time.
        Some(if is_left { self.skipped.swap(0, Ordering::Relaxed) } else { 0 }).filter(|left| *left > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_second_are_bounded_and_the_others_counted() {
        let lines = LineBudget::new();

        let logged: Vec<_> = (0..LINES_PER_SECOND + 1_000).map(|_| lines.take()).collect();

        // A second may end meanwhile.
        let count = logged.iter().flatten().count() as u64;
        assert!((LINES_PER_SECOND..=2 * LINES_PER_SECOND).contains(&count), "{count} lines");
        assert!(lines.skipped.load(Ordering::Relaxed) > 0 && logged[0] == Some(0));
    }

    #[test]
    fn lines_that_no_later_line_has_told_are_returned_by_the_next_second_or_at_the_end() {
        let lines = LineBudget::new();
        lines.skipped.store(5, Ordering::Relaxed);
        // All lines of the current second are used.
        let full = ((lines.now_ns() / SECOND_NS) << 16) | LINES_PER_SECOND;
        lines.state.store(full, Ordering::Relaxed);
        assert!(!lines.has_room(0) && lines.has_room(SECOND_NS));

        lines.state.store(0, Ordering::Relaxed);
        assert_eq!([lines.take_left(false), lines.take_left(false)], [Some(5), None]);
        lines.skipped.store(3, Ordering::Relaxed);
        assert_eq!([lines.take_left(true), lines.take_left(true)], [Some(3), None]);
    }
}
