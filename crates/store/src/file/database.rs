//! A redb database that is verified before it is used, and abandoned after a panic in redb.
//!
//! ```text
//!   redb ──▶ VerifiedStorage ──▶ Metered ──▶ Journaled ──▶ file and journal
//!              ├ first access, once the file is locked: header, commit and every page are verified
//!              ├ each write: the checksums of its blocks are recorded
//!              └ each read: they are compared
//! ```
//!
//! redb trusts a file that was closed. A damaged page misleads it into wrong values, a panic, or a second panic in a
//! destructor, which aborts the program. So a damaged file never reaches redb: [`Salvage`] reads it instead.
//!
//! Invariant: redb only reads bytes as it wrote them, and no redb value is dropped after a panic inside it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};
use redb::{BackendError, Builder, Database, DatabaseError, ReadableDatabase, StorageBackend};
use thiserror::Error;

use crate::error::OpenError;
use crate::file::checksums::BlockChecksums;
use crate::file::journal::label;
use crate::file::pages::{HEADER, Header, PAGE, Pages, Slot};
use crate::file::salvage::Salvage;
use rusm_runtime::embed::panics;

/// Number of attempts to read the statistics of redb's cache while its writer changes them.
const STATS_ATTEMPTS: u32 = 16;

/// An opened database.
#[expect(clippy::large_enum_variant, reason = "only one exists for each open file")]
pub(crate) enum Opened {
    Intact(SafeDatabase),
    /// Part of the file cannot be read: it stays locked, and accepts no writes.
    Damaged(Salvage),
}

/// Reason why a database was not opened.
#[derive(Debug)]
pub(crate) enum OpenFailure {
    Database(DatabaseError),
    /// Nothing of the file can be read; the text says why.
    Corrupt(String),
}

impl OpenError {
    pub(crate) fn opening(path: PathBuf, failure: OpenFailure) -> Self {
        match failure {
            OpenFailure::Database(error) => Self::database(path, error),
            OpenFailure::Corrupt(what) => Self::corrupt(path, what),
        }
    }
}

impl From<DatabaseError> for OpenFailure {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Opens a database, and verifies all of it first if `does_verify`; redb gets the storage that `wrap` returns.
pub(crate) fn open<B: StorageBackend>(
    storage: Box<dyn StorageBackend>,
    cache_bytes: usize,
    does_verify: bool,
    wrap: impl FnOnce(VerifiedStorage) -> B,
) -> Result<Opened, OpenFailure> {
    panics::install();
    let verified = VerifiedStorage(Arc::new(VerifiedInner {
        storage: RwLock::new(Some(storage)),
        checksums: does_verify.then(BlockChecksums::default),
        verdict: Mutex::new(if does_verify { Verdict::Unverified } else { Verdict::Intact }),
    }));
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    let backend = wrap(verified.clone());
    let opened = panics::silence_panics(|| catch_unwind(AssertUnwindSafe(|| builder.create_with_backend(backend))));
    let verdict = std::mem::replace(&mut *verified.0.verdict.lock(), Verdict::Intact);
    if let Verdict::Damaged(found) = verdict {
        let salvaged = found.and_then(|(header, slot)| {
            Salvage::new(Box::new(verified.clone()), &header, slot).map_err(|error| error.to_string())
        });
        return salvaged.map(Opened::Damaged).map_err(|what| {
            verified.abandon();
            OpenFailure::Corrupt(what)
        });
    }
    match opened {
        Ok(Ok(database)) => Ok(Opened::Intact(SafeDatabase {
            database: Some(database),
            has_panicked: AtomicBool::new(false),
            verified,
        })),
        Ok(Err(error)) => Err(error.into()),
        // Unwinding has already dropped the database.
        Err(payload) => {
            verified.abandon();
            drop(panics::reason(payload));
            Err(OpenFailure::Corrupt("redb cannot read it".to_owned()))
        }
    }
}

/// A redb database for code that does not need a [`Store`](crate::Store): verified when it is opened, with a journal,
/// and never dropped after a panic in it.
pub struct SafeDatabase {
    /// `None` only while it is dropped.
    database: Option<Database>,
    has_panicked: AtomicBool,
    verified: VerifiedStorage,
}

/// Error returned when redb has panicked; the database can no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("redb panicked, so the file must be opened again")]
pub struct Panicked;

impl SafeDatabase {
    /// Runs code that uses the database. A panic in the code is silent, and makes the database unusable.
    ///
    /// Values that the code gets from redb must not be dropped by unwinding: a second panic in a destructor would abort
    /// the program.
    ///
    /// # Errors
    /// [`Panicked`] if redb panics, or has panicked before.
    pub fn run<T>(&self, code: impl FnOnce(&Database) -> T) -> Result<T, Panicked> {
        let Some(database) = self.database.as_ref().filter(|_| !self.has_panicked()) else { return Err(Panicked) };
        let outcome = panics::silence_panics(|| catch_unwind(AssertUnwindSafe(|| code(database))));
        outcome.map_err(|payload| {
            self.has_panicked.store(true, Relaxed);
            let reason = panics::reason(payload);
            tracing::error!(%reason, "redb panicked, so its database is no longer used");
            Panicked
        })
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.has_panicked.load(Relaxed)
    }

