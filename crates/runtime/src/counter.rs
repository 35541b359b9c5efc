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
//! # use rusm_runtime as rusm;
//! use rusm::counter::{CommitOptions, Counters, MemoryStore, Vsa};
//! use rusm::{Config, Runtime};
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
mod variant;
mod vsa;

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
pub use variant::{Admission, Counter, NoOptions, NoOptionsError};
pub use vsa::{Vsa, VsaState};

/// Returns the value of a future that is ready at once.
#[cfg(test)]
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the in-memory store is always ready"),
    }
}
