//! Trend of a series and its rate: the Mann–Kendall test and the Theil–Sen slope.
//!
//! Both compare only pairs of values, so a single outlier affects neither, and the values may have any distribution.
//! Correlated neighbouring values make a trend look more significant than it is: thin a series out before testing it.
//!
//! Cost and memory grow with the square of the length: a thousand values have half a million pairs.

use super::basic::median_of_sorted;
use super::{median, normal_cdf, normal_quantile, sorted};

/// Result of the Mann–Kendall test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trend {
    /// Number of rising pairs minus falling pairs.
    pub(crate) score: i64,
    /// Probability that a score at least as far from zero arises by chance; two-sided, corrected for ties.
    pub(crate) p: f64,
}

/// Applies the Mann–Kendall test to a series, oldest value first.
pub(crate) fn mann_kendall(values: &[f64]) -> Trend {
    let mut score = 0_i64;
    for (index, earlier) in values.iter().enumerate() {
        for later in &values[index + 1..] {
            score += later.total_cmp(earlier) as i64;
        }
    }
    let variance = score_variance(values);
    let p = if variance <= 0.0 || score == 0 {
        1.0
    } else {
        2.0 * (1.0 - normal_cdf((score.unsigned_abs() as f64 - 1.0) / variance.sqrt()))
    };
    Trend { score, p }
}

/// Returns the probability that a trend as strong as this one arises by chance.
pub(crate) fn trend_p(values: &[f64]) -> f64 {
    mann_kendall(values).p
}

/// Returns the variance of the score under the null hypothesis, a series without a trend.
fn score_variance(values: &[f64]) -> f64 {
    let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let ties: f64 = sorted(values).chunk_by(|a, b| a.total_cmp(b).is_eq()).map(|tie| spread(tie.len() as f64)).sum();
    (spread(values.len() as f64) - ties) / 18.0
}

/// A straight line through points with different x values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FittedLine {
    /// Median of the slopes of all pairs.
    pub(crate) slope: f64,
    /// Lower end of the slope's confidence interval.
    pub(crate) low: f64,
    /// Upper end of the slope's confidence interval.
    pub(crate) high: f64,
    /// Value of the line at x = 0.
    pub(crate) intercept: f64,
}

/// Returns the Theil–Sen line through points, with the interval of its slope at this confidence (Sen, 1968).
///
/// `None` for fewer than three points, or if all have the same x value.
pub(crate) fn theil_sen(points: &[(f64, f64)], confidence: f64) -> Option<FittedLine> {
    if points.len() < 3 {
        return None;
    }
    let mut slopes = Vec::with_capacity(points.len() * (points.len() - 1) / 2);
    for (index, (x, y)) in points.iter().enumerate() {
        slopes.extend(
            points[index + 1..]
                .iter()
                .filter(|(other, _)| other.total_cmp(x).is_ne())
                .map(|(ox, oy)| (oy - y) / (ox - x)),
        );
    }
    let slopes = sorted(&slopes);
    let slope = median_of_sorted(&slopes)?;
    let values: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
    let reach = normal_quantile(f64::midpoint(1.0, confidence)) * score_variance(&values).max(0.0).sqrt();
    // Round the rank down: this can only make the interval wider.
    let rank = ((slopes.len() as f64 - reach) / 2.0).floor().max(1.0) as usize;
    let rests: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    Some(FittedLine { slope, low: slopes[rank - 1], high: slopes[slopes.len() - rank], intercept: median(&rests)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbered(values: &[f64]) -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(index, value)| (index as f64, *value)).collect()
    }

    #[test]
    fn the_line_of_sen_s_own_example_is_his() {
        // Sen (1968), section 7, after Graybill: slope 4, with a 93 % confidence interval from 26/7 to 35/8.
        let x = [1.0, 2.0, 3.0, 4.0, 10.0, 12.0, 18.0];
        let y = [9.0, 15.0, 19.0, 20.0, 45.0, 55.0, 78.0];
        let points: Vec<(f64, f64)> = x.into_iter().zip(y).collect();

        let line = theil_sen(&points, 0.93).unwrap();

        assert_eq!((line.slope, line.low, line.high), (4.0, 26.0 / 7.0, 35.0 / 8.0));
    }

    #[test]
    fn the_score_of_gilbert_s_example_is_his() {
        // Gilbert (1987), section 16.4: in 10, 15, 14, 20 five pairs rise and one falls.
        let trend = mann_kendall(&[10.0, 15.0, 14.0, 20.0]);

        // The variance without ties is 4·3·13/18 = 26/3, so z = 3/2.944 = 1.019.
        assert_eq!(trend.score, 4);
        assert!((trend.p - 0.308).abs() < 0.001, "{trend:?}");
    }

    #[test]
    fn a_straight_line_is_a_trend_and_a_constant_is_none() {
        let line: Vec<f64> = (0..10).map(f64::from).collect();

        assert!(trend_p(&line) < 0.001);
        assert!((trend_p(&[7.0; 10]) - 1.0).abs() < 1e-9);
        assert!(trend_p(&[5.0, 6.0, 5.5, 6.1, 5.2, 5.9, 5.4, 6.0, 5.6, 5.8]) > 0.05);
        let line = theil_sen(&numbered(&[7.0; 10]), 0.95).unwrap();
        assert_eq!((line.slope, line.low, line.high, line.intercept), (0.0, 0.0, 0.0, 7.0));
    }

    #[test]
    fn the_flow_of_the_nile_fell_after_1898() {
        // Cobb (1978): the yearly flow at Aswan, 1871 to 1910, in 10⁸ m³, which dropped when work on the dam began.
        let flow = [
            1120.0, 1160.0, 963.0, 1210.0, 1160.0, 1160.0, 813.0, 1230.0, 1370.0, 1140.0, 995.0, 935.0, 1110.0, 994.0,
            1020.0, 960.0, 1180.0, 799.0, 958.0, 1140.0, 1100.0, 1210.0, 1150.0, 1250.0, 1260.0, 1220.0, 1030.0,
            1100.0, 774.0, 840.0, 874.0, 694.0, 940.0, 833.0, 701.0, 916.0, 692.0, 1020.0, 1050.0, 969.0,
        ];

        let (trend, line) = (mann_kendall(&flow), theil_sen(&numbered(&flow), 0.95).unwrap());

        assert!(trend.score < 0 && trend.p < 0.01, "{trend:?}");
        assert!(line.high < 0.0, "{line:?}");
    }

    #[test]
    fn too_few_points_have_no_line() {
        assert_eq!(theil_sen(&numbered(&[1.0, 2.0]), 0.95), None);
        assert_eq!(theil_sen(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)], 0.95), None);
    }

    proptest! {
        #[test]
        fn one_wild_value_does_not_move_the_line(wild in -1e9_f64..1e9, at in 0_usize..20, slope in -5.0_f64..5.0) {
            let mut values: Vec<f64> = (0..20).map(|index| 100.0 + slope * f64::from(index)).collect();
            values[at] = wild;

            let line = theil_sen(&numbered(&values), 0.95).unwrap();

            prop_assert!((line.slope - slope).abs() < 1e-6, "{line:?}");
            prop_assert!(line.low <= line.slope && line.slope <= line.high);
        }
    }
}
