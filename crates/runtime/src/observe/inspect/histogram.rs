//! Histogram of durations: eight buckets for each power of two, so that a percentile is at most an eighth too high.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of buckets: durations below 16 ns one by one, then up to 2⁴⁰ ns.
const BUCKETS: usize = 16 + 36 * 8;

/// A histogram that threads write without a lock, and any thread reads.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Adds a duration, counted `weight` times.
    pub fn add(&self, ns: u64, weight: u32) {
        self.buckets[bucket(ns)].fetch_add(weight.into(), Ordering::Relaxed);
        self.sum_ns.fetch_add(ns.saturating_mul(weight.into()), Ordering::Relaxed);
    }

    /// Returns the current counts.
    pub fn counts(&self) -> DelayCounts {
        DelayCounts {
            buckets: self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < 16 {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros() as usize;
    let part = (ns >> (exponent - 3)) as usize & 7;
    (16 + (exponent - 4) * 8 + part).min(BUCKETS - 1)
}

/// Returns the largest duration of a bucket, in nanoseconds.
fn upper_ns(bucket: usize) -> u64 {
    if bucket < 16 {
        return bucket as u64;
    }
    let (exponent, part) = ((bucket - 16) / 8 + 4, (bucket - 16) % 8);
    (((8 + part + 1) as u64) << (exponent - 3)) - 1
}

/// Counts of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayCounts {
    buckets: Vec<u64>,
    sum_ns: u64,
}

impl DelayCounts {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the mean, in nanoseconds; 0 without durations.
    pub fn mean_ns(&self) -> f64 {
        let count = self.count();
        if count == 0 { 0.0 } else { self.sum_ns as f64 / count as f64 }
    }

    /// Returns a percentile between 0 and 1, in nanoseconds, at most an eighth too high; 0 without durations.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        let rank = ((self.count() as f64 * percentile).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_ns(bucket);
            }
        }
        0
    }

    /// Returns the sum of the durations, in nanoseconds.
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the number of durations up to a bound. Durations at most an eighth below the bound may be missing.
    pub fn count_up_to(&self, bound_ns: u64) -> u64 {
        let counts = self.buckets.iter().enumerate();
        counts.take_while(|(bucket, _)| upper_ns(*bucket) <= bound_ns).map(|(_, count)| count).sum()
    }

    /// Returns the counts since earlier ones.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |at: usize| earlier.buckets.get(at).copied().unwrap_or(0);
        Self {
            buckets: self.buckets.iter().enumerate().map(|(at, count)| count.wrapping_sub(before(at))).collect(),
            sum_ns: self.sum_ns.wrapping_sub(earlier.sum_ns),
        }
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum = sum.wrapping_add(*count);
        }
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_a_bucket_that_ends_at_most_an_eighth_above_it() {
        for ns in (0..5_000).chain([1 << 20, (1 << 20) + 1, 999_999_999, 60_000_000_000]) {
            let upper = upper_ns(bucket(ns));
            assert!(upper >= ns && upper <= ns + ns / 8, "{ns}: {upper}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_durations_and_of_a_span() {
        let histogram = Histogram::default();
        for ns in 1..=1_000 {
            histogram.add(ns, 1);
        }
        let before = histogram.counts();
        histogram.add(1_000_000, 3);
        let all = histogram.counts();

        assert_eq!((before.count(), before.percentile_ns(1.0)), (1_000, 1_023));
        assert!((500..=563).contains(&before.percentile_ns(0.5)), "{}", before.percentile_ns(0.5));
        assert!((before.mean_ns() - 500.5).abs() < 1e-9);
        let span = all.since(&before);
        assert_eq!((span.count(), span.percentile_ns(0.5) / 1_000_000), (3, 1));
        assert_eq!(DelayCounts::default().percentile_ns(0.99), 0);
        assert_eq!((all.count_up_to(1_023), all.count_up_to(1_022), all.count_up_to(u64::MAX)), (1_000, 959, 1_003));
    }
}
