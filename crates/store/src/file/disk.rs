//! The file of a store: opened with a specific error for each failure, measured during use, reopened after a failure.
//!
//! ```text
//!   readers ──▶ source() ──▶ redb ──▶ Metered ──▶ Guarded ──▶ Journaled ──▶ file and journal
//!                                    └── counts syncs, times reads
//!   writer  ──▶ reopen() after a failed commit: redb refuses all operations from then on
//! ```
//!
//! Invariant: no operation waits for the file to be reopened; meanwhile they fail because the store is not available.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use redb::{BackendError, DatabaseError, StorageBackend};

use rusm_text::escaped;

use crate::config::defaults::CACHE_BYTES;
use crate::error::{OpenError, StoreError};
use crate::file::create::{self, sync_directory};
use crate::file::database::{self, Opened, SafeDatabase};
use crate::file::journal::{JournalStorage, Journaled, replay};
use crate::file::limited_file::LimitedFile;
use crate::file::salvage::Salvage;
use crate::writer::prewake::CommitPrewake;

/// Longest disk read that a scheduler can afford, in nanoseconds.
const QUICK_READ_NS: u64 = 50_000;
/// Time limit for readers to release the database, after which it is reopened regardless.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the storage of a store, each time it must be opened.
pub(crate) type Opener = Box<dyn Fn() -> Result<Box<dyn StorageBackend>, DatabaseError> + Send + Sync>;

/// Counters of disk operations.
#[derive(Debug, Default)]
pub(crate) struct DiskCounters {
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_ns: AtomicU64,
    pub(crate) slow_reads: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Moving average of the duration of reads, in nanoseconds; 0 before the first.
    read_ns: AtomicU64,
}

/// The opened file of a store, with its counters.
pub(crate) struct Disk {
    path: PathBuf,
    opener: Opener,
    cache_bytes: usize,
    verifies: bool,
    source: RwLock<Option<Source>>,
    pub(crate) counters: Arc<DiskCounters>,
    pub(crate) prewake: Arc<CommitPrewake>,
}

/// Source that a store is read from.
#[derive(Clone)]
pub(crate) enum Source {
    Database(Arc<SafeDatabase>),
    /// The readable rest of a damaged database.
    Salvage(Arc<Salvage>),
}

impl From<Opened> for Source {
    fn from(opened: Opened) -> Self {
        match opened {
            Opened::Intact(database) => Self::Database(Arc::new(database)),
            Opened::Damaged(salvage) => Self::Salvage(Arc::new(salvage)),
        }
    }
}

impl Disk {
    /// Opens the file at this path, and creates it if it does not exist.
    pub(crate) fn open_file(path: &Path, cache_bytes: usize, verifies: bool) -> Result<Self, OpenError> {
        let opener = opener_of(path)?;
        Self::open(path.to_owned(), opener, cache_bytes, verifies)
    }

