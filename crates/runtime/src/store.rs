//! A durable key-value store that processes, threads and guests share.
//!
//! ```text
//!   put, transaction … ──▶ queue ──▶ writer: one thread, one commit and one sync for all that wait ──▶ redb ──▶ file
//!   get, scan ─────────────────────────────────────────────────────────────────────────────────────▶ redb
//! ```
//!
//! ```
//! use rusm_runtime::store::{Store, StoreConfig};
//!
//! # let directory = tempfile::tempdir()?;
//! let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
//! let accounts = store.bucket("accounts")?;
//! accounts.put("ada", "10").wait()?;
//!
//! let from = accounts.clone();
//! let moved = store.transaction(move |tx| {
//!     tx.put(&from, "ada", "7")?;
//!     tx.put(&from, "bob", "3")
//! });
//! moved.wait()?;
//! assert_eq!(accounts.get("bob").wait()?.as_deref(), Some(&b"3"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Processes `.await` what threads [`wait`](Write::wait) for. A write is acknowledged when its [`Durability`] holds, and all
//! that wait share one sync of the disk. Keys that [expire](Bucket::put_for) are invisible at once and removed later, a few
//! at a time. After a failure of the disk, a full one among them, the store opens its file again by itself: nothing that was
//! acknowledged as durable is lost by that.
//!
//! A file that reaches the limit on file sizes of the program (`ulimit -f`) means the same as a full disk. The store checks
//! that limit before it writes, so the program does not get SIGXFSZ and need not ignore it.
//!
//! Invariant: a reader sees what a commit has left, whole, and never a part of one.

mod birth;
mod buckets;
mod claim;
mod clock;
mod config;
mod core;
mod database;
mod disk;
mod error;
pub mod escaped;
mod format;
mod gathering;
mod group;
pub mod inspection;
mod journal;
pub(crate) mod limited_file;
mod overlay;
mod pages;
mod prompt;
mod queue;
mod read;
mod salvage;
mod sums;
mod tables;
mod transaction;
mod work;
mod write;
mod writer;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
pub use redb::{BackendError, StorageBackend};

pub(crate) use self::claim::Claim;
pub use self::clock::Clock;
pub use self::config::{Durability, StoreConfig, defaults};
pub use self::database::{Panicked, SafeDatabase};
pub use self::error::{Damage, OpenError, StoreError};
pub use self::pages::KeyRange;
pub use self::read::{Page, Read, Row};
pub use self::transaction::Transaction;
pub use self::write::Write;
pub use crate::stores::{BucketReport, StorageReport};

use self::buckets::BucketState;
use self::clock::expiry_ms;
use self::config::defaults::{KEY_BYTES_MAX, SCAN_BYTES_MAX};
use self::core::Core;
use self::disk::{Disk, Source};
use self::group::Group;
use self::journal::Journaled;
use self::transaction::contained;
use self::work::{Operation, Request};
use self::writer::Writer;
use crate::handle::Handle;
use crate::scheduler;
use crate::stores::{KeyReport, KeysPage, KeysWish, Storage};

/// Bytes of rows that an observer's page is made from.
const BROWSE_BYTES_MAX: usize = 1024 * 1024;

/// A store that is open; cheap to clone. It is closed with its last handle.
#[derive(Clone)]
pub struct Store(Arc<Owner>);

struct Owner {
    core: Arc<Core>,
    writer: Mutex<Option<JoinHandle<()>>>,
    writer_id: ThreadId,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.0.core.disk.path()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in this file, or makes one.
    ///
    /// Reads and verifies all of the file, unless [`StoreConfig::verify`] is false; call it from a thread, not from a process.
    ///
    /// A damaged store is opened for reading: see [`damage`](Self::damage).
    ///
    /// # Errors
    /// [`OpenError`] names the file and what is wrong with it.
    pub fn open(path: impl AsRef<Path>, config: StoreConfig) -> Result<Self, OpenError> {
        config.check()?;
        let disk = Disk::open_file(path.as_ref(), config.cache_bytes, config.verify)?;
        Self::start(disk, config)
    }