    /// Returns the size of the pages that redb keeps in memory, in bytes.
    pub(crate) fn cache_bytes(&self) -> Option<usize> {
        let database = self.database.as_ref().filter(|_| !self.has_panicked())?;
        // redb subtracts counters that its writer changes meanwhile, which panics in a program with overflow checks.
        // Only counters are loaded, so the database stays usable, and another attempt succeeds.
        let stats = || catch_unwind(AssertUnwindSafe(|| database.cache_stats().used_bytes()));
        panics::silence_panics(|| (0..STATS_ATTEMPTS).find_map(|_| stats().ok()))
    }
}

impl Drop for SafeDatabase {
    fn drop(&mut self) {
        let Some(database) = self.database.take() else { return };
        if self.has_panicked() {
            std::mem::forget(database);
            self.verified.abandon();
            return;
        }
        if let Err(payload) = panics::silence_panics(|| catch_unwind(AssertUnwindSafe(|| drop(database)))) {
            drop(panics::reason(payload));
            self.verified.abandon();
        }
    }
}

impl fmt::Debug for SafeDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SafeDatabase").field("has_panicked", &self.has_panicked).finish_non_exhaustive()
    }
}

/// Result of the verification of a storage.
#[expect(clippy::large_enum_variant, reason = "only one exists for each open file")]
enum Verdict {
    /// The storage has not been verified yet.
    Unverified,
    Intact,
    /// The commit from which to salvage rows, or the reason why none can be read.
    Damaged(Result<(Header, Slot), String>),
}

struct VerifiedInner {
    /// `None` once the storage was abandoned.
    storage: RwLock<Option<Box<dyn StorageBackend>>>,
    /// `None` for a storage that is not verified.
    checksums: Option<BlockChecksums>,
    verdict: Mutex<Verdict>,
}

/// A storage that verifies itself at its first use, and compares blocks when they are read again.
#[derive(Clone)]
pub(crate) struct VerifiedStorage(Arc<VerifiedInner>);

impl fmt::Debug for VerifiedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedStorage").finish_non_exhaustive()
    }
}

impl VerifiedStorage {
    fn with<T>(&self, code: impl FnOnce(&dyn StorageBackend) -> io::Result<T>) -> io::Result<T> {
        match &*self.0.storage.read() {
            Some(storage) => code(&**storage),
            None => Err(io::Error::other("the storage is no longer in use")),
        }
    }

    fn lock(&self, code: impl FnOnce(&dyn StorageBackend) -> Result<bool, BackendError>) -> Result<bool, BackendError> {
        self.0.storage.read().as_ref().map_or(Ok(false), |storage| code(&**storage))
    }

    /// Releases the storage as if the program had ended: nothing is written, and its locks are freed.
    pub(crate) fn abandon(&self) {
        drop(self.0.storage.write().take());
    }

    /// Verifies the storage, once.
    fn verify(&self) -> io::Result<()> {
        let mut verdict = self.0.verdict.lock();
        if let (Verdict::Unverified, Some(checksums)) = (&*verdict, &self.0.checksums) {
            *verdict = self.with(|storage| verify(storage, checksums))?;
        }
        match &*verdict {
            Verdict::Damaged(_) => Err(io::Error::new(ErrorKind::InvalidData, "it is damaged")),
            _ => Ok(()),
        }
    }
}

fn verify(storage: &dyn StorageBackend, checksums: &BlockChecksums) -> io::Result<Verdict> {
    let len = storage.len()?;
    if len == 0 {
        return Ok(Verdict::Intact);
    }
    if len < PAGE {
        return Ok(Verdict::Damaged(Err(format!("it is truncated: {len} bytes are left of at least {PAGE}"))));
    }
    let bytes: [u8; HEADER] = label::header(storage)?;
    let header = match Header::read(&bytes) {
        Ok(header) => header,
        Err(what) => return Ok(Verdict::Damaged(Err(what))),
    };
    let candidates = header.candidates();
    let Some(first) = candidates.first().copied() else {
        return Ok(Verdict::Damaged(Err("its header is damaged, and no copy of it exists".to_owned())));
    };
    let pages = Pages::new(storage, &header)?;
    // After a crash, the newest commit may be an unacknowledged one; with a label it is not.
    let is_acknowledged = header.is_clean() || matches!(label::read(storage)?, label::Found::Label(_));
    let tried = if is_acknowledged { &candidates[..1] } else { &candidates[..] };
    for slot in tried {
        if pages.verify(slot, &mut |offset, page| checksums.record(offset, page))? {
            return Ok(Verdict::Intact);
        }
    }
    Ok(Verdict::Damaged(Ok((header, first))))
}

impl StorageBackend for VerifiedStorage {
    fn len(&self) -> io::Result<u64> {
        self.verify()?;
        self.with(StorageBackend::len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|storage| storage.read(offset, out))?;
        if self.0.checksums.as_ref().is_none_or(|checksums| checksums.match_recorded(offset, out)) {
            return Ok(());
        }
        let what = format!("the page at {offset} differs from what was written");
        Err(io::Error::new(ErrorKind::InvalidData, what))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|storage| storage.set_len(len))?;
        if let Some(checksums) = &self.0.checksums {
            checksums.truncate(len);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(StorageBackend::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(checksums) = &self.0.checksums {
            checksums.record(offset, data);
        }
        self.with(|storage| storage.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        // redb closes a storage that it cannot open, but the rest of a damaged file is still read.
        if let Verdict::Damaged(Ok(_)) = *self.0.verdict.lock() {
            return Ok(());
        }
        if std::thread::panicking() {
            self.abandon();
            return Ok(());
        }
        self.with(StorageBackend::close)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.lock(|storage| storage.try_lock_range(start, end))
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.lock(|storage| storage.try_lock_shared_range(start, end))
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock(|storage| storage.lock_range(start, end).map(|()| true)).map(drop)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock(|storage| storage.lock_shared_range(start, end).map(|()| true)).map(drop)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock(|storage| storage.unlock_range(start, end).map(|()| true)).map(drop)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.lock(|storage| storage.query_lock_range(start, end))
    }
}
