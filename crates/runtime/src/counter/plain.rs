//! Counters that store every operation: the atomic, alone and in batches.
//!
//! ```text
//!   Atomic: operation ──▶ add to the store, counted as on its way meanwhile ──▶ done
//!   Batch:  operation ──▶ lane: (operations, net) ── full? ──▶ one add to the store ──▶ done
//!                            └ keeper, every interval ──▶ one commit of all lanes that have anything
//! ```
//!
//! A process may be killed while the store does what it asked for, and a store may fail after it has done it: then nobody knows
//! whether it was done. What has its end in doubt is kept apart, and the keeper asks the store before it stores it once more.

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

/// A counter whose every operation is stored before it is done.
pub struct Atomic<S> {
    /// Units that the store has been asked for and has not answered.
    flying: CachePadded<AtomicI64>,
    slot: Slot,
    store: Arc<S>,
}

/// Units of an operation that waits for the store, for as long as its process does: the slot says what came of it.
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
        // A store that answers at once is asked and done.
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

/// How many operations make a batch, and how long one waits for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Operations of a batch, 1 to 65,536. Default 64; more means fewer calls of the store, and more that a crash loses.
    pub size: u64,
    /// After so long a batch is stored as it is, 100 µs to a minute. Default 10 ms.
    pub interval: Duration,
}

/// Why options were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BatchOptionsError {
    /// Use a size in the range.
    #[error("batch size of {size} is not between 1 and {BATCH_MAX}")]
    Size {
        /// The size given.
        size: u64,
    },
    /// Use an interval in the range.
    #[error("batch interval of {interval:?} is not between 100µs and 60s")]
    Interval {
        /// The interval given.
        interval: Duration,
    },
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self { size: 64, interval: Duration::from_millis(10) }
    }
}

/// The most operations of a batch.
pub const BATCH_MAX: u64 = 1 << 16;
/// What does not fit into a batch beside others is stored by itself.
const UNITS_MAX: u64 = 1 << 20;
const NET_BITS: u32 = 40;

/// Operations that were not stored yet, and what they come to, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pending {
    operations: u64,
    net: i64,
}

impl Pending {
    /// Words add up as what they stand for does.
    const fn word(self) -> u64 {
        (self.operations << NET_BITS).wrapping_add(self.net.cast_unsigned())
    }

    const fn of(word: u64) -> Self {
        let unused = u64::BITS - NET_BITS;
        let net = (word << unused).cast_signed() >> unused;
        Self { operations: word.wrapping_sub(net.cast_unsigned()) >> NET_BITS, net }
    }
}

/// A counter whose operations are stored by the batch.
pub struct Batch<S> {
    home: Home,
    lanes: Box<[CachePadded<AtomicU64>]>,
    /// What is on its way to the store, or was and nobody knows whether it has come there.
    flying: AtomicI64,
    flights: AtomicU64,
    opened_at: i64,
    /// What the store is known to have got since.
    stored: AtomicI64,
    /// Whether a flight failed, or its process ended in the middle of it. No other begins then, until the store was asked.
    unsure: AtomicBool,
    lost: Mutex<Pending>,
    size: u64,
    slot: Slot,
    store: Arc<S>,
}

/// Operations on their way to the store.
struct Flight<'a, S: CounterStore> {
    counter: &'a Batch<S>,
    batch: Pending,
    has_ended: bool,
}

impl<'a, S: CounterStore> Flight<'a, S> {
    /// None while it is not known what became of another one.
    fn begin(counter: &'a Batch<S>) -> Option<Self> {
        let flight = Self::boards(counter);
        // Whoever asks the store sees that there is a flight, or this sees that somebody is to ask it.
        (!counter.is_unsure()).then_some(flight)
    }

    fn boards(counter: &'a Batch<S>) -> Self {
        counter.flights.fetch_add(1, Ordering::SeqCst);
        Self { counter, batch: Pending::default(), has_ended: true }
    }

    /// With what the store turned out not to have, which counts as flying already.
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

    /// The store has refused it, and whoever asked for it is told so.
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

    /// Stores what a lane has; what the store refuses, or while it is to be asked first, is left to the keeper.
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
            // Should it be there all the same, the keeper takes it back.
            self.lose(Pending::default());
        }
        stored
    }

    /// Puts operations to those that are lost, which the keeper stores as soon as it knows how many of them are.
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

    /// Asks the store what it has of flights whose end nobody has seen; gives the rest, which is to be stored once more. While
    /// other flights are under way it stays unsure.
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

    /// So much of what was lost is in the store; gives the rest.
    fn find(&self, net: i64) -> Pending {
        let mut lost = self.lost.lock();
        self.stored.fetch_add(net, Ordering::Relaxed);
        self.flying.fetch_sub(net, Ordering::Relaxed);
        self.unsure.store(false, Ordering::SeqCst);
        let Pending { operations, net: all } = std::mem::take(&mut *lost);
        Pending { operations, net: all - net }
    }

    /// Takes off with what each counter has, and with what was lost of it.
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

    /// Done when it is in a batch; who fills one waits until it is stored, or the store has refused it and the keeper has it.
    #[inline]
    async fn update(&self, units: i64) -> Result<Admission, StoreError> {
        if units.unsigned_abs() > UNITS_MAX {
            self.store_alone(units).await?;
            return Ok(Admission::Granted);
        }
        let lane = self.lane();
        let one = Pending { operations: 1, net: units }.word();
        let before = Pending::of(lane.fetch_add(one, Ordering::AcqRel));
        // The one that fills it; those who come while it is stored begin the next. It is counted whatever becomes of the batch.
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
            // Other flights are under way.
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