    pub(crate) fn open(path: PathBuf, opener: Opener, cache_bytes: usize, verifies: bool) -> Result<Self, OpenError> {
        let (source, counters) = (RwLock::new(None), Arc::default());
        let disk = Self { path, opener, cache_bytes, verifies, source, counters, prewake: Arc::default() };
        let source = disk.connect()?;
        *disk.source.write() = Some(source);
        Ok(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the source to read from, unless the store is being reopened. Keep it for one read only.
    pub(crate) fn source(&self) -> Option<Source> {
        let source = self.source.read().clone();
        source.filter(|source| !matches!(source, Source::Database(database) if database.has_panicked()))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.source().is_some()
    }

    /// Returns the size of the pages that redb keeps in memory.
    pub(crate) fn cache_bytes(&self) -> u64 {
        let Some(Source::Database(database)) = self.source() else { return 0 };
        database.cache_bytes().unwrap_or(0) as u64
    }

    /// Returns true if a read may take longer than a scheduler should wait, judging by recent reads.
    pub(crate) fn is_slow(&self) -> bool {
        let read_ns = self.counters.read_ns.load(Relaxed);
        if read_ns <= QUICK_READ_NS {
            return false;
        }
        // Reads that redb's cache serves are not measured, so the average decays here.
        self.counters.read_ns.store(read_ns - read_ns / 64, Relaxed);
        true
    }

    /// Closes the database after its current readers.
    pub(crate) fn close(&self) {
        let Some(mut source) = self.source.write().take() else { return };
        let started = Instant::now();
        while started.elapsed() < RELEASE_TIMEOUT {
            let shared = match source {
                Source::Database(database) => Arc::try_unwrap(database).map(drop).map_err(Source::Database),
                Source::Salvage(salvage) => Arc::try_unwrap(salvage).map(drop).map_err(Source::Salvage),
            };
            match shared {
                Ok(()) => return,
                Err(shared) => source = shared,
            }
            std::thread::park_timeout(Duration::from_micros(100));
        }
    }

    /// Closes the database and reopens it.
    pub(crate) fn reopen(&self) -> Result<(), OpenError> {
        self.close();
        let source = self.connect()?;
        *self.source.write() = Some(source);
        Ok(())
    }

    fn connect(&self) -> Result<Source, OpenError> {
        let refused = |error| OpenError::database(self.path.clone(), error);
        let storage = (self.opener)().map_err(refused)?;
        let (counters, prewake) = (Arc::clone(&self.counters), Arc::clone(&self.prewake));
        let opened = database::open(storage, self.cache_bytes, self.verifies, |verified| Metered {
            inner: Box::new(verified),
            counters,
            prewake,
        });
        opened.map(Source::from).map_err(|failure| OpenError::opening(self.path.clone(), failure))
    }
}

impl SafeDatabase {
    /// Opens the file of a database, or creates it. Blocks while the whole file is read and verified.
    ///
    /// # Errors
    /// [`OpenError`] names the file and what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        open_database(path.as_ref())
    }
}

/// Opens the file of a database that is not a store, with the same checks as the file of a store.
fn open_database(path: &Path) -> Result<SafeDatabase, OpenError> {
    let storage = opener_of(path)?().map_err(|error| OpenError::database(path.to_owned(), error))?;
    let opened = database::open(storage, CACHE_BYTES, true, |verified| verified);
    match opened.map_err(|failure| OpenError::opening(path.to_owned(), failure))? {
        Opened::Intact(database) => Ok(database),
        Opened::Damaged(salvage) => {
            let damage = salvage.damage().map_err(|error| OpenError::io(path.to_owned(), error))?;
            let first = damage.first().map_or_else(String::new, ToString::to_string);
            let what = format!("{first}: run `rusm store repair` on it");
            Err(OpenError::Corrupt { path: path.to_owned(), what })
        }
    }
}

/// Opens the file at this path and its journal, each time it is called; creates the file if it does not exist.
fn opener_of(path: &Path) -> Result<Opener, OpenError> {
    prepare(path)?;
    let file = open_existing(path).map_err(|error| OpenError::io(path.to_owned(), error))?;
    let id = file.metadata().map(|found| inode_of(&found)).map_err(|error| OpenError::io(path.to_owned(), error))?;
    drop(file);
    // With the canonical path, the journal is found even if the file is opened by another name next time.
    let again = path.canonicalize().map_err(|error| OpenError::io(path.to_owned(), error))?;
    // The creator may have died before the file's name was durable. An unreadable directory does not prevent use of the
    // file.
    drop(sync_directory(&again));
    let journal = journal_of(&again);
    Ok(Box::new(move || {
        let journal_file = JournalFile { path: journal.clone(), opened: Mutex::new(None) };
        let file = open_existing(&again)?;
        // After a failure the store must not continue in another file that has got the path meanwhile.
        if inode_of(&file.metadata()?) != id {
            return Err(io::Error::other("another file has its place: it was moved or replaced").into());
        }
        Ok(Box::new(Journaled::new(LimitedFile::new(file)?, journal_file)))
    }))
}

/// Creates the file of a new store, and rejects a path that is not a store's file.
fn prepare(path: &Path) -> Result<(), OpenError> {
    let journal = journal_of(path);
    // First of all: a program that creates the store meanwhile creates the journal after the file.
    let has_journal = fs::metadata(&journal).is_ok_and(|found| found.len() > 0 || special(&found).is_some());
    let found = fs::metadata(path).ok();
    match found {
        Some(found) => {
            if let Some(kind) = special(&found) {
                return Err(OpenError::NotAFile { path: path.to_owned(), kind });
            }
            if found.is_file() && found.len() == 0 {
                return Err(OpenError::Empty { path: path.to_owned() });
            }
            Ok(())
        }
        // A journal without its file belongs to something else: do not create a new store beside it.
        None if has_journal => {
            let refused = |error| OpenError::io(path.to_owned(), error);
            let file = open_regular(&journal, OpenOptions::new().read(true)).map_err(refused)?;
            let file = LimitedFile::new(file).map_err(|error| OpenError::database(path.to_owned(), error))?;
            Err(refused(replay::orphan_journal_error(&file).map_err(refused)?))
        }
        None if is_dangling(path) => {
            // To create its target could hide a store on a disk that is not mounted.
            let what = "it is a link to a file that does not exist: mount the disk of that file, or remove the link";
            Err(OpenError::io(path.to_owned(), io::Error::new(io::ErrorKind::NotFound, what)))
        }
        None => create::create_if_missing(path).map_err(|error| OpenError::database(path.to_owned(), error)),
    }
}

/// Returns true for a symbolic link to a file that does not exist.
pub(crate) fn is_dangling(path: &Path) -> bool {
    let is_missing = fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    is_missing && fs::symlink_metadata(path).is_ok()
}

/// Returns the kind of file, if it is neither a regular file nor a directory.
fn special(found: &fs::Metadata) -> Option<&'static str> {
    let kind = found.file_type();
    let kinds = [
        (kind.is_fifo(), "pipe"),
        (kind.is_socket(), "socket"),
        (kind.is_char_device() || kind.is_block_device(), "device"),
    ];
    kinds.into_iter().find(|(is, _)| *is).map(|(_, kind)| kind)
}

