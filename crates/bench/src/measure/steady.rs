//! Detects the end of the warm-up.
//!
//! ```text
//!   rates of 100 ms each ──▶ `min` has passed, and the last ten have no trend (Mann–Kendall p > 0.05)
//!                             and a coefficient of variation below 3 % ──▶ steady
//!                        ──▶ `max` has passed ──▶ gave up: measured anyway, and the report says so
//! ```
//!
//! The sampler asks for a judgement after each interval.

use std::time::Duration;

use crate::defaults;
use crate::judge::statistics::{coefficient_of_variation, trend_p};

/// Number of most recent intervals that must agree.
const WINDOW: usize = 10;
/// Coefficient of variation below which a rate counts as steady.
const VARIATION_MAX: f64 = 0.03;
/// p-value of the trend test above which the rate counts as one without a trend.
const TREND_P_MIN: f64 = 0.05;

/// Minimum and maximum length of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteadyRule {
    /// Shortest warm-up. It ends with an interval, so it may last up to one interval longer. Default 1 s.
    pub min: Duration,
    /// Longest warm-up; then the run is measured even if the rate is not steady. Default 5 s.
    pub max: Duration,
}

impl Default for SteadyRule {
    fn default() -> Self {
        Self { min: defaults::WARM_UP_MIN, max: defaults::WARM_UP_MAX }
    }
}

/// State of the warm-up, judged by the rates of its intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WarmUpState {
    Warming,
    Steady,
    /// Not steady at the end of the longest warm-up.
    GaveUp,
}

impl SteadyRule {
    /// Judges the rates of the intervals since the start, oldest first, after `elapsed`.
    pub(crate) fn judge(self, elapsed: Duration, rates: &[f64]) -> WarmUpState {
        if elapsed < self.min {
            WarmUpState::Warming
        } else if is_steady(rates) {
            WarmUpState::Steady
        } else if elapsed >= self.max {
            WarmUpState::GaveUp
        } else {
            WarmUpState::Warming
        }
    }
}

fn is_steady(rates: &[f64]) -> bool {
    let Some(window) = rates.len().checked_sub(WINDOW).map(|start| &rates[start..]) else {
        return false;
    };
    coefficient_of_variation(window) < VARIATION_MAX && trend_p(window) > TREND_P_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: SteadyRule = SteadyRule { min: Duration::from_secs(1), max: Duration::from_secs(3) };
    const FLAT: [f64; 12] = [100.0, 101.0, 99.0, 100.5, 100.0, 99.5, 100.2, 99.8, 100.1, 99.9, 100.0, 100.3];

    #[test]
    fn a_flat_rate_is_steady_once_the_shortest_warm_up_is_over() {
        assert_eq!(RULE.judge(Duration::from_millis(900), &FLAT), WarmUpState::Warming);
        assert_eq!(RULE.judge(Duration::from_millis(1200), &FLAT), WarmUpState::Steady);
    }

    #[test]
    fn a_rising_rate_warms_up_until_time_is_out() {
        let rising: Vec<f64> = (0..12).map(|step| 100.0 + 0.5 * f64::from(step)).collect();

        assert_eq!(RULE.judge(Duration::from_millis(1200), &rising), WarmUpState::Warming);
        assert_eq!(RULE.judge(Duration::from_secs(3), &rising), WarmUpState::GaveUp);
    }

    #[test]
    fn a_run_that_does_nothing_is_never_steady() {
        assert_eq!(RULE.judge(Duration::from_secs(3), &[0.0; 30]), WarmUpState::GaveUp);
    }

    #[test]
    fn too_few_intervals_decide_nothing() {
        assert_eq!(RULE.judge(Duration::from_secs(1), &FLAT[..9]), WarmUpState::Warming);
    }
}
