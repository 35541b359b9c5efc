//! The PN-counter: one replica for each group of workers; merging exchanges their counts.
//!
//! ```text
//!   operation ──▶ own replica: plus or minus ──▶ add to the store
//!   flusher, every interval: each replica's view of the others = max(its view, their own counts)
//! ```
//!
//! Plus and minus only grow, so merges are idempotent and their order does not matter. If a process is killed during
//! its store call, the outcome of the call is unknown: the flusher reads the store as soon as no operation is in
//! flight.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use thiserror::Error;

use super::backend::{Backend, StripeSelector};
use super::store::{Change, CounterStore, CounterStoreError, Slot};
use super::stripes::Stripe;
use super::variant::{Admission, Counter};

/// Largest number of replicas.
pub const REPLICAS_MAX: usize = 1_024;

/// Number of replicas, and merge interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrdtOptions {
    /// Number of replicas, 1 to 1,024. Default 4.
    pub replicas: usize,
    /// Time between two merges, 100 µs to a minute. Default 25 ms.
    pub merge_interval: Duration,
}

/// Error returned for invalid options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CrdtOptionsError {
    /// Use a number within the range.
    #[error("{replicas} replicas are not between 1 and {REPLICAS_MAX}")]
    Replicas {
        /// Number given.
        replicas: usize,
    },
    /// Use an interval within the range.
    #[error("merge interval of {interval:?} is not between 100µs and 60s")]
    Interval {
        /// Interval given.
        interval: Duration,
    },
}

impl Default for CrdtOptions {
    fn default() -> Self {
        Self { replicas: 4, merge_interval: Duration::from_millis(25) }
    }
}

/// Units given, and units taken.
#[derive(Default)]
struct PnCounts {
    plus: AtomicU64,
    minus: AtomicU64,
}

impl PnCounts {
    fn net(&self) -> i64 {
        let (plus, minus) = (self.plus.load(Ordering::Relaxed), self.minus.load(Ordering::Relaxed));
        plus.wrapping_sub(minus).cast_signed()
    }

    /// Counts units as given, or as taken if they are negative.
    #[inline]
    fn count(&self, units: i64) {
        let side = if units < 0 { &self.minus } else { &self.plus };
        side.fetch_add(units.unsigned_abs(), Ordering::AcqRel);
    }

    fn merge(&self, other: &Self) {
        self.plus.fetch_max(other.plus.load(Ordering::Relaxed), Ordering::Relaxed);
        self.minus.fetch_max(other.minus.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Counts of one replica's own operations.
#[derive(Default)]
struct ReplicaCounts {
    counts: PnCounts,
    /// Number of operations being stored.
    in_flight: AtomicU64,
}

struct Replica {
    own: CachePadded<ReplicaCounts>,
    /// Counts of all replicas as known here, by index; the entry of this replica is not used.
    others: Box<[PnCounts]>,
}

/// A PN-counter of replicas that merge periodically.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::{Counter, Counters, Crdt, CrdtOptions, MemoryStore};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let options = CrdtOptions { replicas: 2, ..CrdtOptions::default() };
/// let likes = Counters::<Crdt<_>, _>::start(&runtime, MemoryStore::new(), options)?;
/// let post = likes.counter("post 7", 0)?;
/// runtime.block_on(move |_| async move {
///     post.update_by(0, -3).await?; // three units are given, by a worker of replica 0
///     post.update_by(1, -4).await?;
///     assert_eq!(post.value(), 7);
///     likes.flush().await?; // merges: each replica now knows the units of the other
///     assert_eq!(post.value_at(0), 7);
///     Ok::<(), rusm::counter::CounterStoreError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Crdt<S> {
    stripe_selector: StripeSelector,
    initial_value: i64,
    replicas: Box<[Replica]>,
    /// Result of `seen` at the last merge, to skip merges without changes.
    merged: AtomicU64,
    /// True if the process of an operation ended while the operation was being stored.
    outcome_unknown: AtomicBool,
    slot: Slot,
    store: Arc<S>,
}

impl<S: CounterStore> fmt::Debug for Crdt<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crdt").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl<S: CounterStore> Crdt<S> {
    /// Returns the value as known to one replica.
    pub fn value_at(&self, replica: usize) -> i64 {
        let number = replica % self.replicas.len();
        let replica = &self.replicas[number];
        let others = replica.others.iter().enumerate().filter(|(other, _)| *other != number);
        self.initial_value + replica.own.counts.net() + others.map(|(_, counts)| counts.net()).sum::<i64>()
    }

    /// Merges the counts of all replicas into each other; returns false if nothing has changed since the last merge.
    fn merge(&self) -> bool {
        let sum = self.seen();
        if self.merged.swap(sum, Ordering::Relaxed) == sum {
            return false;
        }
        for replica in &self.replicas {
            for (known, other) in replica.others.iter().zip(&self.replicas) {
                known.merge(&other.own.counts);
            }
        }
        true
    }

    /// Returns the sum of all units regardless of their sign; it only grows.
    fn seen(&self) -> u64 {
        let seen = |PnCounts { plus, minus }: &PnCounts| {
            plus.load(Ordering::Acquire).wrapping_add(minus.load(Ordering::Acquire))
        };
        self.replicas.iter().fold(0_u64, |sum, replica| sum.wrapping_add(seen(&replica.own.counts)))
    }

    fn is_quiescent(&self) -> bool {
        self.replicas.iter().all(|replica| replica.own.in_flight.load(Ordering::Acquire) == 0)
    }

    /// Reads the store to find the outcome of interrupted operations; retried if other operations run meanwhile.
    async fn reconcile(&self) -> Result<(), CounterStoreError> {
        // Clear it first: an operation that is interrupted meanwhile is then handled the next time.
        if self.outcome_unknown.swap(false, Ordering::AcqRel) {
            let known = self.difference().await;
            self.outcome_unknown.fetch_or(!matches!(known, Ok(Some(_))), Ordering::Release);
            self.replicas[0].own.counts.count(known?.unwrap_or(0));
        }
        Ok(())
    }

    /// Returns the stored value minus the replicas' value; `None` if operations ran meanwhile.
    async fn difference(&self) -> Result<Option<i64>, CounterStoreError> {
        // Operations that ended before `is_quiescent` are in the stored value, and all operations in it are in the last
        // `seen`.
        let seen = self.seen();
        if !self.is_quiescent() {
            return Ok(None);
        }
        let has = self.store.read(&self.slot).await?;
        let more = has.wrapping_sub(self.value());
        Ok((self.seen() == seen).then_some(more))
    }
}

/// An operation in flight to the store.
struct PendingUpdate<'a> {
    own: &'a ReplicaCounts,
    outcome_unknown: &'a AtomicBool,
    is_completed: bool,
}

