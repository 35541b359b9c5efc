//! The handles of a store and of its buckets.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use redb::StorageBackend;

use super::buckets::{BucketState, check_key, check_value};
use super::clock::expiry_ms;
use super::config::StoreConfig;
use super::config::defaults::{BUCKETS_BY_PREFIX_MAX, SCAN_BYTES_MAX};
use super::core::Core;
use super::error::{Damage, OpenError, StoreError};
use super::file::database::Panicked;
use super::file::disk::{Disk, Opener, Source};
use super::file::format;
use super::file::journal::Journaled;
use super::read::{self, Page, Read, Row};
use super::transaction::Transaction;
use super::writer::group::Group;
use super::writer::work::{Operation, Reply, Request, SWEEP_KEYS, Work, catch_panic};
use super::writer::write::Write;
use super::writer::{self, Writer};
use rusm_runtime::embed::{self, is_scheduler_thread};
use rusm_runtime::observe::{KeyReport, KeysPage, KeysQuery, Storage, StorageReport};
use rusm_runtime::{Handle, check_name};

/// Largest number of bytes of rows read for one page of an observer.
const BROWSE_BYTES_MAX: usize = 1024 * 1024;

/// An open store; cheap to clone. It closes when its last handle is dropped.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// use rusm::store::{Store, StoreConfig};
///
/// let store = Store::open(&path, StoreConfig::default())?;
/// let accounts = store.bucket("accounts")?;
/// store.transaction(move |tx| {
///     tx.put(&accounts, "ada", "7")?;
///     tx.put(&accounts, "bob", "3")
/// }).wait()?;
/// store.close();
/// // Acknowledged writes are there again, also after a power cut.
/// let store = Store::open(&path, StoreConfig::default())?;
/// assert_eq!(store.bucket("accounts")?.get("bob").wait()?.as_deref(), Some(&b"3"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Owner>);

pub(crate) struct Owner {
    pub(crate) core: Arc<Core>,
    writer: Mutex<Option<JoinHandle<()>>>,
    writer_id: ThreadId,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.0.core.disk.path()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in this file, or creates one.
    ///
    /// Reads and verifies the whole file, unless [`StoreConfig::verify`] is false. Not for processes: it blocks.
    ///
    /// A damaged store is opened read-only: see [`damage`](Self::damage).
    ///
    /// # Errors
    /// [`OpenError`] with the file and the problem.
    pub fn open(path: impl AsRef<Path>, config: StoreConfig) -> Result<Self, OpenError> {
        config.check()?;
        let disk = Disk::open_file(path.as_ref(), config.cache_bytes, config.verify)?;
        Self::start(disk, config)
    }