    /// Opens a store that lies somewhere else than in a file; `name` stands for its path.
    ///
    /// Without a journal, a commit that was acknowledged is told from one that was not by redb's checksums alone: damage of the
    /// last one after a crash is taken for the latter. A sync that fails must not forget what it was to write.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on<B: StorageBackend>(
        name: impl Into<PathBuf>,
        storage: impl Fn() -> std::io::Result<B> + Send + Sync + 'static,
        config: StoreConfig,
    ) -> Result<Self, OpenError> {
        config.check()?;
        let opener: disk::Opener = Box::new(move || Ok(Box::new(storage()?)));
        Self::start(Disk::open(name.into(), opener, config.cache_bytes, config.verify)?, config)
    }

    /// The same with a journal, as [`open`](Self::open) has one: a sync writes what has changed in one piece to it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on_with_journal<B: StorageBackend, J: StorageBackend>(
        name: impl Into<PathBuf>,
        storage: impl Fn() -> std::io::Result<B> + Send + Sync + 'static,
        journal: impl Fn() -> std::io::Result<J> + Clone + Send + Sync + 'static,
        config: StoreConfig,
    ) -> Result<Self, OpenError> {
        config.check()?;
        let opener: disk::Opener = Box::new(move || Ok(Box::new(Journaled::new(storage()?, journal.clone()))));
        Self::start(Disk::open(name.into(), opener, config.cache_bytes, config.verify)?, config)
    }

    fn start(disk: Disk, config: StoreConfig) -> Result<Self, OpenError> {
        let core = Arc::new(Core::new(config, disk));
        let path = core.disk.path().to_owned();
        let has_expiring = match core.disk.source() {
            Some(Source::Database(database)) => {
                let checked = database.run(|database| format::check(database, &path));
                checked.unwrap_or_else(|Panicked| {
                    Err(OpenError::Corrupt { path: path.clone(), what: writer::REDB_PANICKED.to_owned() })
                })?;
                writer::measure(&core, &database).map_err(|error| OpenError::storage(path.clone(), &error))?
            }
            Some(Source::Salvage(salvage)) => {
                format::check_salvage(&salvage, &path)?;
                core.tell_damage(&salvage);
                let measured = core.buckets.measure_salvage(&salvage);
                measured.map_err(|error| OpenError::storage(path.clone(), &error))?;
                false
            }
            None => false,
        };
        let writer = Writer::new(Arc::clone(&core), has_expiring);
        let thread = std::thread::Builder::new().name("rusm-store".to_owned()).spawn(move || writer.run());
        let thread = thread.map_err(|error| OpenError::io(path, error))?;
        let writer_id = thread.thread().id();
        Ok(Self(Arc::new(Owner { core, writer: Mutex::new(Some(thread)), writer_id })))
    }

    /// A bucket, which needs not be made before it is written to.
    ///
    /// # Errors
    /// [`StoreError`] when the name is none, or there are too many buckets.
    pub fn bucket(&self, name: &str) -> Result<Bucket, StoreError> {
        Ok(Bucket { state: self.0.core.buckets.named(name)?, store: self.clone() })
    }

    /// Runs code that reads and writes several keys, all of it at one instant; if it returns an error, nothing of it happens.
    ///
    /// The code runs on the thread that writes for everybody: it must neither block nor compute for long.
    pub fn transaction<T, E>(
        &self,
        code: impl FnOnce(&mut Transaction<'_, '_>) -> Result<T, E> + Send + 'static,
    ) -> Write<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.transaction_of(0, code)
    }

    /// The same for code that holds so many bytes, which count in the queue.
    pub(crate) fn transaction_of<T, E>(
        &self,
        bytes: usize,
        code: impl FnOnce(&mut Transaction<'_, '_>) -> Result<T, E> + Send + 'static,
    ) -> Write<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.write(bytes, move |group| Transaction::run(group, code))
    }

    /// Makes everything durable that was acknowledged before.
    pub fn sync(&self) -> Write<()> {
        let (request, reply) = Request::sync();
        Write::new(Arc::clone(&self.0.core), request, reply)
    }

    /// Removes some of the keys whose time is over, as the store does by itself from time to time; how many.
    pub fn sweep(&self) -> Write<u64> {
        let core = Arc::clone(&self.0.core);
        self.write(0, move |group| {
            let (swept, _) = group.sweep(&core.buckets, work::SWEEP_KEYS)?;
            core.counters.expired.fetch_add(swept, std::sync::atomic::Ordering::Relaxed);
            Ok(swept)
        })
    }

    /// How the store does.
    pub fn report(&self) -> StorageReport {
        self.0.core.report()
    }

    /// Returns the parts of the store that cannot be read, none if it is sound. Reads all of a damaged one.
    ///
    /// A damaged store takes no writes ([`StoreError::ReadOnly`]). Keys outside of the damaged ranges are read as always, and
    /// those within get [`StoreError::Damaged`].
    ///
    /// # Errors
    /// [`StoreError`] when the disk fails.
    pub fn damage(&self) -> Result<Vec<Damage>, StoreError> {
        match self.0.core.disk.source() {
            Some(Source::Salvage(salvage)) => salvage.damage().map_err(|error| StoreError::io(&error)),
            _ => Ok(Vec::new()),
        }
    }

    /// What was set about it.
    pub fn config(&self) -> &StoreConfig {
        &self.0.core.config
    }

    /// Shows the store to the observers of a runtime, and gives it to its guests. The first of a runtime is its
    /// [own](Self::of).
    pub fn attach(&self, runtime: &Handle) {
        runtime.shared.stores.show(Arc::clone(&self.0) as Arc<dyn Storage>, true);
    }

    /// Shows the store to the observers of a runtime, and gives it to nobody.
    pub fn show(&self, runtime: &Handle) {
        runtime.shared.stores.show(Arc::clone(&self.0) as Arc<dyn Storage>, false);
    }

    /// Takes the store from the observers and the guests of a runtime; those that have it keep it.
    pub fn hide(&self, runtime: &Handle) {
        runtime.shared.stores.hide(&(Arc::clone(&self.0) as Arc<dyn Storage>));
    }

    /// The store of a runtime, if one is [attached](Self::attach).
    pub fn of(runtime: &Handle) -> Option<Self> {
        runtime.shared.stores.own()?.as_any().downcast().ok().map(Self)
    }

    /// Closes the store for everybody, after what waits is written and durable. Blocks; not for processes.
    pub fn close(&self) {
        self.0.close();
    }

    fn write<T, E>(
        &self,
        bytes: usize,
        code: impl FnOnce(&mut Group<'_>) -> Result<T, E> + Send + 'static,
    ) -> Write<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (work, reply) = Operation::boxed(code);
        let request = Request { work, durability: self.config().durability, bytes, is_upkeep: false };
        Write::new(Arc::clone(&self.0.core), request, reply)
    }
}

