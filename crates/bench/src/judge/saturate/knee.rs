//! Knee of a curve of latency over load, by two rules of thumb. They are hints and not measurements, unlike the stable
//! rate.

use serde::Serialize;

use super::Level;

/// Minimum distance from the diagonal for a knee.
const CLEAR: f64 = 0.1;

/// Knee of the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Knees {
    /// By Kneedle (Satopää and others, 2011): the rate farthest below the straight line from the first level to the
    /// last. `None` if p99 is higher at the first level than at the last.
    pub kneedle_rate: Option<f64>,
    /// By the rule of older reports: the first rate at which p99 grew by more than twice its previous growth.
    pub legacy_knee_rate: Option<f64>,
}

/// Finds the knee of a curve; the levels must be in order.
pub fn knees(levels: &[Level]) -> Knees {
    let points: Vec<(f64, f64)> = levels
        .iter()
        .filter(|level| level.latency.count > 0)
        .map(|level| (level.offered_per_sec, level.latency.p99_ns as f64))
        .collect();
    Knees { kneedle_rate: kneedle(&points), legacy_knee_rate: legacy(&points) }
}

fn kneedle(points: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 4 || last.0 <= first.0 || last.1 <= first.1 {
        return None;
    }
    // Both axes from 0 to 1: a curve with increasing slope is below the diagonal, and farthest from it at the knee.
    let below = |(x, y): &(f64, f64)| (x - first.0) / (last.0 - first.0) - (y - first.1) / (last.1 - first.1);
    let knee = points.iter().max_by(|a, b| below(a).total_cmp(&below(b)))?;
    (below(knee) > CLEAR).then_some(knee.0)
}

fn legacy(points: &[(f64, f64)]) -> Option<f64> {
    let growth: Vec<f64> = points.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    let bend = growth.windows(2).position(|pair| pair[0] > 0.0 && pair[1] > 2.0 * pair[0])?;
    Some(points[bend + 2].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_that_turns_up_has_its_knee_there() {
        let points = [(1.0, 10.0), (2.0, 11.0), (3.0, 12.0), (4.0, 13.0), (5.0, 60.0), (6.0, 200.0)];

        assert_eq!((kneedle(&points), legacy(&points)), (Some(4.0), Some(5.0)));
    }

    #[test]
    fn a_straight_line_has_none() {
        let points = [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0), (4.0, 40.0), (5.0, 50.0)];

        assert_eq!((kneedle(&points), legacy(&points)), (None, None));
    }

    #[test]
    fn a_curve_that_does_not_rise_from_its_first_level_to_its_last_has_none() {
        for points in [
            [(1.0, 10.0), (2.0, 10.0), (3.0, 100.0), (4.0, 10.0)],
            [(1.0, 100.0), (2.0, 10.0), (3.0, 20.0), (4.0, 30.0)],
        ] {
            assert_eq!(kneedle(&points), None);
        }
    }
}
