//! Values of the last fifteen minutes: tenths of a second for the last two minutes, seconds before.
//!
//! Slots are aligned to the node's clock and not to the newest value, so that a chart shifts by whole columns and does
//! not flicker. The modules below show recorded instants: the past, what is live beside it, and two instants compared.

pub(crate) mod compare;
pub(crate) mod live;
pub(crate) mod past;
pub(crate) mod rows;

use std::collections::VecDeque;

/// Width of a fine slot, in milliseconds.
pub(crate) const SLOT_MS: u64 = 100;
/// Maximum number of fine slots: two minutes.
const FINE_MAX: usize = 1200;
/// Width of a coarse slot, in milliseconds.
const COARSE_MS: u64 = 1000;
/// Maximum number of coarse slots: fifteen minutes.
const COARSE_MAX: usize = 900;

/// Time that charts cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Window {
    #[default]
    Minute,
    Five,
    Ten,
}

impl Window {
    const ALL: [Self; 3] = [Self::Minute, Self::Five, Self::Ten];

    /// Returns the time, in milliseconds.
    pub(crate) const fn ms(self) -> u64 {
        match self {
            Self::Minute => 60_000,
            Self::Five => 300_000,
            Self::Ten => 600_000,
        }
    }

    /// Returns the time as text.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Minute => "1 min",
            Self::Five => "5 min",
            Self::Ten => "10 min",
        }
    }

    /// Returns the window this many steps longer.
    pub(crate) fn step(self, steps: isize) -> Self {
        let at = Self::ALL.iter().position(|window| *window == self).unwrap_or(0);
        Self::ALL[at.saturating_add_signed(steps).min(Self::ALL.len() - 1)]
    }
}

/// Number, sum and number of values of a slot. Slot numbers only increase.
type Slots = VecDeque<(u64, f64, u32)>;

/// A value over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    fine: Slots,
    coarse: Slots,
}

impl Series {
    /// Adds a value. A value older than the newest one restarts the series.
    pub(crate) fn push(&mut self, at_ms: u64, value: f64) {
        let value = if value.is_finite() { value.max(0.0) } else { 0.0 };
        if self.fine.back().is_some_and(|(last, ..)| *last > at_ms / SLOT_MS) {
            *self = Self::default();
        }
        add(&mut self.fine, at_ms / SLOT_MS, value, FINE_MAX);
        add(&mut self.coarse, at_ms / COARSE_MS, value, COARSE_MAX);
    }

    /// Adds earlier values, oldest first, before the known ones.
    pub(crate) fn fill(&mut self, points: impl DoubleEndedIterator<Item = (u64, f64)>) {
        let first = self.coarse.front().map_or(u64::MAX, |(slot, ..)| *slot);
        let mut before = first;
        for (at_ms, value) in points.rev().filter(|(_, value)| value.is_finite()) {
            let slot = at_ms / COARSE_MS;
            if slot < before && self.coarse.len() < COARSE_MAX {
                self.coarse.push_front((slot, value.max(0.0), 1));
                before = slot;
            }
        }
        // Fine charts need them too, as far as they reach.
        let first = self.fine.front().map_or(u64::MAX, |(slot, ..)| *slot);
        let of_coarse = |slot: u64| slot * (COARSE_MS / SLOT_MS);
        let newest = self.fine.back().map(|(slot, ..)| *slot);
        let newest = newest.or_else(|| self.coarse.back().map(|(slot, ..)| of_coarse(*slot))).unwrap_or(0);
        let earlier: Vec<(u64, f64, u32)> = self
            .coarse
            .iter()
            .map(|(slot, sum, n)| (of_coarse(*slot), *sum, *n))
            .filter(|(slot, ..)| *slot < first && slot + FINE_MAX as u64 > newest)
            .collect();
        for point in earlier.into_iter().rev() {
            if self.fine.len() < FINE_MAX {
                self.fine.push_front(point);
            }
        }
    }

    /// Returns the mean over the `span_ms` before an uptime.
    pub(crate) fn mean_to(&self, end_ms: u64, span_ms: u64) -> f64 {
        let newest = end_ms / SLOT_MS;
        let oldest = newest.saturating_sub((span_ms / SLOT_MS).max(1) - 1);
        let within = |(slot, ..): &&(u64, f64, u32)| (oldest..=newest).contains(slot);
        let (sum, n) = self.fine.iter().filter(within).fold((0.0, 0), |(sum, n), (_, s, k)| (sum + s, n + k));
        if n > 0 {
            return sum / f64::from(n);
        }
        let coarse = self.coarse.iter().rev().find(|(slot, ..)| *slot <= end_ms / COARSE_MS);
        coarse.map_or(0.0, |(_, sum, n)| sum / f64::from((*n).max(1)))
    }