impl Owner {
    fn close(&self) {
        self.core.queue.close();
        // The last handle may go with a process, whose scheduler must not wait for the disk, or with a transaction: on the
        // writer's own thread.
        if scheduler::local().is_some() || self.writer_id == std::thread::current().id() {
            return;
        }
        // The lock is held meanwhile, so that those who close it again wait as well.
        let mut writer = self.writer.lock();
        if let Some(writer) = writer.take() {
            drop(writer.join());
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Storage for Owner {
    fn report(&self) -> StorageReport {
        self.core.report()
    }

    fn keys(&self, bucket: &str, wish: &KeysWish) -> Result<KeysPage, String> {
        let state = self.core.buckets.known(bucket).ok_or_else(|| format!("there is no bucket `{bucket}`"))?;
        let scan = read::Wish {
            prefix: wish.prefix.as_slice().into(),
            after: wish.after.as_slice().into(),
            limit: wish.limit,
            bytes_max: BROWSE_BYTES_MAX,
        };
        let page = read::scan(&self.core, &state, scan).wait().map_err(|error| error.to_string())?;
        let now_ms = self.core.config.clock.now_ms();
        let first = |bytes: &Bytes, most: usize| bytes[..bytes.len().min(most)].to_vec();
        let key = |row: Row| KeyReport {
            key: first(&row.key, wish.key_bytes),
            key_bytes: row.key.len() as u64,
            value: first(&row.value, wish.value_bytes),
            value_bytes: row.value.len() as u64,
            expires_in: (row.expiry_ms != 0).then(|| Duration::from_millis(row.expiry_ms.saturating_sub(now_ms))),
        };
        Ok(KeysPage { keys: page.rows.into_iter().map(key).collect(), next: page.next.map(|key| key.to_vec()) })
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Keys and values under one name; cheap to clone.
#[derive(Clone)]
pub struct Bucket {
    state: Arc<BucketState>,
    store: Store,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").field("name", &self.state.name).finish_non_exhaustive()
    }
}

impl Bucket {
    /// The bucket's name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Read<Option<Bytes>> {
        read::get(&self.store.0.core, &self.state, key.as_ref())
    }

    /// Gives a key a value.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl Into<Bytes>) -> Write<()> {
        let value = value.into();
        self.write(key.as_ref(), &[value.len()], move |group, bucket, key| group.put(bucket, key, &value, 0))
    }

    /// Gives a key a value that it has for so long, counted from the commit.
    pub fn put_for(&self, key: impl AsRef<[u8]>, value: impl Into<Bytes>, time: Duration) -> Write<()> {
        let value = value.into();
        self.write(key.as_ref(), &[value.len()], move |group, bucket, key| {
            let expiry_ms = expiry_ms(group.now_ms(), time);
            group.put(bucket, key, &value, expiry_ms)
        })
    }

    /// Takes a key away; whether it was there.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Write<bool> {
        self.write(key.as_ref(), &[], |group, bucket, key| {
            let was_there = group.delete(bucket, key)?;
            Ok(was_there)
        })
    }

    /// Gives a key a value, or takes it away, if it has the value `expected`, or none; whether it had.
    pub fn compare_and_set(&self, key: impl AsRef<[u8]>, expected: Option<Bytes>, value: Option<Bytes>) -> Write<bool> {
        let values = [&expected, &value].map(|value| value.as_ref().map_or(0, Bytes::len));
        self.write(key.as_ref(), &values, move |group, bucket, key| {
            if !group.has(bucket, key, expected.as_deref())? {
                return Ok(false);
            }
            match &value {
                Some(value) => group.put(bucket, key, value, 0)?,
                None => drop(group.delete(bucket, key)?),
            }
            Ok(true)
        })
    }

    /// Makes a key's new value of its old one, at one instant; the new one. `None` is for no value.
    ///
    /// The code runs on the thread that writes for everybody: it must neither block nor compute for long.
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        code: impl FnOnce(Option<Bytes>) -> Option<Bytes> + Send + 'static,
    ) -> Write<Option<Bytes>> {
        let max = self.store.0.core.config.value_bytes_max;
        self.write(key.as_ref(), &[], move |group, bucket, key| {
            let old = group.get(bucket, key)?;
            let was_there = old.is_some();
            let value = contained(|| code(old))?;
            match &value {
                Some(value) => {
                    check_value(value.len(), max)?;
                    group.put(bucket, key, value, 0)?;
                }
                None if was_there => drop(group.delete(bucket, key)?),
                None => {}
            }
            Ok(value)
        })
    }

