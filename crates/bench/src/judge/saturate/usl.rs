//! The Universal Scalability Law: the rate of N workers with contention (σ) and crosstalk (κ).
//!
//! ```text
//!   X(N) = λN / (1 + σ(N−1) + κN(N−1))      N* = √((1−σ)/κ)
//! ```
//!
//! Divided by N and inverted, it is linear: a fit by weighted least squares has one solution and needs no initial
//! guess.

use serde::Serialize;

/// Minimum number of points for a fit.
const POINTS_MIN: usize = 6;

/// A fit of the law.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Usl {
    /// Rate of a single worker, in operations per second.
    pub lambda: f64,
    /// Contention: the serial part of the work.
    pub sigma: f64,
    /// Crosstalk: the cost of each pair of workers.
    pub kappa: f64,
    /// Number of workers beyond which the rate falls; `null` if it never does.
    pub peak_workers: Option<f64>,
    /// Points: workers, measured and fitted operations per second, and the residual as a part of the measured value.
    pub points: Vec<UslPoint>,
    /// Largest residual, as a part of the measured value. Above 0.1, the law does not describe the system.
    pub residual_max: f64,
}

/// One point of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UslPoint {
    /// Number of workers.
    pub workers: f64,
    /// Measured operations per second.
    pub measured_per_sec: f64,
    /// Operations per second by the law.
    pub fitted_per_sec: f64,
    /// Difference as a part of the measured value.
    pub residual: f64,
}

/// Fits the law to pairs of workers and operations per second; `None` for fewer than six pairs, or without a solution.
pub fn fit_usl(points: &[(f64, f64)]) -> Option<Usl> {
    if points.len() < POINTS_MIN || points.iter().any(|(n, x)| *n < 1.0 || *x <= 0.0) {
        return None;
    }
    // A negative coefficient is noise: fit the law without that term.
    let tries: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];
    let fitted = tries.iter().find_map(|terms| {
        let found = least_squares(points, terms)?;
        (found[0] > 0.0 && found[1] >= 0.0 && found[2] >= 0.0).then_some(found)
    })?;
    let [base, waits, talks] = fitted;
    let (lambda, sigma, kappa) = (1.0 / base, waits / base, talks / base);
    let point = |(workers, measured_per_sec): &(f64, f64)| {
        let (n, measured_per_sec) = (*workers, *measured_per_sec);
        let fitted_per_sec = lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
        let residual = (measured_per_sec - fitted_per_sec) / measured_per_sec;
        UslPoint { workers: n, measured_per_sec, fitted_per_sec, residual }
    };
    let points: Vec<UslPoint> = points.iter().map(point).collect();
    Some(Usl {
        lambda,
        sigma,
        kappa,
        peak_workers: peak(sigma, kappa),
        residual_max: points.iter().map(|point| point.residual.abs()).fold(0.0, f64::max),
        points,
    })
}

/// Returns the number of workers with the highest rate, at least 1; `None` if the rate never falls.
fn peak(sigma: f64, kappa: f64) -> Option<f64> {
    let falls = kappa > 0.0 || sigma > 1.0;
    falls.then(|| if sigma < 1.0 { ((1.0 - sigma) / kappa).sqrt().max(1.0) } else { 1.0 })
}

/// Returns the coefficients of `N/X = a + b(N−1) + cN(N−1)` with the least relative error, using only some of the
/// terms.
fn least_squares(points: &[(f64, f64)], terms: &[usize]) -> Option<[f64; 3]> {
    let size = terms.len();
    let mut rows = vec![vec![0.0; size + 1]; size];
    for (n, x) in points {
        let y = n / x;
        let all = [1.0, n - 1.0, n * (n - 1.0)];
        let weight = 1.0 / (y * y);
        for (row, term) in rows.iter_mut().zip(terms) {
            for (column, other) in terms.iter().enumerate() {
                row[column] += weight * all[*term] * all[*other];
            }
            row[size] += weight * all[*term] * y;
        }
    }
    let solved = solve(rows)?;
    let mut coefficients = [0.0; 3];
    for (term, value) in terms.iter().zip(solved) {
        coefficients[*term] = value;
    }
    Some(coefficients)
}

/// Solves linear equations by Gaussian elimination with partial pivoting; each row ends with its right-hand side.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = rows.len();
    for column in 0..size {
        let pivot = (column..size).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column] == 0.0 {
            return None;
        }
        let first = rows[column].clone();
        for row in rows.iter_mut().skip(column + 1) {
            let factor = row[column] / first[column];
            row.iter_mut().zip(&first).for_each(|(cell, of_first)| *cell -= factor * of_first);
        }
    }
    let mut found = vec![0.0; size];
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| rows[row][column] * found[column]).sum();
        found[row] = (rows[row][size] - known) / rows[row][row];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn law(lambda: f64, sigma: f64, kappa: f64) -> Vec<(f64, f64)> {
        let x = |n: f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0].map(|n| (n, x(n))).to_vec()
    }

    #[test]
    fn the_peak_is_where_the_law_has_it() {
        // Gunther's formula: σ = 0.02, κ = 0.0005, so N* = √(0.98 / 0.0005) = 44.3.
        let fitted = fit_usl(&law(1_000.0, 0.02, 0.0005)).unwrap();

        assert!((fitted.peak_workers.unwrap() - 44.27).abs() < 0.01, "{fitted:?}");
        assert!(fitted.residual_max < 1e-9);
    }

    #[test]
    fn a_rate_that_falls_from_the_first_worker_on_has_its_peak_there() {
        assert_eq!([peak(1.2, 0.01), peak(1.2, 0.0), peak(0.9, 0.4)], [Some(1.0); 3]);
        assert_eq!([peak(0.5, 0.0), peak(1.0, 0.0)], [None; 2]);
    }

    #[test]
    fn what_gets_faster_than_linear_has_no_negative_coefficients() {
        let fitted = fit_usl(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|n: f64| (n, n.powf(1.1)))).unwrap();

        assert!(fitted.sigma >= 0.0 && fitted.kappa >= 0.0 && fitted.residual_max > 0.05, "{fitted:?}");
    }

    #[test]
    fn five_points_are_too_few() {
        assert_eq!(fit_usl(&law(1.0, 0.1, 0.0)[..5]), None);
    }

    proptest! {
        #[test]
        fn a_law_is_found_from_its_points(lambda in 1.0_f64..1e7, sigma in 0.001_f64..0.9, kappa in 1e-6_f64..0.01) {
            let fitted = fit_usl(&law(lambda, sigma, kappa)).unwrap();

            prop_assert!((fitted.lambda / lambda - 1.0).abs() < 1e-6, "{fitted:?}");
            prop_assert!((fitted.sigma - sigma).abs() < 1e-6 && (fitted.kappa - kappa).abs() < 1e-6, "{fitted:?}");
        }
    }
}
