//! Errors of opening a store, and of operations on it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

use redb::{CommitError, DatabaseError, StorageError, TableError, TransactionError};
use rusm_runtime::NameError;
use rusm_text::escaped;
use thiserror::Error;

use super::file::pages::key_range::KeyRange;

/// Error returned when a store cannot be opened.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::{OpenError, Store, StoreConfig};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// let _store = Store::open(&path, StoreConfig::default())?;
/// let again = Store::open(&path, StoreConfig::default());
/// assert!(matches!(again, Err(OpenError::InUse { path: used }) if used == path));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Error)]
pub enum OpenError {
    /// The store is already open, in this process or another one. Close it there, or open it once and share the handle.
    #[error("{} is already open, in this process or in another one", escaped(path.display()))]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file, or a directory above it, is not writable. Change its permissions or choose another path.
    #[error("cannot access {}: {source}", escaped(path.display()))]
    Denied {
        /// The file.
        path: PathBuf,
        /// Error returned by the operating system.
        source: io::Error,
    },
    /// The disk is full. Free some space.
    #[error("the disk of {} is full: {source}", escaped(path.display()))]
    Full {
        /// The file.
        path: PathBuf,
        /// Error returned by the operating system.
        source: io::Error,
    },
    /// The file is damaged, or was never a store. Restore it from a copy, or move it away.
    #[error("{} is not a store or is damaged: {}", escaped(path.display()), escaped(what))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// The path is a pipe, a socket or a device. Choose the path of a regular file, or one that does not exist.
    #[error("{} is not a regular file but a {kind}: choose another path", escaped(path.display()))]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of file found.
        kind: &'static str,
    },
    /// The file is empty. Restore it from a copy, or remove it to begin a new store.
    #[error("{} is empty (0 bytes), so it is not a store: restore it from a copy, or remove it to create a new store", escaped(path.display()))]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A newer version wrote the file. Open it with that version.
    #[error("{} has format {found}, but this version supports only formats up to {known}", escaped(path.display()))]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that this version reads.
        known: u64,
    },
    /// The file contains data of another application. Choose another file.
    #[error("{} belongs to another application: it has the table `{}`", escaped(path.display()), escaped(table))]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The table found.
        table: String,
    },
    /// Another operation of the operating system failed, for example because a directory does not exist.
    #[error("cannot open {}: {source}", escaped(path.display()))]
    Io {
        /// The file.
        path: PathBuf,
        /// Error returned by the operating system.
        source: io::Error,
    },
    /// A configured number is out of range. Choose one in the range.
    #[error("{name} of {value} is not between {min} and {max}")]
    OutOfRange {
        /// The field of [`StoreConfig`](super::StoreConfig).
        name: &'static str,
        /// Its value.
        value: u64,
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
}

impl OpenError {
    pub(super) fn io(path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::Denied { path, source },
            kind if means_full(kind) => Self::Full { path, source },
            // redb's error for a file that it did not write.
            ErrorKind::InvalidData => Self::Corrupt { path, what: source.to_string() },
            _ => Self::Io { path, source },
        }
    }

    pub(super) fn corrupt(path: PathBuf, what: String) -> Self {
        match newer_format(&what) {
            Some((found, known)) => Self::Newer { path, found, known },
            None => Self::Corrupt { path, what },
        }
    }

    pub(super) fn database(path: PathBuf, error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen => Self::InUse { path },
            DatabaseError::Storage(StorageError::Io(source)) => Self::io(path, source),
            DatabaseError::Storage(StorageError::Corrupted(what)) => Self::corrupt(path, what),
            other => Self::Corrupt { path, what: other.to_string() },
        }
    }

    pub(super) fn storage(path: PathBuf, error: &StoreError) -> Self {
        match error {
            StoreError::Full => Self::Full { path, source: ErrorKind::StorageFull.into() },
            StoreError::Failed(what) | StoreError::Unavailable(what) => {
                Self::Io { path, source: io::Error::other(what.to_string()) }
            }
            other => Self::Corrupt { path, what: other.to_string() },
        }
    }
}

/// Returns true if a write failed for lack of space: on the disk, in the quota, or below the limit on file sizes.
pub(super) const fn means_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Parses the formats from redb's error for a file that a newer version of redb wrote.
fn newer_format(what: &str) -> Option<(u64, u64)> {
    let (known, found) = what.strip_prefix("Expected file format version <= ")?.split_once(", found ")?;
    Some((found.parse().ok()?, known.parse().ok()?))
}

