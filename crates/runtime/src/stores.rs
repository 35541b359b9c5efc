//! Durable stores that a runtime's processes share, as observers see them: figures, and a look at what is inside.
//!
//! ```text
//!   store ── attached to a runtime ──▶ Stores ──▶ observers, who ask for reports and pages of keys
//! ```
//!
//! The core knows nothing about them beyond this. A report is made when somebody asks, and costs nothing otherwise.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::handle::Handle;

/// Something that keeps keys and values.
pub trait Storage: Any + Send + Sync {
    /// How it does; must never wait for what is under way.
    fn report(&self) -> StorageReport;

    /// A page of the keys of a bucket; may read from the disk.
    ///
    /// # Errors
    /// A line that says why there is none.
    fn keys(&self, bucket: &str, wish: &KeysWish) -> Result<KeysPage, String>;

    /// The store itself, for those who know its type.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Which keys to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysWish {
    /// Those that come after this one.
    pub after: Vec<u8>,
    /// Those that begin with this.
    pub prefix: Vec<u8>,
    /// At most so many.
    pub limit: usize,
    /// At most so many bytes of each key.
    pub key_bytes: usize,
    /// At most so many bytes of each value; 0 shows none.
    pub value_bytes: usize,
}

/// Some keys of a bucket, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysPage {
    /// The keys.
    pub keys: Vec<KeyReport>,
    /// The key to go on after, if there is more.
    pub next: Option<Vec<u8>>,
}

/// One key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyReport {
    /// Its first bytes.
    pub key: Vec<u8>,
    /// How many bytes it has.
    pub key_bytes: u64,
    /// The first bytes of its value.
    pub value: Vec<u8>,
    /// How many bytes the value has.
    pub value_bytes: u64,
    /// How long until it expires, if it does.
    pub expires_in: Option<Duration>,
}

/// How a store does; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageReport {
    /// Where it is.
    pub path: Arc<str>,
    /// What an acknowledgement means unless an operation says otherwise, in a word.
    pub durability: &'static str,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// Operations that wait for the writer.
    pub queued: u64,
    /// Operations that may wait before others are held back.
    pub queue_capacity: u64,
    /// Operations sent and not yet acknowledged, the held-back ones among them.
    pub waiting: u64,
    /// Writes acknowledged; a transaction counts once.
    pub operations_total: u64,
    /// Commits.
    pub commits_total: u64,
    /// Commits that were durable before they were acknowledged.
    pub durable_commits_total: u64,
    /// Times that the disk was asked to make everything durable, and somebody waited for it. Behind a journal a thread syncs the
    /// file besides, each time that a side of it is full.
    pub syncs_total: u64,
    /// Time spent on that.
    pub sync_time: Duration,
    /// Keys looked up and pages scanned.
    pub reads_total: u64,
    /// Reads of the disk that took longer than a scheduler should wait.
    pub slow_reads_total: u64,
    /// Keys removed because their time was over.
    pub expired_total: u64,
    /// Commits that failed.
    pub failures_total: u64,
    /// Acknowledged operations of weaker durability that a failure undid.
    pub undone_total: u64,
    /// What went wrong last.
    pub last_error: Option<Arc<str>>,
    /// Whether it can be used now.
    pub is_open: bool,
    /// Its buckets, by name.
    pub buckets: Vec<BucketReport>,
}

/// How one bucket does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketReport {
    /// Its name.
    pub name: Arc<str>,
    /// Keys, those among them that have expired and are not swept yet.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Keys looked up and pages scanned.
    pub reads_total: u64,
    /// Keys written or deleted.
    pub writes_total: u64,
}

/// The stores of a runtime.
#[derive(Default)]
pub(crate) struct Stores(Mutex<Vec<Shown>>);

/// A store that observers see.
struct Shown {
    store: Arc<dyn Storage>,
    /// Whether it is for the processes of the runtime.
    is_own: bool,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Stores {
    /// Shows a store to observers, once, and gives it to the processes of the runtime if it is its own.
    #[cfg_attr(not(feature = "store"), expect(dead_code, reason = "the core has no store"))]
    pub(crate) fn show(&self, store: Arc<dyn Storage>, is_own: bool) {
        let mut stores = self.lock();
        match stores.iter_mut().find(|known| Arc::ptr_eq(&known.store, &store)) {
            Some(known) => known.is_own |= is_own,
            None => stores.push(Shown { store, is_own }),
        }
    }

    /// Shows a store no more.
    #[cfg_attr(not(feature = "store"), expect(dead_code, reason = "the core has no store"))]
    pub(crate) fn hide(&self, store: &Arc<dyn Storage>) {
        self.lock().retain(|known| !Arc::ptr_eq(&known.store, store));
    }

    /// The first store of the runtime's own.
    #[cfg_attr(not(feature = "store"), expect(dead_code, reason = "the core has no store"))]
    pub(crate) fn own(&self) -> Option<Arc<dyn Storage>> {
        self.lock().iter().find(|known| known.is_own).map(|known| Arc::clone(&known.store))
    }

    /// The store at a place, in the order in which they were shown.
    fn at(&self, place: usize) -> Option<Arc<dyn Storage>> {
        self.lock().get(place).map(|known| Arc::clone(&known.store))
    }

    fn all(&self) -> Vec<Arc<dyn Storage>> {
        self.lock().iter().map(|known| Arc::clone(&known.store)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Shown>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the stores do that this runtime shows, in the order in which they were attached or shown.
pub fn stores(runtime: &Handle) -> Vec<StorageReport> {
    // Not under the lock: a store may take its time.
    runtime.shared.stores.all().iter().map(|store| store.report()).collect()
}

/// The store at a place among [`stores`].
pub fn storage(runtime: &Handle, place: usize) -> Option<Arc<dyn Storage>> {
    runtime.shared.stores.at(place)
}
