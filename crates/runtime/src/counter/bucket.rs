//! Rate limiters that read and write a store at each operation: a token bucket and a leaky bucket.
//!
//! The baseline for systems that keep their limits in a database: the cost of an operation is theirs. The state that
//! decides is in memory, so that concurrent operations cannot exceed the quota; a bucket that is opened begins full.
//! [`Limiter`](super::Limiter) is the equivalent without a store.

use std::fmt;
use std::sync::Arc;

use super::backend::Backend;
use super::coarse_clock::CoarseClock;
use super::gcra::{Gcra, Quota};
use super::store::{CounterStore, CounterStoreError, Slot};
use super::variant::{Admission, Counter, NoOptionsError};

/// Kind of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketKind {
    /// Holds tokens, which are added at the rate; an operation takes tokens.
    Token,
    /// Holds units, which leak at the rate; an operation adds units.
    Leaky,
}

/// Options of a [`StoredBucket`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketOptions {
    /// Kind of the bucket.
    pub kind: BucketKind,
    /// Rate per second, and burst.
    pub quota: Quota,
}

/// A rate limiter that reads its row of a store before each operation, and writes its level after it.
pub struct StoredBucket<S> {
    kind: BucketKind,
    gcra: Gcra,
    clock: CoarseClock,
    slot: Slot,
    store: Arc<S>,
}

impl<S: CounterStore> fmt::Debug for StoredBucket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredBucket").field("kind", &self.kind).field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl<S: CounterStore> StoredBucket<S> {
    fn level(&self, now_ns: u64) -> i64 {
        let available = self.gcra.available(now_ns);
        let level = match self.kind {
            BucketKind::Token => available,
            BucketKind::Leaky => self.gcra.quota().burst() - available,
        };
        i64::try_from(level).unwrap_or(i64::MAX)
    }
}

impl<S: CounterStore> Counter<S> for StoredBucket<S> {
    type Options = BucketOptions;
    type OptionsError = NoOptionsError;

    fn check(_: &BucketOptions) -> Result<(), NoOptionsError> {
        Ok(())
    }

    fn open(backend: &Backend<S>, options: &BucketOptions, slot: Slot) -> Self {
        let clock = backend.clock.clone();
        Self {
            kind: options.kind,
            gcra: Gcra::new(options.quota, clock.now_ns()),
            clock,
            slot,
            store: Arc::clone(backend.store()),
        }
    }

    /// Takes units; negative units are given back.
    #[inline]
    async fn update(&self, units: i64) -> Result<Admission, CounterStoreError> {
        self.store.read(&self.slot).await?;
        let now_ns = self.clock.now_ns();
        let admission = if units < 0 {
            self.gcra.refund(units.unsigned_abs());
            Admission::Granted
        } else {
            self.gcra.take(units.unsigned_abs(), now_ns).map_or(Admission::Denied, |()| Admission::Granted)
        };
        self.store.set(&self.slot, self.level(now_ns)).await?;
        Ok(admission)
    }

    /// Returns the units in the bucket.
    fn value(&self) -> i64 {
        self.level(self.clock.now_ns())
    }
}
