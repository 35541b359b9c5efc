//! Counters that many processes change at once, what they store of it and when; and rate limiters.
//!
//! ```text
//!   process ── update ──▶ Counter: vsa, atomic, batch, crdt, bucket ──▶ CounterStore: memory, with a delay, redb
//!                            ▲                                            ▲
//!                            └─ Counters: one for each key ── keeper, every interval ─┘
//!
//!   process ── acquire ──▶ Limiter, KeyedLimiter: no store, no keeper
//! ```
//!
//! | Variant | An operation costs | and stores |
//! |---|---|---|
//! | [`Vsa`] | 3 ns, no shared cache line | the net change, past a threshold or an age |
//! | [`Atomic`] | a call of the store | itself |
//! | [`Batch`] | 7 ns, and a call for each batch | itself, with others |
//! | [`Crdt`] | a call of the store | itself, and merges |
//! | [`Bucket`] | two calls of the store | what its bucket holds |
//!
//! Units that are *taken* are positive and make the value less; those that are *given* are negative. Invariant of all: what
//! was there at the start, less what is stored since, less what is not stored yet, is the truth.
//!
//! ```
//! use rusm_runtime::counter::{CommitOptions, Counters, MemoryStore, Vsa};
//! use rusm_runtime::{Config, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let stock = Counters::<Vsa, MemoryStore>::start(&runtime, MemoryStore::new(), CommitOptions::balanced())?;
//! let apples = stock.counter("apples", 100)?;
//! let buyer = {
//!     let apples = apples.clone();
//!     runtime.spawn(move |_| async move { assert!(apples.try_consume(3)) })?
//! };
//! runtime.wait(buyer);
//! assert_eq!(apples.available(), 97);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The page about them, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/counters.md")]
struct Page;

mod bucket;
mod cadence;
mod coarse_clock;
mod crdt;
mod delayed_store;
mod gcra;
mod ground;
mod keeper;
mod limiter;
mod plain;
#[cfg(feature = "store")]
mod redb_store;
mod store;
mod stripes;
// Not in the file itself, which the models compile over other atomics.
#[cfg(test)]
mod stripes_tests;
mod vsa;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub use bucket::{Bucket, BucketKind, BucketOptions};
pub use cadence::{CommitOptions, CommitOptionsError};
pub use crdt::{Crdt, CrdtOptions, CrdtOptionsError, REPLICAS_MAX};
pub use delayed_store::{AchievedDelay, DelayedStore};
pub use gcra::{Quota, QuotaError};
pub use ground::Ground;
pub use keeper::{Counters, CountersError};
pub use limiter::{AcquireError, KeyedLimiter, Limiter};
pub use plain::{Atomic, BATCH_MAX, Batch, BatchOptions, BatchOptionsError};
#[cfg(feature = "store")]
pub use redb_store::{CommitDurability, RedbStore};
pub use store::{Account, Change, CounterStore, KEY_MAX_BYTES, MemoryStore, Slot, StoreError};
pub use vsa::{State, Vsa};

/// A variant of counters over a store.
pub trait Counter<S: CounterStore>: fmt::Debug + Send + Sync + Sized + 'static {
    /// What can be set about it.
    type Options: Clone + Send + Sync + 'static;
    /// Why options are refused.
    type OptionsError: std::error::Error + Send + Sync + 'static;

    /// Whether options go together.
    ///
    /// # Errors
    /// For the first thing that is wrong.
    fn check(options: &Self::Options) -> Result<(), Self::OptionsError>;

    /// A counter whose value lies in `slot`; use [`Counters::counter`].
    fn open(ground: &Ground<S>, options: &Self::Options, slot: Slot) -> Self;

    /// Takes units; negative ones are given.
    fn update(&self, units: i64) -> impl Future<Output = Result<Admission, StoreError>> + Send;

    /// The same in the name of a worker, for variants to which that matters.
    fn update_by(&self, worker: usize, units: i64) -> impl Future<Output = Result<Admission, StoreError>> + Send {
        let _ = worker;
        self.update(units)
    }

    /// The truth, as far as it is known here and now.
    fn value(&self) -> i64;

    /// The time between two calls of [`tend`](Self::tend); `None` if there is nothing to tend.
    fn interval(options: &Self::Options) -> Option<Duration> {
        let _ = options;
        None
    }

    /// Does what is due for all counters of a set, and everything if it is the `last` time.
    ///
    /// # Errors
    /// As the store says; what could not be stored is tried again.
    fn tend(
        ground: &Ground<S>,
        options: &Self::Options,
        counters: &[Arc<Self>],
        last: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = (ground, options, counters, last);
        std::future::ready(Ok(()))
    }
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It was done.
    Granted,
    /// It was not: a limit is reached.
    Denied,
}

/// Nothing can be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoOptions;

/// No options are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OptionsNever {}

/// The value of a future that is ready at once.
#[cfg(test)]
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("memory answers at once"),
    }
}
