//! Counters that store every operation: `Atomic` one by one, `Batch` in batches.
//!
//! ```text
//!   Atomic: operation ──▶ add to the store, counted as in flight meanwhile ──▶ done
//!   Batch:  operation ──▶ stripe: (operations, net) ── full? ──▶ one add to the store ──▶ done
//!                            └ keeper, every interval ──▶ one commit of all stripes that are not empty
//! ```
//!
//! A process may be killed during its store call, and a store may fail after it has applied a call: the outcome is then
//! unknown. Operations with an unknown outcome are kept apart, and the keeper reads the store before it stores them
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

use super::ground::{Ground, Home};
use super::store::{Change, CounterStore, Slot, StoreError};
use super::stripes::Lane;
use super::{Admission, Counter, NoOptions, OptionsNever};

/// A counter that stores every operation before the operation completes.
pub struct Atomic<S> {
    /// Units sent to the store and not yet answered.
    flying: CachePadded<AtomicI64>,
    slot: Slot,
    store: Arc<S>,
}

/// Units of an operation that waits for the store. Once it is dropped, the slot alone has the outcome.
struct Flying<'a> {
    all: &'a AtomicI64,
    units: i64,
}

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.units, Ordering::Relaxed);
    }
}

impl<S: CounterStore> fmt::Debug for Atomic<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Atomic").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl<S: CounterStore> Counter<S> for Atomic<S> {
    type Options = NoOptions;
    type OptionsError = OptionsNever;

    fn check(_: &NoOptions) -> Result<(), OptionsNever> {
        Ok(())
    }

    fn open(ground: &Ground<S>, _: &NoOptions, slot: Slot) -> Self {
        Self { flying: CachePadded::default(), slot, store: Arc::clone(ground.store()) }
    }

    #[inline]
    async fn update(&self, units: i64) -> Result<Admission, StoreError> {
        let mut call = pin!(self.store.add(&self.slot, units.wrapping_neg(), 1));
        // A store that answers at once needs no in-flight accounting.
        let mut flying = None;
        let stored = poll_fn(|cx| {
            let stored = call.as_mut().poll(cx);
            if stored.is_pending() && flying.is_none() {
                self.flying.fetch_add(units, Ordering::Relaxed);
                flying = Some(Flying { all: &self.flying, units });
            }
            stored
        });
        stored.await.map(|()| Admission::Granted)
    }

    fn value(&self) -> i64 {
        self.slot.value().wrapping_sub(self.flying.load(Ordering::Relaxed))
    }
}

/// Size of a batch, and the longest time that it waits for more operations.
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
struct Pending {
    operations: u64,
    net: i64,
}

impl Pending {
    /// Words add up: the sum of two words is the word of the two sums.
    const fn word(self) -> u64 {
        (self.operations << NET_BITS).wrapping_add(self.net.cast_unsigned())
    }

    const fn of(word: u64) -> Self {
        let unused = u64::BITS - NET_BITS;
        let net = (word << unused).cast_signed() >> unused;
        Self { operations: word.wrapping_sub(net.cast_unsigned()) >> NET_BITS, net }
    }
}

/// A counter that stores its operations in batches.
pub struct Batch<S> {
    home: Home,
    lanes: Box<[CachePadded<AtomicU64>]>,
    /// Units in flight to the store, or with an unknown outcome.
    flying: AtomicI64,
    flights: AtomicU64,
    opened_at: i64,
    /// Units known to be stored since then.
    stored: AtomicI64,
    /// True after a flight failed or its process ended during it. No other flight begins until the store was read.
    unsure: AtomicBool,
    lost: Mutex<Pending>,
    size: u64,
    slot: Slot,
    store: Arc<S>,
}

/// Operations in flight to the store.
struct Flight<'a, S: CounterStore> {
    counter: &'a Batch<S>,
    batch: Pending,
    has_ended: bool,
}

