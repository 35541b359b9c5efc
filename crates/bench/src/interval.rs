//! One interval of a run, and what many of them say about the rate.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::statistics::{coefficient_of_variation, median, median_interval};

/// Operations that make a rate: fewer in an interval, and it is put together with its neighbours.
const OPS_MIN: u64 = 100;
/// Intervals that are left at least when they are put together: fewer have no interval of their median.
const LEFT_MIN: u64 = 6;

/// What happened between two readings of the meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// How long it was.
    pub duration: Duration,
    /// Finished operations.
    pub ops: u64,
    /// CPU time of the whole process.
    pub cpu: Duration,
    /// The 99th percentile of the latencies timed in it, in nanoseconds; 0 when none were.
    pub latency_p99_ns: u64,
    /// The longest of them; 0 when there were none.
    pub latency_max_ns: u64,
}

impl Interval {
    /// Operations a second.
    pub fn ops_per_sec(&self) -> f64 {
        self.ops as f64 / self.duration.as_secs_f64()
    }
}

/// Operations a second over the intervals of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Half of the intervals were slower.
    pub median: f64,
    /// The slowest interval.
    pub min: f64,
    /// The fastest interval.
    pub max: f64,
    /// The lower end of the 95 % interval of the median; `null` below six intervals.
    pub median_low: Option<f64>,
    /// The upper end of the 95 % interval of the median.
    pub median_high: Option<f64>,
    /// The standard deviation as a part of the mean; `null` where there is none.
    pub variation: Option<f64>,
    /// How many intervals there are: of 100 ms, or longer where fewer than a hundred operations fall into those.
    pub intervals: usize,
}

impl Rates {
    /// The rates of some intervals; all zero of none.
    ///
    /// Where few operations fall into an interval, neighbours are put together until some hundred do, while six are left: of 64
    /// answers once a second the median of single intervals would be 0.
    ///
    /// Neighbouring intervals are alike, so the interval of the median tells how well *this* run is known, and not how
    /// far apart two runs may lie.
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

/// How many neighbours are looked at together.
fn together(intervals: &[Interval]) -> usize {
    let ops: u64 = intervals.iter().map(|interval| interval.ops).sum();
    let wanted = (OPS_MIN * intervals.len() as u64).div_ceil(ops.max(1));
    wanted.clamp(1, (intervals.len() as u64 / LEFT_MIN).max(1)) as usize
}

/// Operations a second over some intervals.
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
