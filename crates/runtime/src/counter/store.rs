//! Counter stores: the interface, and a store in memory.
//!
//! ```text
//!   counter ──▶ CounterStore: read, add, set one key · commit many keys at once ──▶ Slot: value, account of calls
//! ```
//!
//! Every method except [`CounterStore::slot`] is one counted call of the store; written values are counted, too.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use thiserror::Error;

/// Length of the longest key, in bytes.
pub const KEY_MAX_BYTES: usize = 1_024;

/// Stores the values of counters.
pub trait CounterStore: Send + Sync + fmt::Debug + 'static {
    /// Returns the slot of a key; creates it with `initial` if it does not exist.
    ///
    /// # Errors
    /// [`CounterStoreError::Key`] if the key is not valid.
    fn slot(&self, key: &str, initial: i64) -> Result<Slot, CounterStoreError>;

    /// Reads a value.
    fn read(&self, slot: &Slot) -> impl Future<Output = Result<i64, CounterStoreError>> + Send;

    /// Adds units, which are the sum of `events` events.
    fn add(&self, slot: &Slot, units: i64, events: u64) -> impl Future<Output = Result<(), CounterStoreError>> + Send;

    /// Sets a value.
    fn set(&self, slot: &Slot, value: i64) -> impl Future<Output = Result<(), CounterStoreError>> + Send;

    /// Applies all changes or none.
    fn commit(&self, changes: Vec<Change>) -> impl Future<Output = Result<(), CounterStoreError>> + Send;

    /// Returns the number of calls by kind since the store was created.
    fn account(&self) -> StoreAccount;
}

/// Units to add to a value.
#[derive(Clone, Debug)]
pub struct Change {
    /// Slot of the value.
    pub slot: Slot,
    /// Units to add.
    pub units: i64,
    /// Number of events that the units represent; a net change counts as one.
    pub events: u64,
}

/// Error returned by a store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CounterStoreError {
    /// Use a key of 1 to 1,024 bytes.
    #[error("a key of {bytes} bytes is not between 1 and {KEY_MAX_BYTES} bytes long")]
    Key {
        /// Length given.
        bytes: usize,
    },
    /// Two sets of counters would each grant the same units: use the counter of the other set, or stop that set.
    #[error("the key {key:?} is in use by another set of counters")]
    InUse {
        /// Key of the counter.
        key: String,
    },
    /// The storage failed; the text is its error.
    #[error("{0}")]
    Storage(String),
    /// The store is closed.
    #[error("the counter store is closed")]
    Closed,
}

/// Numbers of calls of a store; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreAccount {
    /// Number of values read, one per call.
    pub reads: u64,
    /// Number of calls that write.
    pub write_calls: u64,
    /// Number of values written, one or more per call.
    pub rows: u64,
    /// Number of events written: a batch is one row with many events.
    pub events: u64,
}

impl StoreAccount {
    /// Returns the number of all calls.
    pub const fn calls(&self) -> u64 {
        self.reads + self.write_calls
    }

    /// Returns the difference from an earlier account.
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            write_calls: self.write_calls - earlier.write_calls,
            rows: self.rows - earlier.rows,
            events: self.events - earlier.events,
        }
    }
}

/// The entry of a key in a store; clones refer to the same entry.
#[derive(Clone)]
pub struct Slot(
    Arc<CachePadded<SlotCell>>,
    #[expect(dead_code, reason = "frees the claim on drop")] Option<Arc<SlotClaim>>,
);

/// The exclusive right of one set of counters to use a key.
struct SlotClaim(Arc<CachePadded<SlotCell>>);

impl Drop for SlotClaim {
    fn drop(&mut self) {
        self.0.is_claimed.store(false, Ordering::Release);
    }
}

struct SlotCell {
    is_claimed: AtomicBool,
    value: AtomicI64,
    reads: AtomicU64,
    /// Number of writes of one event.
    single_writes: AtomicU64,
    /// Number of writes of this key alone with several events or none.
    batch_writes: AtomicU64,
    events: AtomicU64,
    key: Arc<str>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({}: {})", self.key(), self.value())
    }
}

impl Slot {
    fn new(key: Arc<str>, value: i64) -> Self {
        let cell = SlotCell {
            is_claimed: AtomicBool::new(false),
            value: AtomicI64::new(value),
            reads: AtomicU64::new(0),
            single_writes: AtomicU64::new(0),
            batch_writes: AtomicU64::new(0),
            events: AtomicU64::new(0),
            key,
        };
        Self(Arc::new(CachePadded::new(cell)), None)
    }