impl<'a, S: CounterStore> Flight<'a, S> {
    /// Begins a flight; returns `None` while the outcome of another flight is unknown.
    fn begin(counter: &'a Batch<S>) -> Option<Self> {
        let flight = Self::boards(counter);
        // Either the keeper, before it reads the store, sees this flight, or this call sees that the store must be
        // read.
        (!counter.is_unsure()).then_some(flight)
    }

    fn boards(counter: &'a Batch<S>) -> Self {
        counter.flights.fetch_add(1, Ordering::SeqCst);
        Self { counter, batch: Pending::default(), has_ended: true }
    }

    /// Begins a flight with operations that turned out not to be stored; `flying` includes them already.
    fn once_more(counter: &'a Batch<S>, left: Pending) -> Self {
        let mut flight = Self::boards(counter);
        flight.batch = left;
        flight.has_ended = false;
        flight
    }

    fn takes(&mut self, batch: Pending) {
        self.counter.flying.fetch_add(batch.net, Ordering::Relaxed);
        self.batch = batch;
        self.has_ended = false;
    }

    fn landed(mut self) {
        self.counter.stored.fetch_add(self.batch.net, Ordering::Relaxed);
        self.has_ended = true;
    }

    /// Ends a flight that the store has refused; the caller receives the error.
    fn refused(mut self) {
        self.has_ended = true;
    }
}

impl<S: CounterStore> Drop for Flight<'_, S> {
    fn drop(&mut self) {
        if self.has_ended {
            self.counter.flying.fetch_sub(self.batch.net, Ordering::Relaxed);
        } else {
            self.counter.lose(self.batch);
        }
        self.counter.flights.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S: CounterStore> fmt::Debug for Batch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl<S: CounterStore> Batch<S> {
    fn lane(&self) -> &AtomicU64 {
        match self.home.lane() {
            Lane::Own(scheduler) => &self.lanes[scheduler],
            Lane::Shared => &self.lanes[self.lanes.len() - 1],
        }
    }

    /// Stores the operations of a stripe. If the store fails or must be read first, they are left to the keeper.
    #[cold]
    async fn flush(&self, lane: &AtomicU64) {
        let Some(mut flight) = Flight::begin(self) else {
            return self.defer(Pending::of(lane.swap(0, Ordering::AcqRel)));
        };
        let batch = Pending::of(lane.swap(0, Ordering::AcqRel));
        if batch.operations == 0 {
            return;
        }
        flight.takes(batch);
        if self.store.add(&self.slot, batch.net.wrapping_neg(), batch.operations).await.is_ok() {
            flight.landed();
        }
    }

    /// Stores an operation that is too large for a batch.
    #[cold]
    async fn store_alone(&self, units: i64) -> Result<(), StoreError> {
        let one = Pending { operations: 1, net: units };
        let Some(mut flight) = Flight::begin(self) else {
            self.defer(one);
            return Ok(());
        };
        flight.takes(one);
        let stored = self.store.add(&self.slot, units.wrapping_neg(), 1).await;
        if stored.is_ok() {
            flight.landed();
        } else {
            flight.refused();
            // If it was stored nevertheless, the keeper reverts it.
            self.lose(Pending::default());
        }
        stored
    }

    /// Adds operations to the lost ones; the keeper stores them once it knows how many are missing in the store.
    fn defer(&self, batch: Pending) {
        self.flying.fetch_add(batch.net, Ordering::Relaxed);
        self.lose(batch);
    }

    fn lose(&self, batch: Pending) {
        let mut lost = self.lost.lock();
        lost.operations += batch.operations;
        lost.net += batch.net;
        self.unsure.store(true, Ordering::SeqCst);
    }

    /// Reads the store to find the outcome of lost flights; returns the missing units, which must be stored again. Does
    /// nothing while other flights are in progress.
    async fn reconcile(&self) -> Result<Option<Flight<'_, S>>, StoreError> {
        if !self.is_unsure() || self.flights.load(Ordering::SeqCst) > 0 {
            return Ok(None);
        }
        let has = self.store.read(&self.slot).await?;
        let known = self.opened_at.wrapping_sub(self.stored.load(Ordering::Relaxed));
        let left = self.find(known.wrapping_sub(has));
        Ok((left.net != 0).then(|| Flight::once_more(self, left)))
    }

    fn is_unsure(&self) -> bool {
        self.unsure.load(Ordering::SeqCst)
    }

    /// Records that `net` units of the lost ones are in the store; returns the rest.
    fn find(&self, net: i64) -> Pending {
        let mut lost = self.lost.lock();
        self.stored.fetch_add(net, Ordering::Relaxed);
        self.flying.fetch_sub(net, Ordering::Relaxed);
        self.unsure.store(false, Ordering::SeqCst);
        let Pending { operations, net: all } = std::mem::take(&mut *lost);
        Pending { operations, net: all - net }
    }

    /// Begins flights with the pending and the lost operations of each counter.
    async fn take_off(counters: &[Arc<Self>]) -> Result<Vec<Flight<'_, S>>, StoreError> {
        let mut flights = Vec::new();
        for counter in counters {
            flights.extend(counter.reconcile().await?);
            for lane in counter.lanes.iter().filter(|lane| lane.load(Ordering::Relaxed) != 0) {
                let Some(mut flight) = Flight::begin(counter) else { break };
                let batch = Pending::of(lane.swap(0, Ordering::AcqRel));
                if batch.operations > 0 {
                    flight.takes(batch);
                    flights.push(flight);
                }
            }
        }
        Ok(flights)
    }
}

