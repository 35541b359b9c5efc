//! Counters that store every operation: `AtomicCounter` one by one, `BatchCounter` in batches.
//!
//! ```text
//!   AtomicCounter: operation ──▶ add to the store, counted as in flight meanwhile ──▶ done
//!   BatchCounter:  operation ──▶ stripe: (operations, net) ── full? ──▶ one add to the store ──▶ done
//!                            └ flusher, every interval ──▶ one commit of all stripes that are not empty
//! ```
//!
//! A process may be killed during its store call, and a store may fail after it has applied a call: the outcome is then
//! unknown. Operations with an unknown outcome are kept apart, and the flusher reads the store before it stores them
//! again.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use thiserror::Error;

use super::backend::{Backend, StripeSelector};
use super::store::{Change, CounterStore, CounterStoreError, Slot};
use super::stripes::Stripe;
use super::variant::{Admission, Counter, NoOptions, NoOptionsError};

/// A counter that stores every operation before the operation completes.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::{Admission, AtomicCounter, Counter, Counters, MemoryStore, NoOptions};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let accounts = Counters::<AtomicCounter<_>, _>::start(&runtime, MemoryStore::new(), NoOptions)?;
/// let account = accounts.counter("ada", 100)?;
/// runtime.block_on(move |_| async move {
///     // Each of these is in the store when it returns.
///     assert_eq!(account.update(30).await?, Admission::Granted);
///     account.update(-5).await?;
///     assert_eq!(account.value(), 75);
///     Ok::<(), rusm::counter::CounterStoreError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AtomicCounter<S> {
    /// Units sent to the store and not yet answered.
    in_flight_units: CachePadded<AtomicI64>,
    slot: Slot,
    store: Arc<S>,
}

/// Units of an operation that waits for the store. Once it is dropped, the slot alone has the outcome.
struct InFlightUnits<'a> {
    all: &'a AtomicI64,
    units: i64,
}

impl Drop for InFlightUnits<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.units, Ordering::Relaxed);
    }
}

impl<S: CounterStore> fmt::Debug for AtomicCounter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtomicCounter").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl<S: CounterStore> Counter<S> for AtomicCounter<S> {
    type Options = NoOptions;
    type OptionsError = NoOptionsError;

    fn check(_: &NoOptions) -> Result<(), NoOptionsError> {
        Ok(())
    }

    fn open(backend: &Backend<S>, _: &NoOptions, slot: Slot) -> Self {
        Self { in_flight_units: CachePadded::default(), slot, store: Arc::clone(backend.store()) }
    }

    #[inline]
    async fn update(&self, units: i64) -> Result<Admission, CounterStoreError> {
        let mut call = pin!(self.store.add(&self.slot, units.wrapping_neg(), 1));
        // A store that answers at once needs no in-flight accounting.
        let mut in_flight_units = None;
        let stored = poll_fn(|cx| {
            let stored = call.as_mut().poll(cx);
            if stored.is_pending() && in_flight_units.is_none() {
                self.in_flight_units.fetch_add(units, Ordering::Relaxed);
                in_flight_units = Some(InFlightUnits { all: &self.in_flight_units, units });
            }
            stored
        });
        stored.await.map(|()| Admission::Granted)
    }

    fn value(&self) -> i64 {
        self.slot.value().wrapping_sub(self.in_flight_units.load(Ordering::Relaxed))
    }
}

/// Size of a batch, and the longest time that it waits for more operations.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use std::time::Duration;
///
/// use rusm::counter::{BatchCounter, BatchOptions, Counters, MemoryStore};
///
/// let options = BatchOptions { size: 256, interval: Duration::from_millis(5) };
/// let visits = Counters::<BatchCounter<_>, _>::start(&runtime, MemoryStore::new(), options)?;
///
/// let options = BatchOptions { size: 0, ..BatchOptions::default() };
/// let error = Counters::<BatchCounter<_>, _>::start(&runtime, MemoryStore::new(), options).unwrap_err();
/// assert_eq!(error.to_string(), "batch size of 0 is not between 1 and 65536");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Number of operations in a batch, 1 to 65,536. Default 64; more means fewer store calls, and a larger loss in a
    /// crash.
    pub size: u64,
    /// Time after which an incomplete batch is stored, 100 µs to a minute. Default 10 ms.
    pub interval: Duration,
}

