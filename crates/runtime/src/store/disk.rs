//! The file under a store: opened with every refusal named, measured as it is used, opened again after a failure.
//!
//! ```text
//!   readers ──▶ source() ──▶ redb ──▶ Metered ──▶ Guarded ──▶ Journaled ──▶ file and journal     counts syncs, times reads
//!   writer  ──▶ reopen() after a failed commit: redb refuses everything from then on
//! ```
//!
//! Invariant: nobody waits for the file to be opened again; who comes meanwhile hears that the store is not available.

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

use super::birth;
use super::config::defaults::CACHE_BYTES;
use super::database::{self, Opened, SafeDatabase};
use super::error::{OpenError, StoreError};
use super::journal::{Journaled, Shelf, replay};
use super::limited_file::LimitedFile;
use super::prompt::Prompt;
use super::salvage::Salvage;

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
    verifies: bool,
    source: RwLock<Option<Source>>,
    pub(super) counters: Arc<DiskCounters>,
    pub(super) prompt: Arc<Prompt>,
}

/// Source that a store is read from.
#[derive(Clone)]
pub(super) enum Source {
    Database(Arc<SafeDatabase>),
    /// The readable rest of a damaged database.
    Salvage(Arc<Salvage>),
}

impl From<Opened> for Source {
    fn from(opened: Opened) -> Self {
        match opened {
            Opened::Sound(database) => Self::Database(Arc::new(database)),
            Opened::Damaged(salvage) => Self::Salvage(Arc::new(salvage)),
        }
    }
}

impl Disk {
    /// The file of this path, made if there is none.
    pub(super) fn open_file(path: &Path, cache_bytes: usize, verifies: bool) -> Result<Self, OpenError> {
        let opener = opener_of(path)?;
        Self::open(path.to_owned(), opener, cache_bytes, verifies)
    }

    pub(super) fn open(path: PathBuf, opener: Opener, cache_bytes: usize, verifies: bool) -> Result<Self, OpenError> {
        let (source, counters) = (RwLock::new(None), Arc::default());
        let disk = Self { path, opener, cache_bytes, verifies, source, counters, prompt: Arc::default() };
        let source = disk.connect()?;
        *disk.source.write() = Some(source);
        Ok(disk)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the source to read from, unless the store is being reopened. Keep it for one look only.
    pub(super) fn source(&self) -> Option<Source> {
        let source = self.source.read().clone();
        source.filter(|source| !matches!(source, Source::Database(database) if database.has_panicked()))
    }

    pub(super) fn is_open(&self) -> bool {
        self.source().is_some()
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
        let Some(mut source) = self.source.write().take() else { return };
        let started = Instant::now();
        while started.elapsed() < LETTING_GO {
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

    /// Closes the database and opens it again.
    pub(super) fn reopen(&self) -> Result<(), OpenError> {
        self.close();
        let source = self.connect()?;
        *self.source.write() = Some(source);
        Ok(())
    }

    fn connect(&self) -> Result<Source, OpenError> {
        let refused = |error| OpenError::database(self.path.clone(), error);
        let storage = (self.opener)().map_err(refused)?;
        let (counters, prompt) = (Arc::clone(&self.counters), Arc::clone(&self.prompt));
        let opened = database::open(storage, self.cache_bytes, self.verifies, |guarded| Metered {
            inner: Box::new(guarded),
            counters,
            prompt,
        });
        opened.map(Source::from).map_err(|failure| OpenError::opening(self.path.clone(), failure))
    }
}

/// Opens the file of a database that is no store, with the care that the file of a store gets.
pub(super) fn open_database(path: &Path) -> Result<SafeDatabase, OpenError> {
    let storage = opener_of(path)?().map_err(|error| OpenError::database(path.to_owned(), error))?;
    let opened = database::open(storage, CACHE_BYTES, true, |guarded| guarded);
    match opened.map_err(|failure| OpenError::opening(path.to_owned(), failure))? {
        Opened::Sound(database) => Ok(database),
        Opened::Damaged(salvage) => {
            let damage = salvage.damage().map_err(|error| OpenError::io(path.to_owned(), error))?;
            let first = damage.first().map_or_else(String::new, ToString::to_string);
            let what = format!("{first}: run `rusm store repair` on it");
            Err(OpenError::Corrupt { path: path.to_owned(), what })
        }
    }
}

/// Opens the file of this path and its journal, each time it is called; creates the file if there is none.
fn opener_of(path: &Path) -> Result<Opener, OpenError> {
    prepare(path)?;
    let file = open_file(path).map_err(|error| OpenError::io(path.to_owned(), error))?;
    drop(file);
    // However the file is named the next time, its journal is found.
    let again = path.canonicalize().map_err(|error| OpenError::io(path.to_owned(), error))?;
    // Who made it may have died before its name was safe. A folder that cannot be read keeps nobody from what is in it.
    drop(sync_directory(&again));
    let journal = journal_of(&again);
    Ok(Box::new(move || {
        let beside = Beside { path: journal.clone(), opened: Mutex::new(None) };
        Ok(Box::new(Journaled::new(LimitedFile::new(open_file(&again)?)?, beside)))
    }))
}

/// Creates the file of a new store, and refuses what is not the file of one.
fn prepare(path: &Path) -> Result<(), OpenError> {
    let journal = journal_of(path);
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
        // A journal without its file is of something else, which must not be taken for new.
        None if fs::metadata(&journal).is_ok_and(|found| found.len() > 0 || special(&found).is_some()) => {
            let refused = |error| OpenError::io(path.to_owned(), error);
            let file = open_regular(&journal, OpenOptions::new().read(true)).map_err(refused)?;
            let file = LimitedFile::new(file).map_err(|error| OpenError::database(path.to_owned(), error))?;
            Err(refused(replay::without_a_file(&file).map_err(refused)?))
        }
        None => birth::ensure(path).map_err(|error| OpenError::database(path.to_owned(), error)),
    }
}

/// What this is, if it is neither a file nor a folder.
fn special(found: &fs::Metadata) -> Option<&'static str> {
    let kind = found.file_type();
    let kinds = [
        (kind.is_fifo(), "pipe"),
        (kind.is_socket(), "socket"),
        (kind.is_char_device() || kind.is_block_device(), "device"),
    ];
    kinds.into_iter().find(|(is, _)| *is).map(|(_, kind)| kind)
}

/// Opens a file, and nothing that is not one.
pub(super) fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<File> {
    if let Some(kind) = fs::metadata(path).ok().as_ref().and_then(special) {
        let what = format!("{} is not a regular file but a {kind}", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    options.open(path)
}

impl Disk {
    /// What readers and writers hear while the database is closed.
    pub(super) fn unavailable(why: Option<Arc<str>>) -> StoreError {
        StoreError::Unavailable(why.unwrap_or_else(|| "it is being opened again".into()))
    }
}

pub(super) fn journal_of(path: &Path) -> PathBuf {
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
        let is_there = fs::metadata(&self.path).is_ok_and(|found| Some(place(&found)) == *self.opened.lock());
        if is_there { fs::remove_file(&self.path) } else { Ok(()) }
    }
}

fn place(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn open_file(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600))
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