/// Error returned when an operation was not done.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::{Store, StoreConfig, StoreError};
///
/// # let directory = tempfile::tempdir()?;
/// let config = StoreConfig { value_bytes_max: 1_024, ..StoreConfig::default() };
/// let store = Store::open(directory.path().join("node.redb"), config)?;
/// let photos = store.bucket("photos")?;
/// match photos.put("ada", vec![0; 5_000]).wait() {
///     Err(StoreError::ValueTooLarge { max, .. }) => assert_eq!(max, 1_024), // store it in parts
///     other => unreachable!("the value is too large: {other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The name of the bucket, or of the queue of jobs, is empty or too long.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The store has too many buckets. Use existing ones, with prefixes for related keys.
    #[error("a store has at most {max} buckets: delete all keys of one that is not needed")]
    TooManyBuckets {
        /// The maximum number of buckets.
        max: usize,
    },
    /// The store keeps its last buckets for callers that may use this name only. Use existing buckets, with prefixes for
    /// related keys.
    #[error("the store has {max} buckets, and keeps the others for names that are granted without a star")]
    TooManyBucketsByPrefix {
        /// The number of buckets that there may be at most when one is created by a prefix.
        max: usize,
    },
    /// The key is empty or too long. Use a shorter one that is not empty.
    #[error("a key of {bytes} bytes is not between 1 and {max}")]
    Key {
        /// The key's length.
        bytes: usize,
        /// The maximum length.
        max: usize,
    },
    /// The value is too large. Store it in parts.
    #[error("a value of {bytes} bytes is over the limit of {max}")]
    ValueTooLarge {
        /// The value's length.
        bytes: usize,
        /// The maximum length.
        max: usize,
    },
    /// The transaction is too large. Use several.
    #[error("a transaction of {size} {unit} is over the limit of {max}")]
    TransactionTooLarge {
        /// The size that it reached.
        size: usize,
        /// The unit of the size: operations or bytes.
        unit: &'static str,
        /// The maximum size.
        max: usize,
    },
    /// A transaction of one store cannot use a bucket of another one. Use several transactions.
    #[error("bucket {bucket:?} belongs to another store than the transaction")]
    OtherStore {
        /// Name of the bucket.
        bucket: String,
    },
    /// The number of rows is out of range. Request fewer rows at once.
    #[error("a limit of {limit} rows is not between 1 and {max}")]
    Rows {
        /// The number of rows requested.
        limit: usize,
        /// The maximum number.
        max: usize,
    },
    /// The disk is full, or the file is as large as `ulimit -f` allows; nothing of the operation is kept. The store
    /// resumes by itself when there is space again.
    #[error("the disk of the store is full")]
    Full,
    /// The file is damaged. Restore it from a copy, or run `rusm store repair` on it.
    #[error("the store is damaged: {}", escaped(.0))]
    Corrupt(Arc<str>),
    /// Part of the file is damaged, and the requested data may be in it. Data outside of the range can be read.
    #[error("the store is damaged: {0}: run `rusm store repair` on its file")]
    Damaged(Box<Damage>),
    /// A damaged store accepts no writes. Stop its users, and run `rusm store repair` on its file.
    #[error("the store is damaged, so it accepts no writes: run `rusm store repair {0}`")]
    ReadOnly(Arc<str>),
    /// A write or a sync failed. Read the data again to find out whether the operation was kept.
    #[error("the disk of the store failed: {}", escaped(.0))]
    Failed(Arc<str>),
    /// An earlier failure closed the file, and it could not be reopened yet. Try again later.
    #[error("the store is not available: {}", escaped(.0))]
    Unavailable(Arc<str>),
    /// The code of the transaction panicked; nothing of the transaction is kept.
    #[error("the transaction panicked: {}", escaped(.0))]
    Panicked(Arc<str>),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// A process called `wait()`, which would block its scheduler. Use `.await` in a process.
    #[error("a process must not block on the store: call the asynchronous function, and `.await` it")]
    OnScheduler,
}

/// A part of a store that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The bucket; `None` for the list of buckets, or for one of the store's own tables.
    pub bucket: Option<Arc<str>>,
    /// The name of the store's own table.
    pub table: Option<Arc<str>>,
    /// Keys that may be in the part.
    pub range: KeyRange,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.bucket, &self.table) {
            (Some(bucket), _) => write!(f, "bucket `{}`", rusm_text::escape(bucket))?,
            (None, Some(table)) => write!(f, "table `{}`", rusm_text::escape(table))?,
            (None, None) => f.write_str("the list of buckets")?,
        }
        write!(f, ", {}", self.range)
    }
}

impl StoreError {
    /// Converts a failed read or write of the disk.
    pub(super) fn io(error: &io::Error) -> Self {
        match error.kind() {
            kind if means_full(kind) => Self::Full,
            ErrorKind::InvalidData => Self::Corrupt(error.to_string().into()),
            _ => Self::Failed(error.to_string().into()),
        }
    }
}

impl From<StorageError> for StoreError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Io(error) => Self::io(&error),
            StorageError::Corrupted(what) => Self::Corrupt(what.into()),
            StorageError::PreviousIo | StorageError::DatabaseClosed => Self::Unavailable("an earlier failure".into()),
            other => Self::Failed(other.to_string().into()),
        }
    }
}

impl From<TableError> for StoreError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Storage(error) => error.into(),
            other => Self::Corrupt(other.to_string().into()),
        }
    }
}

impl From<TransactionError> for StoreError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Storage(error) => error.into(),
            other => Self::Failed(other.to_string().into()),
        }
    }
}

impl From<CommitError> for StoreError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Storage(error) => error.into(),
            other => Self::Failed(other.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_disk_is_told_from_one_that_is_full() {
        let at = |kind: ErrorKind| OpenError::io(PathBuf::from("/mnt/a.redb"), kind.into()).to_string();

        assert_eq!(
            at(ErrorKind::ReadOnlyFilesystem),
            "cannot access /mnt/a.redb: read-only filesystem or storage medium"
        );
        assert_eq!(at(ErrorKind::StorageFull), "the disk of /mnt/a.redb is full: no storage space");
        assert_eq!(at(ErrorKind::FileTooLarge), "the disk of /mnt/a.redb is full: file too large");
        assert_eq!(at(ErrorKind::NotFound), "cannot open /mnt/a.redb: entity not found");
        assert_eq!(StoreError::io(&ErrorKind::FileTooLarge.into()), StoreError::Full);
    }

    #[test]
    fn the_format_of_a_newer_file_is_read_from_what_redb_says() {
        assert_eq!(newer_format("Expected file format version <= 3, found 4"), Some((4, 3)));
        assert_eq!(newer_format("Invalid magic number"), None);
    }
}