impl<S: CounterStore> Counter<S> for Batch<S> {
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

    fn open(ground: &Ground<S>, options: &BatchOptions, slot: Slot) -> Self {
        let home = ground.home().clone();
        Self {
            lanes: (0..=home.schedulers()).map(|_| CachePadded::default()).collect(),
            home,
            flying: AtomicI64::new(0),
            flights: AtomicU64::new(0),
            opened_at: slot.value(),
            stored: AtomicI64::new(0),
            unsure: AtomicBool::new(false),
            lost: Mutex::default(),
            size: options.size,
            slot,
            store: Arc::clone(ground.store()),
        }
    }

    /// Completes when the operation is in a batch. The call that fills a batch waits until the batch is stored, or
    /// until the store has refused it and the keeper takes it over.
    #[inline]
    async fn update(&self, units: i64) -> Result<Admission, StoreError> {
        if units.unsigned_abs() > UNITS_MAX {
            self.store_alone(units).await?;
            return Ok(Admission::Granted);
        }
        let lane = self.lane();
        let one = Pending { operations: 1, net: units }.word();
        let before = Pending::of(lane.fetch_add(one, Ordering::AcqRel));
        // This call fills the batch; calls during the flush begin the next. The operation counts whatever the outcome.
        if before.operations + 1 >= self.size {
            self.flush(lane).await;
        }
        Ok(Admission::Granted)
    }

    fn value(&self) -> i64 {
        let pending: i64 = self.lanes.iter().map(|lane| Pending::of(lane.load(Ordering::Relaxed)).net).sum();
        self.slot.value() - pending - self.flying.load(Ordering::Relaxed)
    }

    fn interval(options: &BatchOptions) -> Option<Duration> {
        Some(options.interval)
    }

    async fn tend(ground: &Ground<S>, _: &BatchOptions, counters: &[Arc<Self>], last: bool) -> Result<(), StoreError> {
        loop {
            let flights = Self::take_off(counters).await?;
            if !flights.is_empty() {
                let change = |flight: &Flight<'_, S>| Change {
                    slot: flight.counter.slot.clone(),
                    units: flight.batch.net.wrapping_neg(),
                    events: flight.batch.operations,
                };
                ground.store().commit(flights.iter().map(change).collect()).await?;
                flights.into_iter().for_each(Flight::landed);
            }
            if !last || !counters.iter().any(|counter| counter.is_unsure()) {
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
            let sum = units.iter().fold(0_u64, |word, net| word.wrapping_add(Pending { operations: 1, net: *net }.word()));

            let expected = Pending { operations: units.len() as u64, net: units.iter().sum() };
            prop_assert_eq!(Pending::of(sum), expected);
        }
    }
}
