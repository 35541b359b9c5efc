//! One interval of a run, and the statistics of the rate over many intervals.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::judge::statistics::{coefficient_of_variation, median, median_interval};

/// Minimum number of operations per interval for a usable rate; with fewer, neighbouring intervals are merged.
const OPS_MIN: u64 = 100;
/// Minimum number of intervals after merging: with fewer, the median has no confidence interval.
const LEFT_MIN: u64 = 6;

/// Measurements between two readings of the meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Length of the interval.
    pub duration: Duration,
    /// Number of finished operations.
    pub ops: u64,
    /// CPU time of the whole process.
    pub cpu: Duration,
    /// 99th percentile of the latencies timed in the interval, in nanoseconds; 0 if none were timed.
    pub latency_p99_ns: u64,
    /// Maximum of those latencies, in nanoseconds; 0 if none were timed.
    pub latency_max_ns: u64,
}

impl Interval {
    /// Returns the operations per second.
    pub fn ops_per_sec(&self) -> f64 {
        self.ops as f64 / self.duration.as_secs_f64()
    }
}

/// Operations per second over the intervals of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Median over the intervals.
    pub median: f64,
    /// Rate of the slowest interval.
    pub min: f64,
    /// Rate of the fastest interval.
    pub max: f64,
    /// Lower end of the 95 % interval of the median; `null` with fewer than six intervals.
    pub median_low: Option<f64>,
    /// Upper end of the 95 % interval of the median.
    pub median_high: Option<f64>,
    /// Standard deviation as a fraction of the mean; `null` if it is not defined.
    pub variation: Option<f64>,
    /// Number of intervals: of 100 ms each, or longer if fewer than a hundred operations fall into 100 ms.
    pub intervals: usize,
}

impl Rates {
    /// Computes the rates of several intervals; all are zero without intervals.
    ///
    /// If few operations fall into an interval, neighbours are merged until each has about a hundred, as long as six
    /// intervals are left. Otherwise, with 64 answers arriving together once a second, the median would be 0.
    ///
    /// Neighbouring intervals are correlated, so the interval of the median describes the precision of *this* run, and
    /// not the difference to expect between two runs.
    pub fn of(intervals: &[Interval]) -> Self {
        let rates: Vec<f64> = intervals.chunks_exact(together(intervals)).map(rate).collect();
        let Some(median) = median(&rates) else {
            return Self::default();
        };
        let enclosing = median_interval(&rates);
        let variation = coefficient_of_variation(&rates);
        Self {
            median,
            min: rates.iter().copied().fold(f64::INFINITY, f64::min),
            max: rates.iter().copied().fold(0.0, f64::max),
            median_low: enclosing.map(|(low, _)| low),
            median_high: enclosing.map(|(_, high)| high),
            variation: variation.is_finite().then_some(variation),
            intervals: rates.len(),
        }
    }
}

/// Returns the number of neighbouring intervals to merge into one.
fn together(intervals: &[Interval]) -> usize {
    let ops: u64 = intervals.iter().map(|interval| interval.ops).sum();
    let wanted = (OPS_MIN * intervals.len() as u64).div_ceil(ops.max(1));
    wanted.clamp(1, (intervals.len() as u64 / LEFT_MIN).max(1)) as usize
}

/// Returns the operations per second over several intervals.
fn rate(intervals: &[Interval]) -> f64 {
    let ops = intervals.iter().map(|interval| interval.ops).sum();
    Interval { ops, duration: intervals.iter().map(|interval| interval.duration).sum(), ..Interval::default() }
        .ops_per_sec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(ops: u64) -> Interval {
        Interval { duration: Duration::from_millis(100), ops, ..Interval::default() }
    }

    #[test]
    fn rates_are_per_second_whatever_the_interval() {
        let rates = Rates::of(&[interval(10), interval(30), interval(20)]);

        assert_eq!((rates.min, rates.median, rates.max), (100.0, 200.0, 300.0));
        assert_eq!((rates.median_low, rates.intervals), (None, 3));
    }

    #[test]
    fn few_operations_in_bursts_have_the_rate_that_they_have_together() {
        let bursts: Vec<Interval> = (0..60).map(|n| interval(if n % 10 == 9 { 64 } else { 0 })).collect();

        let rates = Rates::of(&bursts);

        assert_eq!((rates.min, rates.median, rates.max, rates.intervals), (64.0, 64.0, 64.0, 6));
        assert_eq!((rates.median_low, rates.median_high), (Some(64.0), Some(64.0)));
    }

    #[test]
    fn a_hundred_operations_in_each_interval_leave_them_as_they_are() {
        let fast: Vec<Interval> = (0..60).map(|n| interval(if n % 2 == 0 { 90 } else { 110 })).collect();

        let rates = Rates::of(&fast);

        assert_eq!((rates.min, rates.median, rates.max, rates.intervals), (900.0, 1_000.0, 1_100.0, 60));
    }

    #[test]
    fn no_intervals_have_no_rate() {
        assert_eq!(Rates::of(&[]), Rates::default());
    }
}
