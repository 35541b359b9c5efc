//! Counters in a bucket of a store.
//!
//! ```text
//!   call ──▶ queue of the store ──▶ one commit for all waiting calls ──▶ the value in memory ──▶ answer
//! ```
//!
//! Values are read from memory, and written as they will be after the commit. A call that returned success is committed
//! with its [`Durability`]. If a failure of the disk undoes commits that were not durable, the next commit writes all
//! values again, so memory and file never differ for longer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use rusm_runtime::counter::{self, Change, CounterStore, Slot, SlotTable, StoreAccount};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use super::buckets::BucketState;
use super::claim::Claim;
use super::config::Durability;
use super::core::Core;
use super::error::StoreError;
use super::store::{Bucket, Store};
use super::writer::group::Group;
use super::writer::work::{Request, Work};
use super::writer::write::Write;

/// Number of rows per page while the counters are read.
const PAGE_ROWS: usize = 1000;
/// Size of a value in the file, in bytes.
const VALUE_BYTES: usize = size_of::<i64>();

/// A counter store in a bucket.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// use rusm::counter::{CommitOptions, Counters, Vsa};
/// use rusm::{Config, Runtime};
/// use rusm::store::{Durability, DurableCounters, Store, StoreConfig};
///
/// let runtime = Runtime::start(Config::default())?;
/// let store = Store::open(&path, StoreConfig::default())?;
/// let kept = DurableCounters::open(&store, "tickets", Durability::Immediate)?;
/// let tickets = Counters::<Vsa, DurableCounters>::start(&runtime, kept, CommitOptions::balanced())?;
/// let concert = tickets.counter("concert", 500)?;
/// assert!(concert.try_consume(2));
/// assert_eq!(concert.available(), 498);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DurableCounters {
    store: Store,
    durability: Durability,
    shared: Arc<Shared>,
}

impl fmt::Debug for DurableCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableCounters").field("durability", &self.durability).finish_non_exhaustive()
    }
}

/// State shared with the writes in flight.
struct Shared {
    core: Arc<Core>,
    bucket: Arc<BucketState>,
    entries: SlotTable,
    written: Mutex<Written>,
    _claim: Claim,
}

/// Used by the writer thread of the store only.
#[derive(Default)]
struct Written {
    /// Values of the commit under construction.
    pending: FxHashMap<Arc<str>, i64>,
    /// All counters that were ever written through this handle.
    slots: FxHashMap<Arc<str>, Slot>,
    /// Number of failures of the store that are accounted for.
    failures: u64,
}

impl DurableCounters {
    /// Opens the counters of a bucket. Blocks until all are read, so it must not be called from a process.
    ///
    /// # Errors
    /// [`counter::CounterStoreError`] if the bucket cannot be read, holds other values, or its counters are open already, or
    /// if its name is not valid.
    pub fn open(store: &Store, bucket: &str, durability: Durability) -> Result<Self, counter::CounterStoreError> {
        let bucket = store.bucket(bucket).map_err(failed)?;
        let claim = store.claim(&format!("counters/{}", bucket.name())).ok_or_else(|| {
            counter::CounterStoreError::Storage(format!("the counters of bucket {:?} are open already", bucket.name()))
        })?;
        let shared = Shared {
            core: Arc::clone(&store.0.core),
            bucket: Arc::clone(&bucket.state),
            entries: SlotTable::default(),
            written: Mutex::default(),
            _claim: claim,
        };
        shared.load(&bucket)?;
        shared.written.lock().failures = shared.core.counters.failures.load(Relaxed);
        Ok(Self { store: store.clone(), durability, shared: Arc::new(shared) })
    }

    /// Returns the store.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    async fn ask(&self, change: Updated) -> Result<(), counter::CounterStoreError> {
        let (reply, replied) = oneshot::channel();
        let bytes = match &change {
            Updated::Set(slot, _) => slot.key().len() + VALUE_BYTES,
            Updated::Add(changes) => changes.iter().map(|change| change.slot.key().len() + VALUE_BYTES).sum(),
        };
        let work = Update { shared: Arc::clone(&self.shared), change, values: Vec::new(), failure: None, reply };
        let request = Request {
            work: Box::new(work),
            durability: self.durability,
            bytes,
            is_maintenance: false,
            uses_reserve: false,
        };
        Write::new(Arc::clone(&self.shared.core), request, replied).await.map_err(failed)
    }
}