/// Error returned for invalid options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BatchOptionsError {
    /// Use a size within the range.
    #[error("batch size of {size} is not between 1 and {BATCH_MAX}")]
    Size {
        /// Size given.
        size: u64,
    },
    /// Use an interval within the range.
    #[error("batch interval of {interval:?} is not between 100µs and 60s")]
    Interval {
        /// Interval given.
        interval: Duration,
    },
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self { size: 64, interval: Duration::from_millis(10) }
    }
}

/// Largest number of operations in a batch.
pub const BATCH_MAX: u64 = 1 << 16;
/// Operations with more units than this are stored individually: the net change of a batch must fit into its word.
const UNITS_MAX: u64 = 1 << 20;
const NET_BITS: u32 = 40;

/// Operations that are not stored yet, and their net change, packed into one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PendingBatch {
    operations: u64,
    net: i64,
}

impl PendingBatch {
    /// Words add up: the sum of two words is the word of the two sums.
    const fn pack(self) -> u64 {
        (self.operations << NET_BITS).wrapping_add(self.net.cast_unsigned())
    }

    const fn unpack(word: u64) -> Self {
        let unused = u64::BITS - NET_BITS;
        let net = (word << unused).cast_signed() >> unused;
        Self { operations: word.wrapping_sub(net.cast_unsigned()) >> NET_BITS, net }
    }
}

/// A counter that stores its operations in batches.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::{BatchCounter, BatchOptions, Counter, Counters, MemoryStore};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let visits = Counters::<BatchCounter<_>, _>::start(&runtime, MemoryStore::new(), BatchOptions::default())?;
/// let home = visits.counter("/", 0)?;
/// runtime.block_on(move |_| async move {
///     for _ in 0..100 {
///         home.update(-1).await?; // negative units are given: the value grows
///     }
///     assert_eq!(home.value(), 100);
///     visits.flush().await // stores the incomplete batch too
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BatchCounter<S> {
    stripe_selector: StripeSelector,
    stripes: Box<[CachePadded<AtomicU64>]>,
    /// Units in flight to the store, or with an unknown outcome.
    in_flight_units: AtomicI64,
    in_flight: AtomicU64,
    initial_value: i64,
    /// Units known to be stored since then.
    stored: AtomicI64,
    /// True after a flight failed or its process ended during it. No other flight begins until the store was read.
    outcome_unknown: AtomicBool,
    unresolved: Mutex<PendingBatch>,
    size: u64,
    slot: Slot,
    store: Arc<S>,
}

/// Operations in flight to the store.
struct BatchWrite<'a, S: CounterStore> {
    counter: &'a BatchCounter<S>,
    batch: PendingBatch,
    is_completed: bool,
}

impl<'a, S: CounterStore> BatchWrite<'a, S> {
    /// Begins a store call; returns `None` while the outcome of another call is unknown.
    fn begin(counter: &'a BatchCounter<S>) -> Option<Self> {
        let write = Self::open(counter);
        // Either the flusher sees this write before it reads the store, or this call sees that the store must be read.
        (!counter.is_outcome_unknown()).then_some(write)
    }

    fn open(counter: &'a BatchCounter<S>) -> Self {
        counter.in_flight.fetch_add(1, Ordering::SeqCst);
        Self { counter, batch: PendingBatch::default(), is_completed: true }
    }

    /// Begins a flight with operations that turned out not to be stored; `in_flight_units` includes them already.
    fn retry(counter: &'a BatchCounter<S>, left: PendingBatch) -> Self {
        let mut write = Self::open(counter);
        write.batch = left;
        write.is_completed = false;
        write
    }

    fn add_batch(&mut self, batch: PendingBatch) {
        self.counter.in_flight_units.fetch_add(batch.net, Ordering::Relaxed);
        self.batch = batch;
        self.is_completed = false;
    }

    fn succeed(mut self) {
        self.counter.stored.fetch_add(self.batch.net, Ordering::Relaxed);
        self.is_completed = true;
    }

    /// Ends a flight that the store has refused; the caller receives the error.
    fn reject(mut self) {
        self.is_completed = true;
    }
}