    /// Returns a window of time up to an uptime in `count` columns, oldest first; `None` before the first known value.
    ///
    /// A column is the mean of its values. An empty one repeats the value before it: a client at 4 Hz leaves such gaps.
    pub(crate) fn columns(&self, end_ms: u64, window_ms: u64, count: usize) -> Vec<Option<f64>> {
        let (slots, slot_ms) = if window_ms > FINE_MAX as u64 * SLOT_MS / 2 || self.fine.is_empty() {
            (&self.coarse, COARSE_MS)
        } else {
            let from_ms = end_ms.saturating_sub(window_ms);
            let is_fine = self.fine.front().is_some_and(|(slot, ..)| slot * SLOT_MS <= from_ms)
                || self.fine.front().map(|(slot, ..)| slot * SLOT_MS / COARSE_MS)
                    <= self.coarse.front().map(|(slot, ..)| *slot);
            if is_fine { (&self.fine, SLOT_MS) } else { (&self.coarse, COARSE_MS) }
        };
        let mut sums = vec![(0.0, 0_u32); count];
        // A column has a number of its own on the node's clock, so a value never moves between two columns.
        let column = |at_ms: u64| u128::from(at_ms) * count as u128 / u128::from(window_ms.max(1));
        let newest = column(end_ms);
        let mut earlier = None;
        for &(slot, sum, n) in slots.iter().rev() {
            let at_ms = slot * slot_ms;
            if at_ms > end_ms {
                continue;
            }
            let back = (newest - column(at_ms)) as usize;
            if back >= count {
                earlier = Some(sum / f64::from(n.max(1)));
                break;
            }
            let column = &mut sums[count - 1 - back];
            column.0 += sum;
            column.1 += n;
        }
        let mut last = earlier;
        sums.into_iter()
            .map(|(sum, n)| {
                if n > 0 {
                    last = Some(sum / f64::from(n));
                }
                last
            })
            .collect()
    }

    /// Returns the last `count` buckets of `bucket_ms` each, oldest first.
    pub(crate) fn buckets(&self, bucket_ms: u64, count: usize) -> Vec<Option<f64>> {
        self.columns(self.newest_ms(), bucket_ms * count as u64, count)
    }

    /// Returns the time of the newest value, in milliseconds.
    pub(crate) fn newest_ms(&self) -> u64 {
        self.fine.back().map_or(0, |(slot, ..)| slot * SLOT_MS)
    }
}

fn add(slots: &mut Slots, slot: u64, value: f64, max: usize) {
    match slots.back_mut() {
        Some((last, sum, n)) if *last == slot => {
            *sum += value;
            *n += 1;
        }
        _ => {
            if slots.len() == max {
                slots.pop_front();
            }
            slots.push_back((slot, value, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_the_mean_of_its_values() {
        let mut series = Series::default();
        for (at_ms, value) in [(0, 1.0), (50, 3.0), (100, 5.0), (250, 7.0)] {
            series.push(at_ms, value);
        }

        assert_eq!(series.buckets(100, 4), [None, Some(2.0), Some(5.0), Some(7.0)]);
        assert_eq!(series.buckets(200, 2), [Some(3.0), Some(7.0)]);
    }

    #[test]
    fn a_hole_takes_the_value_before_it() {
        let mut series = Series::default();
        series.push(0, 4.0);
        series.push(300, 8.0);

        assert_eq!(series.buckets(100, 4), [Some(4.0), Some(4.0), Some(4.0), Some(8.0)]);
    }

    #[test]
    fn a_clock_that_goes_back_starts_anew() {
        let mut series = Series::default();
        series.push(9_000, 1.0);
        series.push(100, 2.0);

        assert_eq!(series.buckets(100, 2), [None, Some(2.0)]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut series = Series::default();
        for at in 0..5_000 {
            series.push(at * SLOT_MS, 1.0);
        }

        assert_eq!((series.fine.len(), series.coarse.len()), (FINE_MAX, 500));
        for at in 0..5_000 {
            series.push(1_000_000 + at * COARSE_MS, 1.0);
        }
        assert_eq!((series.fine.len(), series.coarse.len()), (FINE_MAX, COARSE_MAX));
    }

    #[test]
    fn what_was_recorded_before_stands_before_what_came_since() {
        let mut series = Series::default();
        series.push(600_000, 7.0);

        series.fill((0..600).map(|second| (second * 1000, 1.0)));
        series.push(601_000, 9.0);

        let columns = series.columns(601_000, 600_000, 10);
        assert_eq!(columns[..9], [Some(1.0); 9]);
        assert!(columns[9].is_some_and(|mean| mean > 1.0));
        assert_eq!(series.columns(300_000, 60_000, 3), [Some(1.0); 3], "the past ends at its cursor");
    }

    #[test]
    fn a_column_keeps_its_values_while_time_goes_on() {
        let mut series = Series::default();
        for slot in 0..1_200_u64 {
            series.push(slot * SLOT_MS, (slot * 37 % 101) as f64);
        }

        // 144 columns do not divide a minute into whole slots.
        let (now, later) =
            (series.columns(100_000, 60_000, 144), series.columns(100_000 + 5 * 60_000 / 144 + 1, 60_000, 144));

        assert_eq!(now[5..143], later[..138]);
    }

    #[test]
    fn the_window_stops_at_its_ends() {
        assert_eq!(Window::Minute.step(1).step(1).step(1), Window::Ten);
        assert_eq!(Window::Ten.step(-1).step(-5), Window::Minute);
    }
}
