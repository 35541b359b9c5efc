//! One offered rate, and whether the system kept up with it.

use rusm_protocol::LatencySnapshot;
use serde::Serialize;

use crate::judge::backlog::{CONFIDENCE, backlog, grows};
use crate::judge::statistics::theil_sen;
use crate::measure::interval::Interval;
use crate::report::numbers::{Amount, Nanos};
use crate::report::{KEEPS_UP, Report, Verdict};

/// Minimum part of the offered operations that must be done for a shortfall to count as a stall.
const STALLED: f64 = 0.95;

/// One offered rate and its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Level {
    /// Rate as a part of the capacity.
    pub load: f64,
    /// Operations per second that were offered.
    pub offered_per_sec: f64,
    /// Operations per second that were done.
    pub achieved_per_sec: f64,
    /// Growth of the backlog, in operations per second.
    pub backlog_slope_per_sec: Option<f64>,
    /// Lower end of its 95 % confidence interval.
    pub backlog_slope_low: Option<f64>,
    /// Upper end of its 95 % confidence interval.
    pub backlog_slope_high: Option<f64>,
    /// Number of operations that failed.
    pub errors_total: u64,
    /// Number of operations that were dropped.
    pub dropped_total: u64,
    /// Number of operations that were done.
    pub ops_total: u64,
    /// True if the backlog did not grow, at least 99 % were done and none were dropped.
    pub stable: bool,
    /// True if other processes used the machine, or it stalled: an unstable result then proves nothing.
    pub disturbed: bool,
    /// Number of the search that offered this rate, counted from 1.
    pub search: u32,
    /// Latency from the intended start.
    pub latency: LatencySnapshot,
}

impl Level {
    /// Creates the result of an open-loop run with its intervals.
    pub(crate) fn of(report: &Report, intervals: &[Interval]) -> Self {
        let offered = report.open_loop.map_or(0.0, |open| open.offered_per_sec);
        let achieved = report.open_loop.map_or(0.0, |open| open.achieved);
        let line = theil_sen(&backlog(offered, intervals), CONFIDENCE);
        let keeps_up = line.is_some_and(|line| line.low <= 0.0) && achieved >= KEEPS_UP && report.dropped_total == 0;
        Self {
            load: 0.0,
            offered_per_sec: offered,
            achieved_per_sec: offered * achieved,
            backlog_slope_per_sec: line.map(|line| line.slope),
            backlog_slope_low: line.map(|line| line.low),
            backlog_slope_high: line.map(|line| line.high),
            errors_total: report.errors_total,
            dropped_total: report.dropped_total,
            ops_total: report.ops_total,
            stable: keeps_up,
            disturbed: report.verdict == Verdict::Disturbed || (!keeps_up && is_stall(report, offered, intervals)),
            search: 1,
            latency: report.latency.as_ref().map(|latency| latency.distribution).unwrap_or_default(),
        }
    }

    /// Returns the part of all operations that failed.
    pub fn error_rate(&self) -> f64 {
        self.errors_total as f64 / (self.ops_total + self.errors_total).max(1) as f64
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "offered {}/s, done {}/s, p99 {}, {}",
            Amount(self.offered_per_sec),
            Amount(self.achieved_per_sec),
            Nanos(self.latency.p99_ns as f64),
            self.word()
        )
    }

    /// Returns the stability as a word for people.
    pub(crate) const fn word(&self) -> &'static str {
        match (self.stable, self.disturbed) {
            (true, _) => "stable",
            (false, false) => "not stable",
            (false, true) => "disturbed",
        }
    }
}

/// Returns true if the shortfall is small and the backlog did not grow: the machine stalled for a moment, so the result
/// proves nothing.
fn is_stall(report: &Report, offered: f64, intervals: &[Interval]) -> bool {
    let achieved = report.open_loop.map_or(0.0, |open| open.achieved);
    report.dropped_total == 0 && achieved >= STALLED && !grows(offered, intervals)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::judge::backlog::POINTS_MAX;
    use crate::report::OpenLoopReport;

    fn level(ops: impl Fn(u64) -> u64, dropped_total: u64) -> Level {
        level_of(60, ops, dropped_total)
    }

    fn level_of(count: u64, ops: impl Fn(u64) -> u64, dropped_total: u64) -> Level {
        let interval = |n| Interval { duration: Duration::from_millis(100), ops: ops(n), ..Interval::default() };
        let intervals: Vec<Interval> = (0..count).map(interval).collect();
        let done: u64 = intervals.iter().map(|interval| interval.ops).sum();
        let achieved = done as f64 / (100 * count) as f64;
        let open = OpenLoopReport { offered_per_sec: 1_000.0, achieved, ..Default::default() };
        Level::of(&Report { open_loop: Some(open), dropped_total, ..Report::default() }, &intervals)
    }

    #[test]
    fn a_backlog_that_does_not_grow_is_stable() {
        assert!(level(|_| 100, 0).stable);
        assert!(level(|n| if n % 2 == 0 { 90 } else { 110 }, 0).stable);
    }

    #[test]
    fn one_stall_is_a_disturbance_and_a_backlog_that_grows_is_not() {
        // Stall: one interval with 10 operations instead of 100. Overload: 95 instead of 100 all the time.
        let (stalled, behind) = (level(|n| if n == 55 { 10 } else { 100 }, 0), level(|_| 95, 0));

        assert_eq!((stalled.stable, stalled.disturbed, stalled.word()), (false, true, "disturbed"), "{stalled:?}");
        assert_eq!((behind.stable, behind.disturbed, behind.word()), (false, false, "not stable"), "{behind:?}");
    }

    #[test]
    fn a_level_of_an_hour_is_judged_by_some_hundred_points() {
        let hour = 36_000;

        let points = backlog(1_000.0, &vec![Interval::default(); hour as usize]);

        assert!((POINTS_MAX / 2..=POINTS_MAX).contains(&points.len()), "{}", points.len());
        assert!(level_of(hour, |n| if n % 2 == 0 { 90 } else { 110 }, 0).stable);
        let behind = level_of(hour, |n| if n % 20 == 0 { 90 } else { 100 }, 0);
        assert!(!behind.stable && behind.backlog_slope_low.is_some_and(|low| low > 4.0), "{behind:?}");
    }

    #[test]
    fn a_backlog_that_grows_and_operations_that_are_dropped_are_not() {
        let behind = level(|_| 95, 0);

        assert!(!behind.stable);
        assert!(behind.backlog_slope_low.is_some_and(|low| low > 45.0), "{behind:?}");
        assert!(!level(|_| 100, 1).stable);
    }
}