impl<S: CounterStore> Drop for BatchWrite<'_, S> {
    fn drop(&mut self) {
        if self.is_completed {
            self.counter.in_flight_units.fetch_sub(self.batch.net, Ordering::Relaxed);
        } else {
            self.counter.mark_unresolved(self.batch);
        }
        self.counter.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S: CounterStore> fmt::Debug for BatchCounter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchCounter").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl<S: CounterStore> BatchCounter<S> {
    fn stripe(&self) -> &AtomicU64 {
        match self.stripe_selector.stripe() {
            Stripe::Own(scheduler) => &self.stripes[scheduler],
            Stripe::Shared => &self.stripes[self.stripes.len() - 1],
        }
    }

    /// Stores the operations of a stripe. If the store fails or must be read first, they are left to the flusher.
    #[cold]
    async fn flush(&self, stripe: &AtomicU64) {
        let Some(mut write) = BatchWrite::begin(self) else {
            return self.defer(PendingBatch::unpack(stripe.swap(0, Ordering::AcqRel)));
        };
        let batch = PendingBatch::unpack(stripe.swap(0, Ordering::AcqRel));
        if batch.operations == 0 {
            return;
        }
        write.add_batch(batch);
        if self.store.add(&self.slot, batch.net.wrapping_neg(), batch.operations).await.is_ok() {
            write.succeed();
        }
    }

    /// Stores an operation that is too large for a batch.
    #[cold]
    async fn store_single(&self, units: i64) -> Result<(), CounterStoreError> {
        let one = PendingBatch { operations: 1, net: units };
        let Some(mut write) = BatchWrite::begin(self) else {
            self.defer(one);
            return Ok(());
        };
        write.add_batch(one);
        let stored = self.store.add(&self.slot, units.wrapping_neg(), 1).await;
        if stored.is_ok() {
            write.succeed();
        } else {
            write.reject();
            // If it was stored nevertheless, the flusher reverts it.
            self.mark_unresolved(PendingBatch::default());
        }
        stored
    }

    /// Adds operations to the lost ones; the flusher stores them once it knows how many are missing in the store.
    fn defer(&self, batch: PendingBatch) {
        self.in_flight_units.fetch_add(batch.net, Ordering::Relaxed);
        self.mark_unresolved(batch);
    }

    fn mark_unresolved(&self, batch: PendingBatch) {
        let mut unresolved = self.unresolved.lock();
        unresolved.operations += batch.operations;
        unresolved.net += batch.net;
        self.outcome_unknown.store(true, Ordering::SeqCst);
    }

    /// Reads the store to find the outcome of lost flights; returns the missing units, which must be stored again. Does
    /// nothing while other flights are in progress.
    async fn reconcile(&self) -> Result<Option<BatchWrite<'_, S>>, CounterStoreError> {
        if !self.is_outcome_unknown() || self.in_flight.load(Ordering::SeqCst) > 0 {
            return Ok(None);
        }
        let has = self.store.read(&self.slot).await?;
        let known = self.initial_value.wrapping_sub(self.stored.load(Ordering::Relaxed));
        let left = self.resolve(known.wrapping_sub(has));
        Ok((left.net != 0).then(|| BatchWrite::retry(self, left)))
    }

    fn is_outcome_unknown(&self) -> bool {
        self.outcome_unknown.load(Ordering::SeqCst)
    }

    /// Records that `net` units of the lost ones are in the store; returns the rest.
    fn resolve(&self, net: i64) -> PendingBatch {
        let mut unresolved = self.unresolved.lock();
        self.stored.fetch_add(net, Ordering::Relaxed);
        self.in_flight_units.fetch_sub(net, Ordering::Relaxed);
        self.outcome_unknown.store(false, Ordering::SeqCst);
        let PendingBatch { operations, net: all } = std::mem::take(&mut *unresolved);
        PendingBatch { operations, net: all - net }
    }

    /// Begins flights with the pending and the lost operations of each counter.
    async fn begin_writes(counters: &[Arc<Self>]) -> Result<Vec<BatchWrite<'_, S>>, CounterStoreError> {
        let mut in_flight = Vec::new();
        for counter in counters {
            in_flight.extend(counter.reconcile().await?);
            for stripe in counter.stripes.iter().filter(|stripe| stripe.load(Ordering::Relaxed) != 0) {
                let Some(mut write) = BatchWrite::begin(counter) else { break };
                let batch = PendingBatch::unpack(stripe.swap(0, Ordering::AcqRel));
                if batch.operations > 0 {
                    write.add_batch(batch);
                    in_flight.push(write);
                }
            }
        }
        Ok(in_flight)
    }
}

