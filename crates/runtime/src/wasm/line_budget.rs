//! How many lines of a noisy writer reach the log in a second; those beyond are counted, and told with the next one.
//!
//! Never reads a clock: `now` is an argument, so its tests need no sleeping.

use std::time::{Duration, Instant};

/// A number of lines for each second.
///
/// ```
/// use std::time::{Duration, Instant};
/// use rusm_runtime::wasm::LineBudget;
///
/// let (mut budget, now) = (LineBudget::per_sec(1), Instant::now());
/// assert_eq!(budget.spend(now), Some(0));
/// assert_eq!(budget.spend(now), None, "this line is cut");
/// assert_eq!(budget.spend(now + Duration::from_secs(1)), Some(1), "and told with the next one");
/// ```
#[derive(Clone, Debug)]
pub struct LineBudget {
    per_sec: u32,
    since: Option<Instant>,
    lines: u32,
    cut: u64,
}

impl LineBudget {
    /// So many lines in each second, counted from the first.
    #[must_use]
    pub const fn per_sec(per_sec: u32) -> Self {
        Self { per_sec, since: None, lines: 0, cut: 0 }
    }

    /// Whether one more line may be written at `now`, and how many were cut before it.
    pub fn spend(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1)) {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines == self.per_sec {
            self.cut += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_lines_is_cut_and_counted() {
        let (mut budget, start) = (LineBudget::per_sec(1_000), Instant::now());

        assert!((0..1_000).all(|_| budget.spend(start) == Some(0)));
        assert!((0..7).all(|_| budget.spend(start).is_none()));

        assert_eq!(budget.spend(start + Duration::from_secs(1)), Some(7));
        assert_eq!(budget.spend(start + Duration::from_secs(1)), Some(0));
    }
}
