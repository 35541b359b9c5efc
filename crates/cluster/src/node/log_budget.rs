//! The budget of log lines that a peer may cause: bytes of another node must not fill the disk.

use std::time::Duration;

/// Number of lines that may follow each other at once.
const BURST: u32 = 10;
/// Time in which one more line is allowed.
const EVERY: Duration = Duration::from_millis(500);

/// Lines that a peer may cause now, and those that were dropped.
#[derive(Debug, Default)]
pub(super) struct LogBudget {
    /// Number of lines in the burst that are used up.
    used: u32,
    refilled_at: Duration,
    dropped: u64,
}

/// Permission for one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Number of lines that were dropped before this one, to be said in it; `None` for 0.
    pub(super) dropped: Option<u64>,
}

impl LogBudget {
    /// Takes one line, or counts it as dropped.
    pub(super) fn take(&mut self, now: Duration) -> Option<Line> {
        let refills = now.saturating_sub(self.refilled_at).as_millis() / EVERY.as_millis();
        self.refilled_at += EVERY * u32::try_from(refills).unwrap_or(u32::MAX);
        self.used = self.used.saturating_sub(u32::try_from(refills).unwrap_or(u32::MAX));
        if self.used >= BURST {
            self.dropped += 1;
            return None;
        }
        self.used += 1;
        let dropped = std::mem::take(&mut self.dropped);
        Some(Line { dropped: (dropped > 0).then_some(dropped) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_a_burst_and_then_two_lines_a_second_that_say_what_was_dropped() {
        let mut budget = LogBudget::default();
        let lines: Vec<Line> = (0..10_000_u64).filter_map(|ms| budget.take(Duration::from_millis(ms))).collect();

        assert_eq!(lines.len(), 10 + 19);
        assert!(lines[..10].iter().all(|line| line.dropped.is_none()));
        assert_eq!(lines[10].dropped, Some(490));
        assert_eq!(lines[11].dropped, Some(499));
        let later = budget.take(Duration::from_mins(10)).unwrap();
        assert_eq!(later.dropped, Some(499));
    }
}