    /// Claims the entry for one set of counters, until the returned slot and all its clones are dropped.
    pub(super) fn claim(&self) -> Result<Self, CounterStoreError> {
        if self.0.is_claimed.swap(true, Ordering::Acquire) {
            return Err(CounterStoreError::InUse { key: self.key().to_owned() });
        }
        Ok(Self(Arc::clone(&self.0), Some(Arc::new(SlotClaim(Arc::clone(&self.0))))))
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Returns the key, shared.
    pub fn shared_key(&self) -> Arc<str> {
        Arc::clone(&self.0.key)
    }

    /// Returns the value as stored now; does not count as a call.
    #[inline]
    pub fn value(&self) -> i64 {
        self.0.value.load(Ordering::Acquire)
    }

    /// Adds to the value.
    #[inline]
    pub fn add(&self, units: i64) {
        self.0.value.fetch_add(units, Ordering::Release);
    }

    /// Sets the value.
    #[inline]
    pub fn set(&self, value: i64) {
        self.0.value.store(value, Ordering::Release);
    }

    /// Counts a read.
    #[inline]
    pub fn count_read(&self) {
        // Relaxed, here and below: these counts are only summed.
        self.0.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a write of this key alone.
    #[inline]
    pub fn count_write(&self, events: u64) {
        if events == 1 {
            self.0.single_writes.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.batch_writes.fetch_add(1, Ordering::Relaxed);
            self.0.events.fetch_add(events, Ordering::Relaxed);
        }
    }
}

/// The slots of all keys, and the counts of calls.
#[derive(Debug, Default)]
pub struct SlotTable {
    by_key: RwLock<FxHashMap<Arc<str>, Slot>>,
    /// Number of commits of many keys, and the rows and events they wrote.
    commits: AtomicU64,
    commit_rows: AtomicU64,
    commit_events: AtomicU64,
}

impl SlotTable {
    /// Returns the entry of a key, if there is one.
    pub fn find(&self, key: &str) -> Option<Slot> {
        self.by_key.read().get(key).cloned()
    }

    /// Returns the entry of a key, and creates it with an initial value.
    ///
    /// # Errors
    /// [`CounterStoreError::Key`] if the key is empty or too long.
    pub fn slot(&self, key: &str, initial: i64) -> Result<Slot, CounterStoreError> {
        if key.is_empty() || key.len() > KEY_MAX_BYTES {
            return Err(CounterStoreError::Key { bytes: key.len() });
        }
        if let Some(slot) = self.by_key.read().get(key) {
            return Ok(slot.clone());
        }
        let key: Arc<str> = key.into();
        let mut by_key = self.by_key.write();
        Ok(by_key.entry(Arc::clone(&key)).or_insert_with(|| Slot::new(key, initial)).clone())
    }

    /// Counts a commit of many keys.
    pub fn count_commit(&self, changes: &[Change]) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_rows.fetch_add(changes.len() as u64, Ordering::Relaxed);
        self.commit_events.fetch_add(changes.iter().map(|change| change.events).sum(), Ordering::Relaxed);
    }

    /// Returns the number of calls, rows and events until now.
    pub fn account(&self) -> StoreAccount {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let zero = StoreAccount {
            reads: 0,
            write_calls: load(&self.commits),
            rows: load(&self.commit_rows),
            events: load(&self.commit_events),
        };
        self.by_key.read().values().fold(zero, |sum, slot| {
            let (single_writes, batch_writes) = (load(&slot.0.single_writes), load(&slot.0.batch_writes));
            StoreAccount {
                reads: sum.reads + load(&slot.0.reads),
                write_calls: sum.write_calls + single_writes + batch_writes,
                rows: sum.rows + single_writes + batch_writes,
                events: sum.events + single_writes + load(&slot.0.events),
            }
        })
    }
}

/// A store in memory: for counters that may be lost, and as the baseline without storage costs.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::sync::Arc;
///
/// use rusm::counter::{CommitOptions, CounterStore, Counters, MemoryStore, Vsa};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let store = Arc::new(MemoryStore::new());
/// let stock = Counters::<Vsa, _>::with_store(&runtime, Arc::clone(&store), CommitOptions::balanced())?;
/// stock.counter("apples", 100)?.add(30);
/// runtime.block_on(move |_| async move { stock.flush().await })?;
/// assert_eq!(store.slot("apples", 0)?.value(), 70);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore(SlotTable);

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl CounterStore for MemoryStore {
    fn slot(&self, key: &str, initial: i64) -> Result<Slot, CounterStoreError> {
        self.0.slot(key, initial)
    }

    #[inline]
    async fn read(&self, slot: &Slot) -> Result<i64, CounterStoreError> {
        slot.count_read();
        Ok(slot.value())
    }

    #[inline]
    async fn add(&self, slot: &Slot, units: i64, events: u64) -> Result<(), CounterStoreError> {
        slot.count_write(events);
        slot.add(units);
        Ok(())
    }

    #[inline]
    async fn set(&self, slot: &Slot, value: i64) -> Result<(), CounterStoreError> {
        slot.count_write(1);
        slot.set(value);
        Ok(())
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<(), CounterStoreError> {
        self.0.count_commit(&changes);
        for change in &changes {
            change.slot.add(change.units);
        }
        Ok(())
    }

    fn account(&self) -> StoreAccount {
        self.0.account()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::now;

    #[test]
    fn calls_rows_and_events_are_counted_apart() {
        let store = MemoryStore::new();
        let [a, b] = ["a", "b"].map(|key| store.slot(key, 10).unwrap());

        assert_eq!(now(store.read(&a)), Ok(10));
        assert_eq!(now(store.add(&a, 5, 1)), Ok(()));
        assert_eq!(now(store.add(&b, -5, 64)), Ok(()));
        let changes =
            vec![Change { slot: a.clone(), units: 1, events: 1 }, Change { slot: b.clone(), units: 1, events: 3 }];
        assert_eq!(now(store.commit(changes)), Ok(()));

        assert_eq!((a.value(), store.slot("b", 99).unwrap().value()), (16, 6));
        assert_eq!(store.account(), StoreAccount { reads: 1, write_calls: 3, rows: 4, events: 1 + 64 + 4 });
    }

    #[test]
    fn keys_of_no_use_are_refused() {
        let store = MemoryStore::new();
        let long = "x".repeat(KEY_MAX_BYTES + 1);

        assert_eq!(
            store.slot(&long, 0).unwrap_err().to_string(),
            "a key of 1025 bytes is not between 1 and 1024 bytes long"
        );
        assert!(store.slot("", 0).is_err());
    }
}
