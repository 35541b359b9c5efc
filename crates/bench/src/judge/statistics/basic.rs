//! Median with its confidence interval, and variation.

/// Returns the median; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

/// Returns the median of sorted values; `None` without values.
pub(super) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Returns the two order statistics that enclose the median with at least 95 % confidence; `None` for fewer than six
/// values.
///
/// The ranks come from the binomial distribution: of `n` values, the k-th smallest and the k-th largest enclose the
/// median unless fewer than k fell on one side of it. The values may have any distribution.
pub(crate) fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    let rank = interval_rank(sorted.len())?;
    Some((sorted[rank - 1], sorted[sorted.len() - rank]))
}

/// Returns the largest k for which the k-th smallest and the k-th largest of `len` values enclose the median with 95 %.
fn interval_rank(len: usize) -> Option<usize> {
    // P(Binomial(len, 1/2) <= k) from the recurrence of its terms, in logarithms because 2^-len underflows.
    let mut term_ln = -(len as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    let mut rank = 0;
    for below in 0..len {
        tail += term_ln.exp();
        if tail > 0.025 {
            break;
        }
        rank = below + 1;
        term_ln += ((len - below) as f64 / (below + 1) as f64).ln();
    }
    (rank > 0).then_some(rank)
}

/// Returns the standard deviation divided by the mean; infinite if the mean is zero.
pub(crate) fn coefficient_of_variation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 || mean == 0.0 {
        return f64::INFINITY;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt() / mean.abs()
}

/// Returns the confidence that the interval of [`median_interval`] contains the median: 1 − 2·P(fewer than k below it).
pub(crate) fn median_confidence(count: usize) -> Option<f64> {
    let rank = interval_rank(count)?;
    let mut term_ln = -(count as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for below in 0..rank {
        tail += term_ln.exp();
        term_ln += ((count - below) as f64 / (below + 1) as f64).ln();
    }
    Some(1.0 - 2.0 * tail)
}

/// Returns the `p` quantile of the normal distribution, by bisection of [`normal_cdf`].
pub(crate) fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if normal_cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Returns the distribution function of the normal distribution, to 1e-7 (Abramowitz and Stegun, 26.2.17).
pub(crate) fn normal_cdf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let poly =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x >= 0.0 { 1.0 - density * poly } else { density * poly }
}

pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_ranks_are_those_of_the_tables() {
        // Order-statistic ranks for 95 %, as in tables of the sign test.
        assert_eq!(interval_rank(5), None);
        assert_eq!(interval_rank(6), Some(1));
        assert_eq!(interval_rank(9), Some(2));
        assert_eq!(interval_rank(25), Some(8));
        assert_eq!(interval_rank(50), Some(18));
        assert_eq!(interval_rank(5000).map(|rank| rank > 2400), Some(true));
    }

    #[test]
    fn six_runs_hold_the_median_with_97_per_cent_and_eight_with_99() {
        let per_mille = |count| median_confidence(count).map(|part| (part * 10_000.0).round() / 10.0);

        assert_eq!([5, 6, 8].map(per_mille), [None, Some(968.8), Some(992.2)]);
    }

    #[test]
    fn the_normal_distribution_is_where_the_tables_have_it() {
        assert!((normal_cdf(1.959_964) - 0.975).abs() < 1e-6);
        assert!((normal_cdf(-1.0) - 0.158_655_3).abs() < 1e-6);
        assert!((normal_quantile(0.975) - 1.959_964).abs() < 1e-5);
    }

    #[test]
    fn variation_is_relative_to_the_mean() {
        let low = coefficient_of_variation(&[9.0, 10.0, 11.0]);
        let high = coefficient_of_variation(&[900.0, 1000.0, 1100.0]);

        assert!((low - 0.1).abs() < 1e-12 && (high - low).abs() < 1e-12);
        assert!(coefficient_of_variation(&[0.0, 0.0]).is_infinite());
    }

    proptest! {
        #[test]
        fn the_interval_encloses_the_median(values in prop::collection::vec(0.0_f64..1e9, 6..300)) {
            let (low, high) = median_interval(&values).unwrap();
            let median = median(&values).unwrap();

            prop_assert!(low <= median && median <= high);
        }
    }
}