    /// The rows whose keys begin with `prefix`, in their order, at most `limit`, those after the key `after` (empty: all).
    ///
    /// A page may end before the limit; [`Page::next`] says whether there is more.
    pub fn scan(&self, prefix: impl AsRef<[u8]>, after: impl AsRef<[u8]>, limit: usize) -> Read<Page> {
        let (prefix, after) = (prefix.as_ref().into(), after.as_ref().into());
        let wish = read::Wish { prefix, after, limit, bytes_max: SCAN_BYTES_MAX };
        read::scan(&self.store.0.core, &self.state, wish)
    }

    /// The same with a limit for the bytes of the page.
    #[cfg(feature = "wasm")]
    pub(crate) fn scan_within(&self, prefix: Vec<u8>, after: Vec<u8>, limit: usize, bytes_max: usize) -> Read<Page> {
        let bytes_max = bytes_max.min(SCAN_BYTES_MAX);
        let wish = read::Wish { prefix: prefix.into(), after: after.into(), limit, bytes_max };
        read::scan(&self.store.0.core, &self.state, wish)
    }

    fn write<T: Send + 'static>(
        &self,
        key: &[u8],
        values: &[usize],
        code: impl FnOnce(&mut Group<'_>, &Arc<BucketState>, &[u8]) -> Result<T, StoreError> + Send + 'static,
    ) -> Write<T> {
        let checked = check_key(key).and_then(|()| values.iter().try_for_each(|bytes| self.check_value(*bytes)));
        if let Err(error) = checked {
            return Write::refused(Arc::clone(&self.store.0.core), error);
        }
        let (bucket, key) = (Arc::clone(&self.state), Box::<[u8]>::from(key));
        self.store.write(key.len() + values.iter().sum::<usize>(), move |group| code(group, &bucket, &key))
    }

    fn check_value(&self, bytes: usize) -> Result<(), StoreError> {
        check_value(bytes, self.store.0.core.config.value_bytes_max)
    }
}

fn check_key(key: &[u8]) -> Result<(), StoreError> {
    let (bytes, max) = (key.len(), KEY_BYTES_MAX);
    if (1..=max).contains(&bytes) { Ok(()) } else { Err(StoreError::Key { bytes, max }) }
}

fn check_value(bytes: usize, max: usize) -> Result<(), StoreError> {
    if bytes <= max { Ok(()) } else { Err(StoreError::ValueTooLarge { bytes, max }) }
}

/// The example of the guide is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/store.md")]
struct Guide;