impl Shared {
    fn load(&self, bucket: &Bucket) -> Result<(), counter::CounterStoreError> {
        let mut after = bytes::Bytes::new();
        loop {
            let page = bucket.scan([], &after, PAGE_ROWS).wait().map_err(failed)?;
            for row in &page.rows {
                let (Ok(key), Ok(value)) = (std::str::from_utf8(&row.key), <[u8; VALUE_BYTES]>::try_from(&*row.value))
                else {
                    let what =
                        format!("the row {} of bucket {:?} is not a counter", row.key.escape_ascii(), bucket.name());
                    return Err(counter::CounterStoreError::Storage(what));
                };
                self.entries.slot(key, i64::from_be_bytes(value))?;
            }
            match page.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }
}

/// Converts an error of the store to one of counters.
fn failed(error: StoreError) -> counter::CounterStoreError {
    match error {
        StoreError::Closed => counter::CounterStoreError::Closed,
        error => counter::CounterStoreError::Storage(error.to_string()),
    }
}

/// Change that a call requests.
enum Updated {
    Set(Slot, i64),
    Add(Vec<Change>),
}

/// A call in the queue of the store.
struct Update {
    shared: Arc<Shared>,
    change: Updated,
    /// The new values, once they are part of a commit.
    values: Vec<(Slot, i64)>,
    failure: Option<StoreError>,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

impl Update {
    fn write(&mut self, written: &mut Written, group: &mut Group<'_>) -> Result<(), StoreError> {
        let Shared { core, bucket, .. } = &*self.shared;
        let failures = core.counters.failures.load(Relaxed);
        if failures != written.failures {
            for slot in written.slots.values() {
                group.put(bucket, slot.key().as_bytes(), &slot.value().to_be_bytes(), 0)?;
            }
            written.failures = failures;
        }
        let mut put = |slot: &Slot, new: &dyn Fn(i64) -> i64| {
            let old = written.pending.get(slot.key()).copied().unwrap_or_else(|| slot.value());
            let value = new(old);
            group.put(bucket, slot.key().as_bytes(), &value.to_be_bytes(), 0)?;
            written.pending.insert(slot.shared_key(), value);
            self.values.push((slot.clone(), value));
            Ok(())
        };
        match &self.change {
            Updated::Set(slot, value) => put(slot, &|_| *value),
            Updated::Add(changes) => {
                changes.iter().try_for_each(|change| put(&change.slot, &|old| old.wrapping_add(change.units)))
            }
        }
    }
}

impl Work for Update {
    fn apply(&mut self, group: &mut Group<'_>) {
        let shared = Arc::clone(&self.shared);
        self.failure = self.write(&mut shared.written.lock(), group).err();
    }

    fn finish(self: Box<Self>, committed: &Result<(), StoreError>) {
        let outcome = self.failure.map_or_else(|| committed.clone(), Err);
        let mut written = self.shared.written.lock();
        for (slot, value) in self.values {
            // All calls of a commit are applied before the first one is finished.
            written.pending.remove(slot.key());
            if outcome.is_ok() {
                slot.set(value);
                // Not the slot of the call, which claims the key for its set.
                if let Some(slot) = self.shared.entries.find(slot.key()) {
                    written.slots.entry(slot.shared_key()).or_insert(slot);
                }
            }
        }
        drop(written);
        // Its slots claim their keys, which the caller may let another set open at once.
        drop(self.change);
        // The caller may have stopped waiting.
        drop(self.reply.send(outcome));
    }
}

impl CounterStore for DurableCounters {
    fn slot(&self, key: &str, initial: i64) -> Result<Slot, counter::CounterStoreError> {
        self.shared.entries.slot(key, initial)
    }

    async fn read(&self, slot: &Slot) -> Result<i64, counter::CounterStoreError> {
        slot.count_read();
        if self.shared.core.is_closed() { Err(counter::CounterStoreError::Closed) } else { Ok(slot.value()) }
    }

    async fn add(&self, slot: &Slot, units: i64, events: u64) -> Result<(), counter::CounterStoreError> {
        slot.count_write(events);
        self.ask(Updated::Add(vec![Change { slot: slot.clone(), units, events }])).await
    }

    async fn set(&self, slot: &Slot, value: i64) -> Result<(), counter::CounterStoreError> {
        slot.count_write(1);
        self.ask(Updated::Set(slot.clone(), value)).await
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<(), counter::CounterStoreError> {
        self.shared.entries.count_commit(&changes);
        self.ask(Updated::Add(changes)).await
    }

    fn account(&self) -> StoreAccount {
        self.shared.entries.account()
    }
}
