//! Durable stores of a runtime, as observers see them: figures and pages of keys.
//!
//! ```text
//!   store ── attached to a runtime ──▶ Stores ──▶ observers, which request reports and pages of keys
//! ```
//!
//! The core knows nothing else about stores. A report is created on request, and costs nothing otherwise.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// A key-value store that observers can inspect.
pub trait Storage: Any + Send + Sync {
    /// Returns the figures of the store. Must never wait for operations in flight.
    fn report(&self) -> StorageReport;

    /// Returns a page of the keys of a bucket. May read from the disk.
    ///
    /// # Errors
    /// A line of text with the reason.
    fn keys(&self, bucket: &str, query: &KeysQuery) -> Result<KeysPage, String>;

    /// Returns the store itself, for callers that know its type.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Query for a page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysQuery {
    /// Only keys after this one.
    pub after: Vec<u8>,
    /// Only keys with this prefix.
    pub prefix: Vec<u8>,
    /// Largest number of keys.
    pub limit: usize,
    /// Largest number of bytes of each key to return.
    pub key_bytes: usize,
    /// Largest number of bytes of each value to return; 0 returns none.
    pub value_bytes: usize,
}

/// A page of the keys of a bucket, in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysPage {
    /// The keys.
    pub keys: Vec<KeyReport>,
    /// The key after which the next page starts, if there is one.
    pub next: Option<Vec<u8>>,
}

/// A key and the beginning of its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyReport {
    /// First bytes of the key.
    pub key: Vec<u8>,
    /// Length of the whole key, in bytes.
    pub key_bytes: u64,
    /// First bytes of the value.
    pub value: Vec<u8>,
    /// Length of the whole value, in bytes.
    pub value_bytes: u64,
    /// Time until the key expires, if it does.
    pub expires_in: Option<Duration>,
}

/// Figures of a store. Counters that end in `_total` never decrease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageReport {
    /// Path of the store.
    pub path: Arc<str>,
    /// Default durability of an acknowledged write, in a word.
    pub durability: &'static str,
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// Size of the pages of the file that are in memory, in bytes.
    pub cache_bytes: u64,
    /// Number of operations that wait for the writer.
    pub queued: u64,
    /// Number of operations that may wait before further ones are held back (back-pressure).
    pub queue_capacity: u64,
    /// Number of operations sent and not yet acknowledged, including those held back.
    pub waiting: u64,
    /// Number of acknowledged writes; a transaction counts once.
    pub operations_total: u64,
    /// Number of commits.
    pub commits_total: u64,
    /// Number of commits that were durable before they were acknowledged.
    pub durable_commits_total: u64,
    /// Number of syncs of the disk for which an operation waited. With a journal, a thread also syncs the file each
    /// time that one side of the journal is full; this is not counted.
    pub syncs_total: u64,
    /// Time spent in these syncs.
    pub sync_time: Duration,
    /// Number of keys looked up and pages scanned.
    pub reads_total: u64,
    /// Number of disk reads that took longer than a scheduler should wait.
    pub slow_reads_total: u64,
    /// Number of keys removed because they had expired.
    pub expired_total: u64,
    /// Number of failed commits.
    pub failures_total: u64,
    /// Number of acknowledged operations of weaker durability that a failure has undone.
    pub undone_total: u64,
    /// The last error.
    pub last_error: Option<Arc<str>>,
    /// True if the store can be used now.
    pub is_open: bool,
    /// Buckets of the store, by name.
    pub buckets: Vec<BucketReport>,
}

/// Figures of one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketReport {
    /// Name of the bucket.
    pub name: Arc<str>,
    /// Number of keys, including expired ones that are not removed yet.
    pub keys: u64,
    /// Number of bytes of keys and values.
    pub bytes: u64,
    /// Number of keys looked up and pages scanned.
    pub reads_total: u64,
    /// Number of keys written or deleted.
    pub writes_total: u64,
}

/// Stores of a runtime.
#[derive(Default)]
pub(crate) struct Stores(Mutex<Vec<RegisteredStore>>);

/// A store that observers see.
struct RegisteredStore {
    store: Arc<dyn Storage>,
    /// True if the processes of the runtime may use it.
    is_own: bool,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Stores {
    /// Shows a store to observers, at most once. With `is_own`, processes of the runtime may use it.
    pub(crate) fn show(&self, store: Arc<dyn Storage>, is_own: bool) {
        let mut stores = self.0.lock();
        match stores.iter_mut().find(|entry| Arc::ptr_eq(&entry.store, &store)) {
            Some(entry) => entry.is_own |= is_own,
            None => stores.push(RegisteredStore { store, is_own }),
        }
    }

    /// Hides a store from observers and processes.
    pub(crate) fn hide(&self, store: &Arc<dyn Storage>) {
        self.0.lock().retain(|entry| !Arc::ptr_eq(&entry.store, store));
    }

    /// Returns the first store of the runtime that its processes may use.
    pub(crate) fn own(&self) -> Option<Arc<dyn Storage>> {
        self.0.lock().iter().find(|entry| entry.is_own).map(|entry| Arc::clone(&entry.store))
    }

    /// Returns the store at an index, in the order in which they were shown.
    pub(super) fn at(&self, index: usize) -> Option<Arc<dyn Storage>> {
        self.0.lock().get(index).map(|entry| Arc::clone(&entry.store))
    }

    pub(super) fn all(&self) -> Vec<Arc<dyn Storage>> {
        self.0.lock().iter().map(|entry| Arc::clone(&entry.store)).collect()
    }
}
