//! Detects trouble that a rate and a median hide: pauses, and latencies with a sawtooth pattern.
//!
//! Both are typical of garbage collection, log flushes and cache write-back. The report of a run shows them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::interval::Interval;

/// Minimum latency that counts as a pause.
const PAUSE: Duration = Duration::from_millis(100);
/// Minimum number of intervals over which a tooth rises.
const TOOTH_LEN: usize = 5;
/// Minimum factor by which a tooth rises, and maximum part of its peak that may remain after the drop.
const TOOTH_RISE: f64 = 1.5;
const TOOTH_FALL: f64 = 0.7;
/// Fewer teeth than this can be chance.
pub(crate) const TEETH_MIN: u64 = 3;

/// Signs of trouble in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Anomalies {
    /// Number of times that no operation finished, or one took longer, for 100 ms or more.
    pub pauses: u64,
    /// Longest pause, in milliseconds.
    pub longest_pause_ms: u64,
    /// Number of times that the latency rose by half over five intervals or more and then dropped at once.
    pub teeth: u64,
}

impl Anomalies {
    /// Examines the intervals since the warm-up, oldest first.
    pub(crate) fn of(intervals: &[Interval]) -> Self {
        let (mut pauses, mut longest) = (0, Duration::ZERO);
        let silent = |interval: &Interval| interval.ops == 0 && interval.duration >= PAUSE.mul_f64(0.5);
        // At a low rate, an interval without operations is not a pause.
        let mean = intervals.iter().map(|interval| interval.ops).sum::<u64>() as f64 / intervals.len().max(1) as f64;
        let late = |interval: &Interval| Duration::from_nanos(interval.latency_max_ns) >= PAUSE;
        let halts = |interval: &Interval| (silent(interval) && mean >= 10.0) || late(interval);
        // Operations started during a silence end late after it: both belong to one pause.
        for pause in intervals.chunk_by(|a, b| halts(a) == halts(b)).filter(|pause| halts(&pause[0])) {
            let silence = pause.iter().filter(|interval| silent(interval)).map(|interval| interval.duration).sum();
            let latest = pause.iter().map(|interval| Duration::from_nanos(interval.latency_max_ns)).max();
            let length = latest.unwrap_or_default().max(silence);
            // A silence of one short interval may have been no pause.
            if length >= PAUSE {
                pauses += 1;
                longest = longest.max(length);
            }
        }
        Self { pauses, longest_pause_ms: longest.as_millis() as u64, teeth: teeth(intervals) }
    }

    /// Returns a line for each kind of anomaly.
    pub(crate) fn lines(self) -> Vec<String> {
        let pauses = (self.pauses > 0)
            .then(|| format!("pauses of 100 ms or more: {}, the longest {} ms", self.pauses, self.longest_pause_ms));
        let teeth = (self.teeth >= TEETH_MIN)
            .then(|| format!("sawtooth: p99 climbed and dropped {} times, as with a collector's pauses", self.teeth));
        pauses.into_iter().chain(teeth).collect()
    }
}

fn teeth(intervals: &[Interval]) -> u64 {
    let latencies: Vec<f64> =
        intervals.iter().map(|interval| interval.latency_p99_ns as f64).filter(|ns| *ns > 0.0).collect();
    let (mut teeth, mut start) = (0, 0);
    for now in 1..latencies.len() {
        if latencies[now] >= latencies[now - 1] {
            continue;
        }
        let (foot, tip) = (latencies[start], latencies[now - 1]);
        if now - start >= TOOTH_LEN && tip >= TOOTH_RISE * foot && latencies[now] <= TOOTH_FALL * tip {
            teeth += 1;
        }
        start = now;
    }
    teeth
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(ops: &[u64], p99_us: &[u64]) -> Vec<Interval> {
        let interval = |(ops, us): (&u64, &u64)| Interval {
            duration: Duration::from_millis(100),
            ops: *ops,
            latency_p99_ns: us * 1_000,
            latency_max_ns: us * 1_000,
            ..Interval::default()
        };
        ops.iter().zip(p99_us).map(interval).collect()
    }

    #[test]
    fn silence_between_operations_is_a_pause() {
        let anomalies = Anomalies::of(&intervals(&[100, 0, 0, 0, 100, 100, 0, 100], &[10; 8]));

        assert_eq!(anomalies, Anomalies { pauses: 2, longest_pause_ms: 300, teeth: 0 });
        assert_eq!(anomalies.lines(), ["pauses of 100 ms or more: 2, the longest 300 ms"]);
    }

    #[test]
    fn a_silence_of_one_short_interval_is_no_pause() {
        let mut seen = intervals(&[100, 0, 100], &[10, 0, 10]);
        seen[1].duration = Duration::from_millis(60);

        assert_eq!(Anomalies::of(&seen), Anomalies::default());
    }

    #[test]
    fn a_silence_and_the_late_answers_after_it_are_one_pause() {
        let anomalies = Anomalies::of(&intervals(&[100, 0, 0, 300, 100], &[10, 0, 0, 280_000, 10]));

        assert_eq!((anomalies.pauses, anomalies.longest_pause_ms), (1, 280));
    }

    #[test]
    fn one_late_answer_among_many_is_a_pause() {
        let mut seen = intervals(&[10_000; 5], &[10; 5]);
        seen[2].latency_max_ns = 150_000_000;

        assert_eq!((Anomalies::of(&seen).pauses, Anomalies::of(&seen).longest_pause_ms), (1, 150));
    }

    #[test]
    fn a_low_rate_pauses_only_if_an_operation_is_late() {
        assert_eq!(Anomalies::of(&intervals(&[1, 0, 0, 1, 0, 1], &[10, 0, 0, 10, 0, 10])), Anomalies::default());
        let late = Anomalies::of(&intervals(&[1, 0, 0, 1, 0, 1], &[10, 0, 0, 250_000, 0, 10]));
        assert_eq!((late.pauses, late.longest_pause_ms), (1, 250));
    }

    #[test]
    fn a_saw_has_teeth_and_noise_has_none() {
        let saw = [10, 12, 13, 15, 17, 18, 5, 8, 10, 11, 13, 14, 5, 7, 8, 9, 10, 12, 4];
        let noise = [10, 11, 9, 12, 10, 11, 12, 13, 12, 11, 10, 11, 9];

        assert_eq!(Anomalies::of(&intervals(&[50; 19], &saw)).teeth, 3);
        assert_eq!(Anomalies::of(&intervals(&[50; 13], &noise)).teeth, 0);
    }
}