impl<S: CounterStore> Counter<S> for BatchCounter<S> {
    type Options = BatchOptions;
    type OptionsError = BatchOptionsError;

    fn check(options: &BatchOptions) -> Result<(), BatchOptionsError> {
        let BatchOptions { size, interval } = *options;
        if !(1..=BATCH_MAX).contains(&size) {
            return Err(BatchOptionsError::Size { size });
        }
        if !(Duration::from_micros(100)..=Duration::from_mins(1)).contains(&interval) {
            return Err(BatchOptionsError::Interval { interval });
        }
        Ok(())
    }

    fn open(backend: &Backend<S>, options: &BatchOptions, slot: Slot) -> Self {
        let stripe_selector = backend.stripe_selector().clone();
        Self {
            stripes: (0..=stripe_selector.schedulers()).map(|_| CachePadded::default()).collect(),
            stripe_selector,
            in_flight_units: AtomicI64::new(0),
            in_flight: AtomicU64::new(0),
            initial_value: slot.value(),
            stored: AtomicI64::new(0),
            outcome_unknown: AtomicBool::new(false),
            unresolved: Mutex::default(),
            size: options.size,
            slot,
            store: Arc::clone(backend.store()),
        }
    }

    /// Completes when the operation is in a batch. The call that fills a batch waits until the batch is stored, or
    /// until the store has refused it and the flusher takes it over.
    #[inline]
    async fn update(&self, units: i64) -> Result<Admission, CounterStoreError> {
        if units.unsigned_abs() > UNITS_MAX {
            self.store_single(units).await?;
            return Ok(Admission::Granted);
        }
        let stripe = self.stripe();
        let one = PendingBatch { operations: 1, net: units }.pack();
        let before = PendingBatch::unpack(stripe.fetch_add(one, Ordering::AcqRel));
        // This call fills the batch; calls during the flush begin the next. The operation counts whatever the outcome.
        if before.operations + 1 >= self.size {
            self.flush(stripe).await;
        }
        Ok(Admission::Granted)
    }

    fn value(&self) -> i64 {
        let pending: i64 =
            self.stripes.iter().map(|stripe| PendingBatch::unpack(stripe.load(Ordering::Relaxed)).net).sum();
        self.slot.value() - pending - self.in_flight_units.load(Ordering::Relaxed)
    }

    fn interval(options: &BatchOptions) -> Option<Duration> {
        Some(options.interval)
    }

    async fn maintain(
        backend: &Backend<S>,
        _: &BatchOptions,
        counters: &[Arc<Self>],
        last: bool,
    ) -> Result<(), CounterStoreError> {
        loop {
            let in_flight = Self::begin_writes(counters).await?;
            if !in_flight.is_empty() {
                let change = |write: &BatchWrite<'_, S>| Change {
                    slot: write.counter.slot.clone(),
                    units: write.batch.net.wrapping_neg(),
                    events: write.batch.operations,
                };
                backend.store().commit(in_flight.iter().map(change).collect()).await?;
                in_flight.into_iter().for_each(BatchWrite::succeed);
            }
            if !last || !counters.iter().any(|counter| counter.is_outcome_unknown()) {
                return Ok(());
            }
            // Other flights are in progress.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_words_of_a_batch_add_up(units in prop::collection::vec(-UNITS_MAX.cast_signed()..=UNITS_MAX.cast_signed(), 0..300)) {
            let sum = units.iter().fold(0_u64, |word, net| word.wrapping_add(PendingBatch { operations: 1, net: *net }.pack()));

            let expected = PendingBatch { operations: units.len() as u64, net: units.iter().sum() };
            prop_assert_eq!(PendingBatch::unpack(sum), expected);
        }
    }
}
