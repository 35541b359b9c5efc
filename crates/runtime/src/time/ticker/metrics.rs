//! Metrics of a ticker for other threads: counters that only its owner writes, and its lateness.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::ledger::TickCounts;

/// Binary logarithm of the number of buckets per octave: a value is off by 3 % at most.
const OCTAVE_BITS: u32 = 5;
const OCTAVE: usize = 1 << OCTAVE_BITS;
/// Number of octaves, up to a lateness of 36 minutes; longer ones share the last bucket.
const OCTAVES: usize = 36;
const LEN: usize = (OCTAVES + 1) * OCTAVE;

/// Lateness of a ticker's batches, in nanoseconds; percentiles are off by 3 % at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Number of batches measured.
    pub count: u64,
    /// Median lateness.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum lateness.
    pub max_ns: u64,
}

/// The counters of a ticker; one thread writes, and any thread may read.
#[derive(Debug)]
pub(super) struct TickMetrics {
    ticks: AtomicU64,
    fired: AtomicU64,
    dropped: AtomicU64,
    coalesced: AtomicU64,
    overruns: AtomicU64,
    slipped_ns: AtomicU64,
    /// Time spent spinning, in nanoseconds.
    spun_ns: AtomicU64,
    lateness: Option<Box<Buckets>>,
}

#[derive(Debug)]
struct Buckets {
    max_ns: AtomicU64,
    counts: [AtomicU64; LEN],
}

impl TickMetrics {
    pub(super) fn new(measures: bool) -> Self {
        let buckets = || Box::new(Buckets { max_ns: AtomicU64::new(0), counts: [const { AtomicU64::new(0) }; LEN] });
        let zero = || AtomicU64::new(0);
        Self {
            ticks: zero(),
            fired: zero(),
            dropped: zero(),
            coalesced: zero(),
            overruns: zero(),
            slipped_ns: zero(),
            spun_ns: zero(),
            lateness: measures.then(buckets),
        }
    }

    /// Publishes the counts of the owner. Relaxed: readers use each number by itself.
    #[inline]
    pub(super) fn show(&self, account: &TickCounts) {
        self.ticks.store(account.ticks, Relaxed);
        self.fired.store(account.fired, Relaxed);
        self.dropped.store(account.dropped, Relaxed);
        self.coalesced.store(account.coalesced, Relaxed);
        self.overruns.store(account.overruns, Relaxed);
        self.slipped_ns.store(account.slipped_ns, Relaxed);
    }

    pub(super) fn account(&self) -> TickCounts {
        TickCounts {
            ticks: self.ticks.load(Relaxed),
            fired: self.fired.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            coalesced: self.coalesced.load(Relaxed),
            overruns: self.overruns.load(Relaxed),
            slipped_ns: self.slipped_ns.load(Relaxed),
        }
    }

    /// Adds time spent spinning; only one thread calls this.
    pub(super) fn spun(&self, ns: u64) {
        self.spun_ns.store(self.spun_ns.load(Relaxed) + ns, Relaxed);
    }

    pub(super) fn spun_ns(&self) -> u64 {
        self.spun_ns.load(Relaxed)
    }

    /// Records the lateness of a batch; only the owner calls this.
    #[inline]
    pub(super) fn late(&self, ns: u64) {
        let Some(lateness) = &self.lateness else { return };
        let count = &lateness.counts[bucket_of(ns)];
        count.store(count.load(Relaxed) + 1, Relaxed);
        if ns > lateness.max_ns.load(Relaxed) {
            lateness.max_ns.store(ns, Relaxed);
        }
    }

    /// Returns the lateness; `None` if it is not measured.
    pub(super) fn lateness(&self) -> Option<Lateness> {
        let buckets = self.lateness.as_ref()?;
        let counts: Vec<u64> = buckets.counts.iter().map(|count| count.load(Relaxed)).collect();
        let (count, max_ns): (u64, u64) = (counts.iter().sum(), buckets.max_ns.load(Relaxed));
        let percentile = |thousandths: u64| {
            let wanted = (count * thousandths).div_ceil(1_000).max(1);
            let mut seen = 0;
            let bucket = counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            bucket.map_or(0, |bucket| highest_of(bucket).min(max_ns))
        };
        Some(Lateness {
            count,
            p50_ns: percentile(500),
            p90_ns: percentile(900),
            p99_ns: percentile(990),
            p999_ns: percentile(999),
            max_ns,
        })
    }
}

/// Returns the bucket of a value: at first one per nanosecond, then `OCTAVE` for each power of two.
const fn bucket_of(ns: u64) -> usize {
    let octave = u64::BITS - OCTAVE_BITS - 1 - (ns | (OCTAVE as u64)).leading_zeros();
    let bucket = octave as usize * OCTAVE + (ns >> octave) as usize;
    if bucket < LEN { bucket } else { LEN - 1 }
}

/// Returns the highest value of a bucket.
const fn highest_of(bucket: usize) -> u64 {
    if bucket < 2 * OCTAVE {
        return bucket as u64;
    }
    let octave = bucket / OCTAVE - 1;
    (((bucket % OCTAVE + OCTAVE + 1) as u64) << octave) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_noted() {
        let metrics = TickMetrics::new(true);
        (1..=1_000).for_each(|us| metrics.late(us * 1_000));

        let seen = metrics.lateness().unwrap();

        assert_eq!((seen.count, seen.max_ns), (1_000, 1_000_000));
        for (ns, expected) in [(seen.p50_ns, 500_000), (seen.p99_ns, 990_000), (seen.p999_ns, 999_000)] {
            assert!(ns >= expected && ns <= expected + expected / 30, "{ns} for {expected}");
        }
        assert_eq!(TickMetrics::new(false).lateness(), None);
        assert_eq!(TickMetrics::new(true).lateness(), Some(Lateness::default()));
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(ns: u64) {
            let bucket = bucket_of(ns);

            prop_assert!(bucket == LEN - 1 || ns <= highest_of(bucket));
            prop_assert!(bucket == 0 || ns > highest_of(bucket - 1));
        }
    }
}
