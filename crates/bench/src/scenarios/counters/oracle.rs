//! Compares the measured number of operations per stored row with the number predicted by the theory of random walks.
//!
//! A walk of steps ±1, a fraction c of them negative, leaves (−h, h) after h² steps on average if c is one half, and
//! after `h/(1−2c) · (1−rʰ)/(1+rʰ)` with r = c/(1−c) otherwise. If the walk is checked only every n steps, it is found
//! farther out: by 0.583·√n in the first case (Siegmund's correction for a boundary crossed between two checks), and by
//! half of n·|1−2c| in the second.

use std::fmt;

use crate::scenarios::counters::flags::Flags;
use crate::scenarios::counters::load::RoundOutcome;

/// Largest accepted relative difference between measured and expected.
const TOLERANCE: f64 = 0.20;
/// Minimum number of rows: with fewer, chance alone exceeds the tolerance.
const ROWS_MIN: u64 = 60;
/// Overshoot of a boundary crossed between two checks, in standard deviations of the change between them.
const OVERSHOOT: f64 = 0.5826;

/// Sums over the measured rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Oracle {
    ops: u64,
    rows: u64,
    walks: u64,
    looks: u64,
}

/// Result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OracleVerdict {
    /// Measured and expected differ by at most 20 %.
    Holds,
    /// They differ by more.
    Differs,
    /// The theory does not apply, for the given reason.
    DoesNotApply(&'static str),
}

impl fmt::Display for OracleVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.write_str("within 20 %"),
            Self::Differs => f.write_str("NOT within 20 %"),
            Self::DoesNotApply(why) => write!(f, "n/a: {why}"),
        }
    }
}

/// Expected and measured number of operations per row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OracleResult {
    pub(crate) expected: f64,
    pub(crate) measured: f64,
    pub(crate) rows: u64,
    pub(crate) verdict: OracleVerdict,
}

impl Oracle {
    pub(crate) fn add(&mut self, flags: &Flags, outcome: &RoundOutcome) {
        self.ops += outcome.ops;
        // Rows written by the final flush are not threshold crossings, so `running` excludes them.
        self.rows += outcome.running.rows;
        self.walks += flags.keys;
        self.looks += outcome.looks;
    }

    pub(crate) fn judge(&self, flags: &Flags) -> OracleResult {
        let keys = flags.keys as f64;
        // Operations per key between two checks: the measured number, because the interval is not kept exactly.
        let per_look = self.ops as f64 / keys / self.looks.max(1) as f64;
        let share = flags.churn as f64 / 100.0;
        let expected = expected(flags.commit.threshold as f64, share, per_look);
        // A walk cut short by the end of its round has made no row. On average this loses a sixth of a row per key,
        // which follows from mean and variance of the exit time; half a row if the walk has a trend.
        let cut = if flags.churn == 50 { 1.0 / 6.0 } else { 0.5 };
        let measured = self.ops as f64 / (self.rows as f64 + cut * self.walks as f64);
        let verdict = if !flags.commit.oldest_max.is_zero() {
            OracleVerdict::DoesNotApply("a maximum age is set")
        } else if !flags.commit.max_age.is_zero() && per_look < 20.0 {
            OracleVerdict::DoesNotApply("keys are idle long enough to be stored by age")
        } else if self.rows < ROWS_MIN {
            OracleVerdict::DoesNotApply("too few rows")
        } else if (measured / expected - 1.0).abs() <= TOLERANCE {
            OracleVerdict::Holds
        } else {
            OracleVerdict::Differs
        };
        OracleResult { expected, measured, rows: self.rows, verdict }
    }
}

/// Returns the expected number of operations until a check finds the threshold crossed.
fn expected(threshold: f64, negative: f64, per_look: f64) -> f64 {
    let drift = (1.0 - 2.0 * negative).abs();
    let steps = if drift < 1e-9 {
        (threshold + OVERSHOOT * per_look.sqrt()).powi(2)
    } else {
        let lesser = negative.min(1.0 - negative);
        let ratio = lesser / (1.0 - lesser);
        let power = ratio.powf(threshold);
        threshold / drift * (1.0 - power) / (1.0 + power) + per_look / 2.0
    };
    steps.max(per_look)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rng::XorShift;

    /// Returns the mean number of steps per crossing of a simulated walk that is checked every `look` steps.
    fn walked(threshold: i64, churn: u64, look: u64, rows: u64) -> f64 {
        let (mut random, mut steps, mut seen) = (XorShift::new(0x9e37_79b9), 0_u64, 0_u64);
        let mut at = 0_i64;
        while seen < rows {
            for _ in 0..look {
                at += if (random.next() >> 33) % 100 < churn { -1 } else { 1 };
            }
            steps += look;
            if at.abs() >= threshold {
                (at, seen) = (0, seen + 1);
            }
        }
        steps as f64 / rows as f64
    }

    #[test]
    fn theory_and_walk_agree() {
        for (threshold, churn, look) in
            [(20, 50, 1), (20, 50, 16), (20, 50, 100), (64, 10, 1), (64, 10, 30), (64, 90, 8), (30, 0, 7)]
        {
            let walked = walked(threshold, churn, look, 3_000);
            let expected = expected(threshold as f64, churn as f64 / 100.0, look as f64);

            assert!((walked / expected - 1.0).abs() < 0.1, "{threshold} {churn} {look}: {walked} for {expected}");
        }
    }

    #[test]
    fn fast_looks_find_the_square_of_the_threshold() {
        assert!((expected(192.0, 0.5, 0.0) - 36_864.0).abs() < 1e-6);
        assert!((expected(64.0, 0.0, 0.0) - 64.0).abs() < 1e-6);
        assert!((expected(64.0, 0.25, 0.0) - 128.0).abs() < 1e-6);
    }
}