impl Drop for PendingUpdate<'_> {
    fn drop(&mut self) {
        if !self.is_completed {
            self.outcome_unknown.store(true, Ordering::Release);
        }
        self.own.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<S: CounterStore> Counter<S> for Crdt<S> {
    type Options = CrdtOptions;
    type OptionsError = CrdtOptionsError;

    fn check(options: &CrdtOptions) -> Result<(), CrdtOptionsError> {
        let CrdtOptions { replicas, merge_interval: interval } = *options;
        if !(1..=REPLICAS_MAX).contains(&replicas) {
            return Err(CrdtOptionsError::Replicas { replicas });
        }
        if !(Duration::from_micros(100)..=Duration::from_mins(1)).contains(&interval) {
            return Err(CrdtOptionsError::Interval { interval });
        }
        Ok(())
    }

    fn open(backend: &Backend<S>, options: &CrdtOptions, slot: Slot) -> Self {
        let count = options.replicas;
        let replica =
            |_| Replica { own: CachePadded::default(), others: (0..count).map(|_| PnCounts::default()).collect() };
        Self {
            stripe_selector: backend.stripe_selector().clone(),
            initial_value: slot.value(),
            replicas: (0..count).map(replica).collect(),
            merged: AtomicU64::new(0),
            outcome_unknown: AtomicBool::new(false),
            slot,
            store: Arc::clone(backend.store()),
        }
    }

    #[inline]
    async fn update(&self, units: i64) -> Result<Admission, CounterStoreError> {
        let worker = match self.stripe_selector.stripe() {
            Stripe::Own(scheduler) => scheduler,
            Stripe::Shared => self.stripe_selector.schedulers(),
        };
        self.update_by(worker, units).await
    }

    #[inline]
    async fn update_by(&self, worker: usize, units: i64) -> Result<Admission, CounterStoreError> {
        let own = &self.replicas[worker % self.replicas.len()].own;
        own.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut pending = PendingUpdate { own, outcome_unknown: &self.outcome_unknown, is_completed: false };
        own.counts.count(units.wrapping_neg());
        let stored = self.store.add(&self.slot, units.wrapping_neg(), 1).await;
        if stored.is_err() {
            // Sides only grow: an operation that was not stored is compensated on the other side.
            own.counts.count(units);
        }
        pending.is_completed = true;
        stored.map(|()| Admission::Granted)
    }

    /// Returns the value over all replicas, merged or not.
    fn value(&self) -> i64 {
        self.initial_value + self.replicas.iter().map(|replica| replica.own.counts.net()).sum::<i64>()
    }

    fn interval(options: &CrdtOptions) -> Option<Duration> {
        Some(options.merge_interval)
    }

    async fn maintain(
        backend: &Backend<S>,
        _: &CrdtOptions,
        counters: &[Arc<Self>],
        _: bool,
    ) -> Result<(), CounterStoreError> {
        for counter in counters {
            counter.reconcile().await?;
        }
        let merged = counters.iter().filter(|counter| counter.merge());
        let changes: Vec<_> =
            merged.map(|counter| Change { slot: counter.slot.clone(), units: 0, events: 1 }).collect();
        if changes.is_empty() { Ok(()) } else { backend.store().commit(changes).await }
    }
}
