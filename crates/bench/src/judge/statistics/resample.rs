//! Ratio of one set of runs to another, with a confidence interval by bootstrapping.
//!
//! ```text
//!   before: x x x x x x ─┐ sampled with replacement, thousands of times ─▶ median / median ─▶ the middle 95 % of all
//!   after:  y y y y y y ─┘
//! ```
//!
//! Runs of an interleaved comparison come in pairs; then whole pairs are sampled. The seed is fixed, so that a
//! comparison of the same two reports always gives the same result.

use super::{median, sorted};
use crate::measure::rng::{GOLDEN, XorShiftStar};

/// Number of resamples.
const DRAWS: usize = 10_000;
/// Minimum number of runs for a result.
pub(crate) const RUNS_MIN: usize = 4;

/// Ratio of one quantity to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    /// Median ratio.
    pub(crate) median: f64,
    /// Lower end of its 95 % confidence interval.
    pub(crate) low: f64,
    /// Upper end of its 95 % confidence interval.
    pub(crate) high: f64,
}

/// Returns the median of `after` divided by the median of `before`, for runs that were not measured in pairs.
///
/// `None` for fewer than four values, or if one is not above zero.
pub(crate) fn ratio_of(before: &[f64], after: &[f64]) -> Option<Ratio> {
    if before.len() < RUNS_MIN || after.len() < RUNS_MIN || !positive(before) || !positive(after) {
        return None;
    }
    let mut resampler = Resampler::new();
    let drawn: Vec<f64> =
        (0..DRAWS).filter_map(|_| Some(median(&resampler.draw(after))? / median(&resampler.draw(before))?)).collect();
    middle(median(after)? / median(before)?, &drawn)
}

/// Returns the median of ratios, each of which was measured in one pair.
///
/// `None` for fewer than four ratios, or if one is not above zero.
pub(crate) fn ratio_of_pairs(ratios: &[f64]) -> Option<Ratio> {
    if ratios.len() < RUNS_MIN || !positive(ratios) {
        return None;
    }
    let mut resampler = Resampler::new();
    let drawn: Vec<f64> = (0..DRAWS).filter_map(|_| median(&resampler.draw(ratios))).collect();
    middle(median(ratios)?, &drawn)
}

fn positive(values: &[f64]) -> bool {
    values.iter().all(|value| *value > 0.0 && value.is_finite())
}

fn middle(median: f64, drawn: &[f64]) -> Option<Ratio> {
    let drawn = sorted(drawn);
    let at = |share: f64| drawn.get((share * (drawn.len() - 1) as f64).round() as usize).copied();
    Some(Ratio { median, low: at(0.025)?, high: at(0.975)? })
}

/// Samples with replacement.
struct Resampler(XorShiftStar);

impl Resampler {
    const fn new() -> Self {
        Self(XorShiftStar::new(GOLDEN))
    }

    fn draw(&mut self, values: &[f64]) -> Vec<f64> {
        (0..values.len()).map(|_| values[self.below(values.len())]).collect()
    }

    fn below(&mut self, end: usize) -> usize {
        let random = self.0.next() >> 32;
        ((random * end as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_twice_as_fast_has_a_ratio_of_two() {
        let before = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0];

        let ratio = ratio_of(&before, &before.map(|value| 2.0 * value)).unwrap();

        assert!((ratio.median - 2.0).abs() < 1e-9, "{ratio:?}");
        assert!(ratio.low > 1.9 && ratio.low <= 2.0 && ratio.high >= 2.0 && ratio.high < 2.1, "{ratio:?}");
    }

    #[test]
    fn few_values_and_zeros_have_no_ratio() {
        assert_eq!(ratio_of(&[1.0; 3], &[1.0; 6]), None);
        assert_eq!(ratio_of(&[0.0; 6], &[1.0; 6]), None);
        assert_eq!(ratio_of_pairs(&[1.0, f64::NAN, 1.0, 1.0]), None);
    }

    #[test]
    fn the_same_values_are_always_judged_alike() {
        let pairs = [0.9, 1.1, 1.0, 1.05, 0.97];

        assert_eq!(ratio_of_pairs(&pairs), ratio_of_pairs(&pairs));
    }

    proptest! {
        #[test]
        fn the_interval_encloses_the_median_ratio(pairs in prop::collection::vec(0.1_f64..10.0, 4..12)) {
            let ratio = ratio_of_pairs(&pairs).unwrap();

            prop_assert!(ratio.low <= ratio.median && ratio.median <= ratio.high, "{ratio:?}");
        }
    }
}
