//! The file under a store: opened with every refusal named, measured as it is used, opened again after a failure.
//!
//! ```text
//!   readers ──▶ database() ──▶ redb ──▶ Metered ──▶ Journaled ──▶ file and journal     counts syncs, times reads
//!   writer  ──▶ reopen() after a failed commit: redb refuses everything from then on
//! ```
//!
//! Invariant: nobody waits for the file to be opened again; who comes meanwhile hears that the store is not available.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use redb::{BackendError, Builder, Database, DatabaseError, StorageBackend};

use super::birth;
use super::error::{OpenError, StoreError};
use super::journal::{Journaled, Shelf};
use super::limited_file::LimitedFile;
use super::prompt::Prompt;

/// A read of the disk that a scheduler can do besides.
const QUICK_READ_NS: u64 = 50_000;
/// How long a reader may hold on to the database before it is opened again without asking.
const LETTING_GO: Duration = Duration::from_secs(5);

/// Opens the storage of a store, each time it must be opened.
pub(super) type Opener = Box<dyn Fn() -> Result<Box<dyn StorageBackend>, DatabaseError> + Send + Sync>;

/// What the disk has had to do.
#[derive(Debug, Default)]
pub(super) struct DiskCounters {
    pub(super) syncs: AtomicU64,
    pub(super) sync_ns: AtomicU64,
    pub(super) slow_reads: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// How long reads take lately; 0 before the first.
    read_ns: AtomicU64,
}

/// See the module.
pub(super) struct Disk {
    path: PathBuf,
    opener: Opener,
    cache_bytes: usize,
    database: RwLock<Option<Arc<Database>>>,
    pub(super) counters: Arc<DiskCounters>,
    pub(super) prompt: Arc<Prompt>,
}

impl Disk {
    /// The file of this path, made if there is none.
    pub(super) fn open_file(path: &Path, cache_bytes: usize) -> Result<Self, OpenError> {
        // A journal without its file is of something else, which must not be taken for new.
        if path.exists() || !journal_of(path).exists() {
            birth::ensure(path).map_err(|error| OpenError::database(path.to_owned(), error))?;
        }
        let file = open_file(path).map_err(|error| OpenError::io(path.to_owned(), error))?;
        drop(file);
        // However the file is named the next time, its journal is found.
        let again = path.canonicalize().map_err(|error| OpenError::io(path.to_owned(), error))?;
        // Who made it may have died before its name was safe. A folder that cannot be read keeps nobody from what is in it.
        drop(sync_directory(&again));
        let journal = journal_of(&again);
        let opener: Opener = Box::new(move || {
            let beside = Beside { path: journal.clone(), opened: Mutex::new(None) };
            Ok(Box::new(Journaled::new(LimitedFile::new(open_file(&again)?)?, beside)))
        });
        Self::open(path.to_owned(), opener, cache_bytes)
    }

    pub(super) fn open(path: PathBuf, opener: Opener, cache_bytes: usize) -> Result<Self, OpenError> {
        let database = RwLock::new(None);
        let disk = Self { path, opener, cache_bytes, database, counters: Arc::default(), prompt: Arc::default() };
        let database = disk.connect()?;
        *disk.database.write() = Some(Arc::new(database));
        Ok(disk)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The database, unless it is being opened again. Keep it for one look only.
    pub(super) fn database(&self) -> Option<Arc<Database>> {
        self.database.read().as_ref().map(Arc::clone)
    }

    pub(super) fn is_open(&self) -> bool {
        self.database.read().is_some()
    }

    /// Whether a read may take longer than a scheduler should wait, as the last ones did.
    pub(super) fn is_slow(&self) -> bool {
        let read_ns = self.counters.read_ns.load(Relaxed);
        if read_ns <= QUICK_READ_NS {
            return false;
        }
        // Reads that find everything in the page cache say nothing: it wears off.
        self.counters.read_ns.store(read_ns - read_ns / 64, Relaxed);
        true
    }

    /// Closes the database, after the reader that looks at it now.
    pub(super) fn close(&self) {
        let Some(mut database) = self.database.write().take() else { return };
        let started = Instant::now();
        while started.elapsed() < LETTING_GO {
            match Arc::try_unwrap(database) {
                Ok(last) => return drop(last),
                Err(shared) => database = shared,
            }
            std::thread::park_timeout(Duration::from_micros(100));
        }
    }

    /// Closes the database and opens it again.
    pub(super) fn reopen(&self) -> Result<(), OpenError> {
        self.close();
        let database = self.connect()?;
        *self.database.write() = Some(Arc::new(database));
        Ok(())
    }

    fn connect(&self) -> Result<Database, OpenError> {
        let refused = |error| OpenError::database(self.path.clone(), error);
        let backend = (self.opener)().map_err(refused)?;
        let (counters, prompt) = (Arc::clone(&self.counters), Arc::clone(&self.prompt));
        let metered = Metered { inner: backend, counters, prompt };
        let mut builder = Builder::new();
        builder.set_cache_size(self.cache_bytes);
        // A damaged file may mislead redb into a panic, which is as clear a sign.
        let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.create_with_backend(metered)));
        let Ok(opened) = opened else {
            return Err(OpenError::Corrupt { path: self.path.clone(), what: "it cannot be read".to_owned() });
        };
        let database = opened.map_err(refused)?;
        Ok(database)
    }
}

impl Disk {
    /// What readers and writers hear while the database is closed.
    pub(super) fn unavailable(why: Option<Arc<str>>) -> StoreError {
        StoreError::Unavailable(why.unwrap_or_else(|| "it is being opened again".into()))
    }
}

fn journal_of(path: &Path) -> PathBuf {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    journal.into()
}

/// A journal that lies beside its file.
struct Beside {
    path: PathBuf,
    /// Which file it is, by device and number.
    opened: Mutex<Option<(u64, u64)>>,
}

impl Shelf for Beside {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let open = || {
            let is_new = !self.path.exists();
            let file = open_file(&self.path)?;
            // Who made it may have died before its name was safe.
            let synced = sync_directory(&self.path);
            if is_new {
                synced?;
            }
            *self.opened.lock() = Some(place(&file.metadata()?));
            LimitedFile::new(file).map_err(io::Error::other)
        };
        let said = |error: io::Error| io::Error::new(error.kind(), format!("its journal: {error}"));
        Ok(Box::new(open().map_err(said)?))
    }

    fn retire(&self) -> io::Result<()> {
        // Somebody may have put other files here while this one was open.
        let is_there = std::fs::metadata(&self.path).is_ok_and(|found| Some(place(&found)) == *self.opened.lock());
        if is_there { std::fs::remove_file(&self.path) } else { Ok(()) }
    }
}

fn place(file: &std::fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes a new file's name durable: without it the file may be gone after a power cut, whatever was synced inside.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// A storage that is measured.
#[derive(Debug)]
struct Metered {
    inner: Box<dyn StorageBackend>,
    counters: Arc<DiskCounters>,
    prompt: Arc<Prompt>,
}

impl StorageBackend for Metered {
    fn len(&self) -> io::Result<u64> {
        let bytes = self.inner.len()?;
        self.counters.bytes.store(bytes, Relaxed);
        Ok(bytes)
    }

    /// Called for what redb has not in its own cache.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let started = Instant::now();
        self.inner.read(offset, out)?;
        let took_ns = started.elapsed().as_nanos() as u64;
        if took_ns > QUICK_READ_NS {
            self.counters.slow_reads.fetch_add(1, Relaxed);
        }
        // Lossy between threads, which an average forgives. One read of a busy disk weighs enough to be noticed.
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
        self.prompt.synced();
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
