//! Counters that many processes update at once and that are kept in a store, and rate limiters.
//!
//! ```text
//!   process ── update ──▶ Counter: vsa, atomic, batch, crdt, bucket ──▶ CounterStore: memory, with a delay, redb
//!                            ▲                                            ▲
//!                            └─ Counters: per key ── flusher, periodic ───┘
//!
//!   process ── acquire ──▶ Limiter, KeyedLimiter: no store, no flusher
//! ```
//!
//! | Variant | Cost of an operation | Stored |
//! |---|---|---|
//! | [`Vsa`] | 3 ns, no shared cache line | the net change, past a threshold or an age |
//! | [`AtomicCounter`] | one store call | each operation |
//! | [`BatchCounter`] | 7 ns, and one store call per batch | each operation, in batches |
//! | [`Crdt`] | one store call | each operation, and merges |
//! | [`StoredBucket`] | two store calls | the content of the bucket |
//!
//! Positive units are *taken* and decrease the value; negative units are *given* and increase it. Invariant of all
//! variants: the true value is the value at the start, less the units stored since, less the units not stored yet.
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

mod backend;
mod bucket;
mod coarse_clock;
mod commit_schedule;
mod crdt;
mod delayed_store;
mod flusher;
mod gcra;
mod limiter;
mod plain;
mod store;
mod stripes;
// A separate file, because the models compile `stripes.rs` with other atomics.
#[cfg(test)]
mod stripes_tests;
mod vsa;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub use backend::Backend;
pub use bucket::{BucketKind, BucketOptions, StoredBucket};
pub use commit_schedule::{CommitOptions, CommitOptionsError};
pub use crdt::{Crdt, CrdtOptions, CrdtOptionsError, REPLICAS_MAX};
pub use delayed_store::{AchievedDelay, DelayedStore};
pub use flusher::{Counters, CountersError};
pub use gcra::{Quota, QuotaError};
pub use limiter::{AcquireError, KeyedLimiter, Limiter};
pub use plain::{AtomicCounter, BATCH_MAX, BatchCounter, BatchOptions, BatchOptionsError};
pub use store::{Change, CounterStore, CounterStoreError, KEY_MAX_BYTES, MemoryStore, Slot, SlotTable, StoreAccount};
pub use vsa::{Vsa, VsaState};

/// A variant of counters, on top of a store.
pub trait Counter<S: CounterStore>: fmt::Debug + Send + Sync + Sized + 'static {
    /// Options of the variant.
    type Options: Clone + Send + Sync + 'static;
    /// Error returned for invalid options.
    type OptionsError: std::error::Error + Send + Sync + 'static;

    /// Checks that options are valid.
    ///
    /// # Errors
    /// For the first option that is not valid.
    fn check(options: &Self::Options) -> Result<(), Self::OptionsError>;

    /// Creates a counter with its value in `slot`; applications use [`Counters::counter`].
    fn open(backend: &Backend<S>, options: &Self::Options, slot: Slot) -> Self;

    /// Takes units; negative units are given.
    fn update(&self, units: i64) -> impl Future<Output = Result<Admission, CounterStoreError>> + Send;

    /// Takes units on behalf of a worker, for variants that distinguish workers.
    fn update_by(
        &self,
        worker: usize,
        units: i64,
    ) -> impl Future<Output = Result<Admission, CounterStoreError>> + Send {
        let _ = worker;
        self.update(units)
    }

    /// Returns the true value, as far as this counter knows it at the moment.
    fn value(&self) -> i64;

    /// Returns the time between two calls of [`maintain`](Self::maintain); `None` if the variant needs no calls.
    fn interval(options: &Self::Options) -> Option<Duration> {
        let _ = options;
        None
    }

    /// Does the due work of all counters of a set; the `last` call does all work that is left.
    ///
    /// # Errors
    /// The error of the store. Units that could not be stored are retried.
    fn maintain(
        backend: &Backend<S>,
        options: &Self::Options,
        counters: &[Arc<Self>],
        last: bool,
    ) -> impl Future<Output = Result<(), CounterStoreError>> + Send {
        let _ = (backend, options, counters, last);
        std::future::ready(Ok(()))
    }
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The operation was applied.
    Granted,
    /// The operation was not applied: a limit is reached.
    Denied,
}

/// Options of a variant without options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoOptions;

/// Error that never occurs, for variants without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoOptionsError {}

/// Returns the value of a future that is ready at once.
#[cfg(test)]
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the in-memory store is always ready"),
    }
}
