//! Why a store did not open, and why an operation on it was not done.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

use redb::{CommitError, DatabaseError, StorageError, TableError, TransactionError};
use rusm_text::escaped;
use thiserror::Error;

use super::database::OpenFailure;
use super::pages::KeyRange;

/// Why a store did not open.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Somebody else has it open: this process or another one. Stop that one, or open it once and share the handle.
    #[error("{} is open already, in this process or in another one", escaped(path.display()))]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file, or a directory above it, may not be written. Change its permissions or choose another place.
    #[error("cannot write {}: {source}", escaped(path.display()))]
    Denied {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// There is no room for it. Free some.
    #[error("the disk of {} is full: {source}", escaped(path.display()))]
    Full {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file is damaged, or it never was a store. Restore it from a copy, or move it away.
    #[error("{} is not a store or is damaged: {}", escaped(path.display()), escaped(what))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// It is a pipe, a socket or a device. Choose the path of a file, or one where there is nothing.
    #[error("{} is not a regular file but a {kind}: choose another path", escaped(path.display()))]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of file that was found.
        kind: &'static str,
    },
    /// The file has no bytes. Restore it from a copy, or remove it to begin a new store.
    #[error("{} is empty (0 bytes), and no store is: restore it from a copy, or remove it to begin a new store", escaped(path.display()))]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A newer version wrote the file. Open it with that one.
    #[error("{} is of format {found}, this version knows formats up to {known}", escaped(path.display()))]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that this version reads.
        known: u64,
    },
    /// Another application keeps something else in the file. Choose another one.
    #[error("{} belongs to another application: it has the table `{}`", escaped(path.display()), escaped(table))]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What was found.
        table: String,
    },
    /// The operating system refused something else, such as a directory that does not exist.
    #[error("cannot open {}: {source}", escaped(path.display()))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Choose a number in the range.
    #[error("{name} of {value} is not between {min} and {max}")]
    OutOfRange {
        /// The field of [`StoreConfig`](super::StoreConfig).
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
}

impl OpenError {
    pub(super) fn io(path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::Denied { path, source },
            kind if means_full(kind) => Self::Full { path, source },
            // What redb says of a file that is none of its own.
            ErrorKind::InvalidData => Self::Corrupt { path, what: source.to_string() },
            _ => Self::Io { path, source },
        }
    }

    pub(super) fn opening(path: PathBuf, failure: OpenFailure) -> Self {
        match failure {
            OpenFailure::Database(error) => Self::database(path, error),
            OpenFailure::Corrupt(what) => Self::corrupt(path, what),
        }
    }

    fn corrupt(path: PathBuf, what: String) -> Self {
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
            other => Self::Corrupt { path, what: other.to_string() },
        }
    }
}

/// Returns true if there is no room for what was to be written: on the disk, in the quota, or below the limit on file sizes.
pub(super) const fn means_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// The formats in what redb says of a file that a newer version of it wrote.
fn newer_format(what: &str) -> Option<(u64, u64)> {
    let (known, found) = what.strip_prefix("Expected file format version <= ")?.split_once(", found ")?;
    Some((found.parse().ok()?, known.parse().ok()?))
}

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Choose another name.
    #[error("`{}` is no name for a bucket: 1 to {max} letters, digits and . _ - / :", escaped(name))]
    BucketName {
        /// The name, or as much of it as may be long.
        name: String,
        /// The most bytes allowed.
        max: usize,
    },
    /// Use the buckets that there are, with prefixes for what belongs together.
    #[error("a store has at most {max} buckets")]
    TooManyBuckets {
        /// How many there may be.
        max: usize,
    },
    /// Use a shorter key that is not empty.
    #[error("a key of {bytes} bytes is not between 1 and {max}")]
    Key {
        /// The key's length.
        bytes: usize,
        /// The most allowed.
        max: usize,
    },
    /// Store it in parts.
    #[error("a value of {bytes} bytes is over the limit of {max}")]
    ValueTooLarge {
        /// The value's length.
        bytes: usize,
        /// The most allowed.
        max: usize,
    },
    /// Use several transactions.
    #[error("a transaction of {size} {unit} is over the limit of {max}")]
    TransactionTooLarge {
        /// How large it became.
        size: usize,
        /// What was counted: operations or bytes.
        unit: &'static str,
        /// The most allowed.
        max: usize,
    },
    /// Ask for fewer rows at once.
    #[error("a limit of {limit} rows is not between 1 and {max}")]
    Rows {
        /// How many were asked for.
        limit: usize,
        /// The most allowed.
        max: usize,
    },
    /// The disk has no room, or the file is as large as `ulimit -f` allows; nothing of the operation is kept. The store goes on by itself when there is some again.
    #[error("the disk of the store is full")]
    Full,
    /// The file is damaged. Restore it from a copy, or run `rusm store repair` on it.
    #[error("the store is damaged: {}", escaped(.0))]
    Corrupt(Arc<str>),
    /// Part of the file is damaged, and what was asked for may be in it. What is not in the range can be read.
    #[error("the store is damaged: {0}: run `rusm store repair` on its file")]
    Damaged(Box<Damage>),
    /// A damaged store takes no writes. Stop what uses it, and run `rusm store repair` on its file.
    #[error("the store is damaged, so it takes no writes: run `rusm store repair {0}`")]
    ReadOnly(Arc<str>),
    /// The disk refused to write or to sync. Whether the operation is kept is known only when it is read again.
    #[error("the disk of the store failed: {}", escaped(.0))]
    Failed(Arc<str>),
    /// An earlier failure closed the file, and it could not be opened again yet; try again later.
    #[error("the store is not available: {}", escaped(.0))]
    Unavailable(Arc<str>),
    /// The code of the transaction panicked; nothing of it is kept.
    #[error("the transaction panicked: {}", escaped(.0))]
    Panicked(Arc<str>),
    /// The store was closed before.
    #[error("the store is closed")]
    Closed,
    /// Use `.await` in a process; `wait()` would hold up its scheduler.
    #[error("a process must not wait for the store with a blocking call")]
    OnScheduler,
}

/// A part of a store that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The bucket; `None` if it is the list of buckets, or a table of the store's own.
    pub bucket: Option<Arc<str>>,
    /// The table of the store's own.
    pub table: Option<Arc<str>>,
    /// The keys that may be in the part.
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
    /// What a failed read or write of the disk means.
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
            "cannot write /mnt/a.redb: read-only filesystem or storage medium"
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
