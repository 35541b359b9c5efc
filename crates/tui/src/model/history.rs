//! Values of the last two minutes, in slots of a tenth of a second, independent of the frame rate.
//!
//! Slots are aligned to the node's clock and not to the newest value, so that a chart shifts by whole columns and does
//! not flicker.

use std::collections::VecDeque;

/// Width of a slot, in milliseconds.
pub(crate) const SLOT_MS: u64 = 100;

/// Maximum number of slots: two minutes.
const SLOTS_MAX: usize = 1200;

/// A value over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    /// Slot number, sum and number of values. Slot numbers only increase.
    slots: VecDeque<(u64, f64, u32)>,
}

impl Series {
    /// Adds a value. A value older than the newest one restarts the series.
    pub(crate) fn push(&mut self, at_ms: u64, value: f64) {
        let value = if value.is_finite() { value.max(0.0) } else { 0.0 };
        let slot = at_ms / SLOT_MS;
        match self.slots.back_mut() {
            Some((last, sum, n)) if *last == slot => {
                *sum += value;
                *n += 1;
                return;
            }
            Some((last, ..)) if *last > slot => self.slots.clear(),
            _ => {}
        }
        if self.slots.len() == SLOTS_MAX {
            self.slots.pop_front();
        }
        self.slots.push_back((slot, value, 1));
    }

    /// Returns the mean over the last `span_ms`.
    pub(crate) fn recent(&self, span_ms: u64) -> f64 {
        let Some(&(newest, ..)) = self.slots.back() else {
            return 0.0;
        };
        let oldest = newest.saturating_sub((span_ms / SLOT_MS).max(1) - 1);
        let (sum, n) = self
            .slots
            .iter()
            .rev()
            .take_while(|(slot, ..)| *slot >= oldest)
            .fold((0.0, 0), |(sum, n), (_, s, k)| (sum + s, n + k));
        sum / f64::from(n.max(1))
    }

    /// Returns the last `count` buckets of `bucket_ms` each, oldest first; `None` before the first known value.
    ///
    /// An empty bucket repeats the value before it: a client at 4 Hz leaves such gaps.
    pub(crate) fn buckets(&self, bucket_ms: u64, count: usize) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u32); count];
        let per_bucket = (bucket_ms / SLOT_MS).max(1);
        if let Some(&(newest, ..)) = self.slots.back() {
            let newest_bucket = newest / per_bucket;
            for &(slot, sum, n) in self.slots.iter().rev() {
                let back = (newest_bucket - slot / per_bucket) as usize;
                if back >= count {
                    break;
                }
                let bucket = &mut sums[count - 1 - back];
                bucket.0 += sum;
                bucket.1 += n;
            }
        }
        let mut last = None;
        sums.into_iter()
            .map(|(sum, n)| {
                if n > 0 {
                    last = Some(sum / f64::from(n));
                }
                last
            })
            .collect()
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

        assert_eq!(series.slots.len(), SLOTS_MAX);
    }
}