/// Opens a file, and rejects anything that is not one.
pub(crate) fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<File> {
    if let Some(kind) = fs::metadata(path).ok().as_ref().and_then(special) {
        let what = format!("{} is not a regular file but a {kind}", escaped(path.display()));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    options.open(path)
}

impl Disk {
    /// Returns the error of readers and writers while the database is closed.
    pub(crate) fn unavailable(why: Option<Arc<str>>) -> StoreError {
        StoreError::Unavailable(why.unwrap_or_else(|| "it is being reopened".into()))
    }
}

pub(crate) fn journal_of(path: &Path) -> PathBuf {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    journal.into()
}

/// A journal that is stored beside its file.
struct JournalFile {
    path: PathBuf,
    /// Device and inode number of the opened journal.
    opened: Mutex<Option<(u64, u64)>>,
}

impl JournalStorage for JournalFile {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let open = || {
            let is_new = !self.path.exists();
            if is_dangling(&self.path) {
                // To create its target could hide a journal on a disk that is not mounted.
                return Err(io::Error::new(io::ErrorKind::NotFound, "a link to a file that does not exist"));
            }
            let file = open_file(&self.path)?;
            // The creator may have died before the journal's name was durable.
            let synced = sync_directory(&self.path);
            if is_new {
                synced?;
            }
            *self.opened.lock() = Some(inode_of(&file.metadata()?));
            let journal = LimitedFile::new(file).map_err(io::Error::other)?;
            // A node may still use it although its store was moved away. A file system without locks has none here.
            if matches!(journal.try_lock_range(Bound::Unbounded, Bound::Unbounded), Ok(false)) {
                let what = "another store has it open, perhaps one that was moved: close that store first";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            Ok(journal)
        };
        let said = |error: io::Error| io::Error::new(error.kind(), format!("its journal: {error}"));
        Ok(Box::new(open().map_err(said)?))
    }

    fn remove(&self) -> io::Result<()> {
        // Another file may have replaced this one while it was open.
        let is_there = fs::metadata(&self.path).is_ok_and(|found| Some(inode_of(&found)) == *self.opened.lock());
        if is_there { fs::remove_file(&self.path) } else { Ok(()) }
    }
}

pub(crate) fn inode_of(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn open_existing(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true).write(true))
}

fn open_file(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600))
}

/// A storage that counts and times its operations.
#[derive(Debug)]
struct Metered {
    inner: Box<dyn StorageBackend>,
    counters: Arc<DiskCounters>,
    prewake: Arc<CommitPrewake>,
}

impl StorageBackend for Metered {
    fn len(&self) -> io::Result<u64> {
        let bytes = self.inner.len()?;
        self.counters.bytes.store(bytes, Relaxed);
        Ok(bytes)
    }

    /// Called only for data that is not in redb's own cache.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let started = Instant::now();
        self.inner.read(offset, out)?;
        let took_ns = started.elapsed().as_nanos() as u64;
        if took_ns > QUICK_READ_NS {
            self.counters.slow_reads.fetch_add(1, Relaxed);
        }
        // Concurrent updates may be lost, which an average tolerates. One slow read of a busy disk weighs enough to be
        // noticed.
        let before_ns = self.counters.read_ns.load(Relaxed);
        self.counters.read_ns.store(before_ns - before_ns / 8 + took_ns / 8, Relaxed);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)?;
        self.counters.bytes.store(len, Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let started = Instant::now();
        self.inner.sync_data()?;
        self.prewake.wake_if_armed();
        self.counters.sync_ns.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
        self.counters.syncs.fetch_add(1, Relaxed);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}
