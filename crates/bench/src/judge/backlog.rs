//! Backlog of an open loop: the operations that were offered and not done yet.
//!
//! [`grows`] decides the verdict of a single run. A level of the search for saturation uses the slope of [`backlog`].

use crate::judge::statistics::theil_sen;
use crate::measure::interval::Interval;

/// Confidence of the slope's interval.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// Maximum number of points for the slope of a run.
pub(crate) const POINTS_MAX: usize = 256;

/// Returns points of elapsed seconds and operations not done, one for the end of each interval. A long run yields at
/// most [`POINTS_MAX`] of them, evenly spaced: a slope compares every pair.
pub(crate) fn backlog(offered: f64, intervals: &[Interval]) -> Vec<(f64, f64)> {
    let (mut at, mut done) = (0.0, 0.0);
    let after = |interval: &Interval| {
        at += interval.duration.as_secs_f64();
        done += interval.ops as f64;
        (at, offered * at - done)
    };
    let step = intervals.len().div_ceil(POINTS_MAX).max(1);
    intervals.iter().map(after).step_by(step).collect()
}

/// Returns true if the backlog grew in both halves of a run, and so not by a single stall. Returns false for fewer than
/// six intervals.
pub(crate) fn grows(offered: f64, intervals: &[Interval]) -> bool {
    let points = backlog(offered, intervals);
    let (first, second) = points.split_at(points.len() / 2);
    [first, second].iter().all(|half| theil_sen(half, CONFIDENCE).is_some_and(|line| line.low > 0.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_backlog_grows_when_it_does_so_all_the_time_and_not_by_one_stall() {
        let intervals = |ops: fn(u64) -> u64, count| {
            let interval = |n| Interval { duration: Duration::from_millis(100), ops: ops(n), ..Interval::default() };
            (0..count).map(interval).collect::<Vec<_>>()
        };

        assert!(grows(1_000.0, &intervals(|_| 95, 60)) && grows(1_000.0, &intervals(|_| 95, 6_000)));
        // Seven a second, and none in the last of five seconds.
        assert!(!grows(7.0, &intervals(|n| u64::from(n < 40 && n % 10 < 7), 50)));
        assert!(!grows(1_000.0, &intervals(|_| 100, 60)) && !grows(1_000.0, &intervals(|_| 0, 2)));
    }
}