    /// Opens a store on storage other than a file. `name` is used instead of its path.
    ///
    /// Without a journal, only redb's checksums show after a crash which commit was complete: a damaged last commit is
    /// taken for one that was not acknowledged. If a sync fails, the storage must keep the data that it should have
    /// written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on<B: StorageBackend>(
        name: impl Into<PathBuf>,
        storage: impl Fn() -> std::io::Result<B> + Send + Sync + 'static,
        config: StoreConfig,
    ) -> Result<Self, OpenError> {
        config.check()?;
        let opener: Opener = Box::new(move || Ok(Box::new(storage()?)));
        Self::start(Disk::open(name.into(), opener, config.cache_bytes, config.verify)?, config)
    }

    /// Like [`open_on`](Self::open_on), with a journal as for [`open`](Self::open): a sync writes all its changes there
    /// in one piece.
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
        let opener: Opener = Box::new(move || Ok(Box::new(Journaled::new(storage()?, journal.clone()))));
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
                core.report_damage(&salvage);
                core.buckets.measure_salvage(&salvage);
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

    /// Returns a bucket. It need not exist before the first write to it. Its name is [valid](rusm_runtime::check_name) as that
    /// of a process is.
    ///
    /// # Errors
    /// [`StoreError`] when the name is not valid, or there are too many buckets.
    pub fn bucket(&self, name: &str) -> Result<Bucket, StoreError> {
        check_name("bucket", name)?;
        self.bucket_of_any_length(name)
    }

    /// Returns a bucket for a caller that may use all names with a prefix, such as a guest: it creates none if there are
    /// 768. The others are kept for callers with exact names.
    ///
    /// # Errors
    /// [`StoreError`] when the name is not valid, or there are too many buckets.
    pub fn bucket_by_prefix(&self, name: &str) -> Result<Bucket, StoreError> {
        check_name("bucket", name)?;
        let state = self.0.core.buckets.named_below(name, BUCKETS_BY_PREFIX_MAX);
        let state = state.ok_or(StoreError::TooManyBucketsByPrefix { max: BUCKETS_BY_PREFIX_MAX })?;
        Ok(Bucket { state, store: self.clone() })
    }

    /// Returns the bucket of a topic or a queue, whose name is that of the caller with additions. No key in it expires: the
    /// table of expiries has names of at most 255 bytes.
    pub(crate) fn bucket_of_any_length(&self, name: &str) -> Result<Bucket, StoreError> {
        Ok(Bucket { state: self.0.core.buckets.named(name)?, store: self.clone() })
    }

    /// Runs a transaction: reads and writes several keys atomically. If `code` returns an error, nothing changes.
    ///
    /// The code runs on the shared writer thread: it must neither block nor compute for long.
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

    /// Like [`transaction`](Self::transaction), for code that holds `bytes` bytes, which count toward the limit of the queue.
    pub fn transaction_of<T, E>(
        &self,
        bytes: usize,
        code: impl FnOnce(&mut Transaction<'_, '_>) -> Result<T, E> + Send + 'static,
    ) -> Write<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let id = self.id();
        self.write(bytes, move |group| Transaction::run(id, group, code))
    }

    /// Like [`transaction`](Self::transaction), for code that makes later deletions possible: it may make the store
    /// larger even if the disk is nearly full.
    pub(crate) fn transaction_of_upkeep<T, E>(
        &self,
        code: impl FnOnce(&mut Transaction<'_, '_>) -> Result<T, E> + Send + 'static,
    ) -> Write<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let id = self.id();
        let (work, reply) = Operation::boxed(move |group: &mut Group<'_>| Transaction::run(id, group, code));
        self.submit(Request { uses_reserve: true, ..self.request(work, 0) }, reply)
    }

    /// Returns the identity of this store among those that are open.
    pub(crate) fn id(&self) -> StoreId {
        StoreId(Arc::as_ptr(&self.0.core).addr())
    }

    /// Makes all earlier acknowledged writes durable.
    pub fn sync(&self) -> Write<()> {
        let (request, reply) = Request::sync();
        Write::new(Arc::clone(&self.0.core), request, reply)
    }

    /// Removes some expired keys, as the store also does periodically. Returns the number of removed keys.
    pub fn sweep(&self) -> Write<u64> {
        let core = Arc::clone(&self.0.core);
        self.write(0, move |group| {
            let (swept, _) = group.sweep(&core.buckets, SWEEP_KEYS)?;
            core.counters.expired.fetch_add(swept, std::sync::atomic::Ordering::Relaxed);
            Ok(swept)
        })
    }

    /// Returns the figures and counters of the store.
    pub fn report(&self) -> StorageReport {
        self.0.core.report()
    }

    /// Returns the parts of the store that cannot be read, or none if it is intact. Reads a damaged store completely.
    ///
    /// A damaged store accepts no writes ([`StoreError::ReadOnly`]). Keys outside of the damaged ranges can be read as
    /// usual; reads within them fail with [`StoreError::Damaged`].
    ///
    /// # Errors
    /// [`StoreError`] when the disk fails.
    pub fn damage(&self) -> Result<Vec<Damage>, StoreError> {
        match self.0.core.disk.source() {
            Some(Source::Salvage(salvage)) => salvage.damage().map_err(|error| StoreError::io(&error)),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the settings of the store.
    pub fn config(&self) -> &StoreConfig {
        &self.0.core.config
    }

    /// Attaches the store to a runtime: its observers see it, and its guests can use it. The first store attached to a
    /// runtime is its [own](Self::of).
    pub fn attach(&self, runtime: &Handle) {
        embed::show_store(runtime, Arc::clone(&self.0) as Arc<dyn Storage>, true);
    }

    /// Shows the store to the observers of a runtime, but not to its guests.
    pub fn show(&self, runtime: &Handle) {
        embed::show_store(runtime, Arc::clone(&self.0) as Arc<dyn Storage>, false);
    }

    /// Removes the store from the observers and guests of a runtime. Existing handles stay valid.
    pub fn hide(&self, runtime: &Handle) {
        embed::hide_store(runtime, &(Arc::clone(&self.0) as Arc<dyn Storage>));
    }

    /// Returns the store of a runtime, if one is [attached](Self::attach).
    pub fn of(runtime: &Handle) -> Option<Self> {
        embed::own_store(runtime)?.as_any().downcast().ok().map(Self)
    }

    /// Closes the store for all handles, after all queued writes are durable. Blocks: must not be called by processes.
    pub fn close(&self) {
        self.0.close();
    }

    pub(crate) fn write<T, E>(
        &self,
        bytes: usize,
        code: impl FnOnce(&mut Group<'_>) -> Result<T, E> + Send + 'static,
    ) -> Write<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (work, reply) = Operation::boxed(code);
        self.submit(self.request(work, bytes), reply)
    }

    fn request(&self, work: Box<dyn Work>, bytes: usize) -> Request {
        Request { work, durability: self.config().durability, bytes, is_maintenance: false, uses_reserve: false }
    }

    fn submit<T, E: From<StoreError>>(&self, request: Request, reply: Reply<T, E>) -> Write<T, E> {
        Write::new(Arc::clone(&self.0.core), request, reply)
    }
}

impl Owner {
    fn close(&self) {
        self.core.queue.close();
        // Do not wait for the disk on a scheduler, where a process dropped the last handle, or on the writer thread
        // itself, where a transaction dropped it.
        if is_scheduler_thread() || self.writer_id == std::thread::current().id() {
            return;
        }
        // Hold the lock meanwhile, so that other threads that close the store wait as well.
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

    fn keys(&self, bucket: &str, query: &KeysQuery) -> Result<KeysPage, String> {
        let state = self.core.buckets.known(bucket).ok_or_else(|| format!("bucket `{bucket}` does not exist"))?;
        let scan = read::ScanQuery {
            prefix: query.prefix.as_slice().into(),
            after: query.after.as_slice().into(),
            limit: query.limit,
            bytes_max: BROWSE_BYTES_MAX,
        };
        let page = read::scan(&self.core, &state, scan).wait().map_err(|error| error.to_string())?;
        let now_ms = self.core.config.clock.now_ms();
        let first = |bytes: &Bytes, most: usize| bytes[..bytes.len().min(most)].to_vec();
        let key = |row: Row| KeyReport {
            key: first(&row.key, query.key_bytes),
            key_bytes: row.key.len() as u64,
            value: first(&row.value, query.value_bytes),
            value_bytes: row.value.len() as u64,
            expires_in: (row.expiry_ms != 0).then(|| Duration::from_millis(row.expiry_ms.saturating_sub(now_ms))),
        };
        Ok(KeysPage { keys: page.rows.into_iter().map(key).collect(), next: page.next.map(|key| key.to_vec()) })
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Identity of an open store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreId(usize);

/// Keys and values under one name; cheap to clone.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// use std::time::Duration;
///
/// use rusm::store::{Store, StoreConfig};
///
/// let store = Store::open(&path, StoreConfig::default())?;
/// let sessions = store.bucket("sessions")?;
/// sessions.put_for("id/17", "ada", Duration::from_secs(3_600)).wait()?;
/// assert!(!sessions.compare_and_set("id/17", None, Some("bob".into())).wait()?);
/// let page = sessions.scan("id/", "", 100).wait()?;
/// assert_eq!(page.rows[0].value, "ada");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Bucket {
    pub(crate) state: Arc<BucketState>,
    pub(crate) store: Store,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").field("name", &self.state.name).finish_non_exhaustive()
    }
}

impl Bucket {
    /// Returns the name of the bucket.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Reads the value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Read<Option<Bytes>> {
        read::get(&self.store.0.core, &self.state, key.as_ref())
    }

    /// Sets the value of a key.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl Into<Bytes>) -> Write<()> {
        let value = value.into();
        self.write(key.as_ref(), &[value.len()], move |group, bucket, key| group.put(bucket, key, &value, 0))
    }

    /// Sets the value of a key until `time` has passed, counted from the commit.
    pub fn put_for(&self, key: impl AsRef<[u8]>, value: impl Into<Bytes>, time: Duration) -> Write<()> {
        let value = value.into();
        self.write(key.as_ref(), &[value.len()], move |group, bucket, key| {
            let expiry_ms = expiry_ms(group.now_ms(), time);
            group.put(bucket, key, &value, expiry_ms)
        })
    }

    /// Removes a key. Returns true if it existed.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Write<bool> {
        self.write(key.as_ref(), &[], |group, bucket, key| {
            let was_there = group.delete(bucket, key)?;
            Ok(was_there)
        })
    }

    /// Sets a key to `value`, or removes it, if its current value is `expected`; `None` means no value. Returns true if
    /// so.
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

    /// Replaces the value of a key by the result of `code`, atomically. Returns the new value. `None` means no value.
    ///
    /// The code runs on the shared writer thread: it must neither block nor compute for long.
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        code: impl FnOnce(Option<Bytes>) -> Option<Bytes> + Send + 'static,
    ) -> Write<Option<Bytes>> {
        let max = self.store.0.core.config.value_bytes_max;
        self.write(key.as_ref(), &[], move |group, bucket, key| {
            let old = group.get(bucket, key)?;
            let was_there = old.is_some();
            let value = catch_panic(|| code(old))?;
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

    /// Reads the rows with keys that begin with `prefix`, in key order: at most `limit`, starting after the key `after`
    /// (empty: from the first). A page may end before the limit; [`Page::next`] is set if there are more rows.
    pub fn scan(&self, prefix: impl AsRef<[u8]>, after: impl AsRef<[u8]>, limit: usize) -> Read<Page> {
        let (prefix, after) = (prefix.as_ref().into(), after.as_ref().into());
        let query = read::ScanQuery { prefix, after, limit, bytes_max: SCAN_BYTES_MAX };
        read::scan(&self.store.0.core, &self.state, query)
    }

    /// Like [`scan`](Self::scan), with a limit on the bytes of the page.
    pub fn scan_within(&self, prefix: Vec<u8>, after: Vec<u8>, limit: usize, bytes_max: usize) -> Read<Page> {
        let bytes_max = bytes_max.min(SCAN_BYTES_MAX);
        let query = read::ScanQuery { prefix: prefix.into(), after: after.into(), limit, bytes_max };
        read::scan(&self.store.0.core, &self.state, query)
    }

    pub(crate) fn write<T: Send + 'static>(
        &self,
        key: &[u8],
        values: &[usize],
        code: impl FnOnce(&mut Group<'_>, &Arc<BucketState>, &[u8]) -> Result<T, StoreError> + Send + 'static,
    ) -> Write<T> {
        let checked = check_key(key).and_then(|()| values.iter().try_for_each(|bytes| self.check_value(*bytes)));
        if let Err(error) = checked {
            return Write::failed(Arc::clone(&self.store.0.core), error);
        }
        let (bucket, key) = (Arc::clone(&self.state), Box::<[u8]>::from(key));
        self.store.write(key.len() + values.iter().sum::<usize>(), move |group| code(group, &bucket, &key))
    }

    pub(crate) fn check_value(&self, bytes: usize) -> Result<(), StoreError> {
        check_value(bytes, self.store.0.core.config.value_bytes_max)
    }
}
