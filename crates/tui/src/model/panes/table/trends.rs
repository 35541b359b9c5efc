//! Trends of the processes on the page: the share of CPU over the last seconds, one point a second.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Number of points of a trend.
pub(crate) const POINTS: usize = 14;
/// Time of one point.
const STEP: Duration = Duration::from_secs(1);
/// Share of CPU, in per cent, below which a point is empty: the column says 0.0.
const IDLE: f64 = 0.05;
/// Time without rows after which all trends begin anew, because a trend has a point for each second.
const GAP: Duration = Duration::from_secs(3);

/// Trends of the processes of the current page, by pid.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trends {
    of: HashMap<String, Trend>,
    /// Time of the last rows, and the end of the current step.
    at: Duration,
    step_end: Duration,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Trend {
    /// Points of the steps that are over, the oldest first.
    points: VecDeque<f64>,
    /// Sum and number of the values of the current step.
    sum: f64,
    values: u32,
}

impl Trends {
    /// Adds the values of a page, by pid; none for a process without one yet. A process that is no longer on the page
    /// loses its trend.
    pub(crate) fn take<'a>(&mut self, page: impl Iterator<Item = (&'a str, Option<f64>)>, now: Duration) {
        if now.checked_sub(self.at).is_none_or(|since| since > GAP) {
            *self = Self { step_end: now + STEP, ..Self::default() };
        }
        self.at = now;
        let is_over = now >= self.step_end;
        let mut of = HashMap::with_capacity(self.of.len());
        for (pid, pct) in page {
            let mut trend = self.of.remove(pid).unwrap_or_default();
            if is_over {
                trend.end_step();
            }
            if let Some(pct) = pct {
                trend.sum += pct;
                trend.values += 1;
            }
            of.insert(pid.to_owned(), trend);
        }
        self.of = of;
        if is_over {
            self.step_end = now + STEP;
        }
    }

    /// Returns the points of a process, the newest last; empty ones for seconds without CPU, and if there are fewer than
    /// [`POINTS`].
    pub(crate) fn points(&self, pid: &str) -> Vec<Option<f64>> {
        let points = self.of.get(pid).map(|trend| &trend.points);
        let len = points.map_or(0, VecDeque::len);
        let newest = points.into_iter().flatten().map(|point| Some(*point).filter(|point| *point >= IDLE));
        std::iter::repeat_n(None, POINTS - len).chain(newest).collect()
    }

    /// Returns the largest point of all processes: one scale for all rows, of at least 1 %.
    pub(crate) fn top(&self) -> f64 {
        self.of.values().flat_map(|trend| &trend.points).copied().fold(1.0, f64::max)
    }
}

impl Trend {
    /// Turns the values of the current step into a point. A process without any has been sampled once only.
    fn end_step(&mut self) {
        if self.values > 0 {
            if self.points.len() == POINTS {
                self.points.pop_front();
            }
            self.points.push_back(self.sum / f64::from(self.values));
        }
        (self.sum, self.values) = (0.0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page<'a>(rows: &'a [(&'a str, f64)]) -> impl Iterator<Item = (&'a str, Option<f64>)> {
        rows.iter().map(|(pid, pct)| (*pid, Some(*pct)))
    }

    fn known(trends: &Trends, pid: &str) -> Vec<f64> {
        trends.points(pid).into_iter().flatten().collect()
    }

    #[test]
    fn a_point_is_the_mean_of_a_second_and_old_points_leave() {
        let mut trends = Trends::default();
        for quarter in 0..=80_u32 {
            let pct = f64::from(quarter / 4) + if quarter % 2 == 0 { 0.5 } else { -0.5 };
            trends.take(page(&[("a", pct)]), quarter * STEP / 4 + STEP);
        }

        assert_eq!(known(&trends, "a"), (6..20).map(f64::from).collect::<Vec<_>>());
        assert_eq!((trends.points("a").len(), trends.points("b"), trends.top()), (POINTS, vec![None; POINTS], 19.0));
    }

    #[test]
    fn a_trend_ends_with_its_row_and_all_end_with_a_gap() {
        let mut trends = Trends::default();
        for second in 1..=3 {
            trends.take(page(&[("a", 5.0), ("b", 7.0)]), second * STEP);
        }
        assert_eq!((known(&trends, "a"), known(&trends, "b")), (vec![5.0; 2], vec![7.0; 2]));

        trends.take(page(&[("b", 7.0)]), 4 * STEP);
        trends.take(page(&[("a", 5.0), ("b", 7.0)]), 5 * STEP);
        assert_eq!((known(&trends, "a").len(), known(&trends, "b").len()), (0, 4));

        trends.take(page(&[("b", 7.0)]), 9 * STEP);
        assert_eq!(known(&trends, "b").len(), 0);
    }
}
