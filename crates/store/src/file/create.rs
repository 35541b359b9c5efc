//! Creation of a redb file, which gets its name only when it is complete.
//!
//! redb creates a file in two steps. If the process dies between them, or the disk is full, a file would remain that
//! cannot be opened.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use redb::{Builder, DatabaseError, StorageError};

use crate::file::limited_file::LimitedFile;

/// Creates a database at a path, durably including its name, unless something exists there.
pub(crate) fn create_if_missing(path: &Path) -> Result<(), DatabaseError> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    let (temp, file) = create_temp(path).map_err(failed)?;
    let named = init_database(file).and_then(|()| match publish(&temp, path) {
        // Another process has created it meanwhile, and its name may not be durable yet.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => sync_directory(path).map_err(failed),
        named => named.map_err(failed),
    });
    drop(fs::remove_file(&temp));
    named
}

/// Creates a file next to `path` under a name that no other process uses.
pub(crate) fn create_temp(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 0_u64;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("-new-{}-{number}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            opened => return Ok((name.into(), opened?)),
        }
    }
}

/// Creates an empty database in a file.
pub(crate) fn init_database(file: File) -> Result<(), DatabaseError> {
    let again = file.try_clone().map_err(failed)?;
    drop(Builder::new().create_with_backend(LimitedFile::new(file)?)?);
    again.sync_all().map_err(failed)
}

/// Gives a file its name, durably.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if another file has that name.
pub(crate) fn publish(temp: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(temp, path) {
        // Without hard links, two concurrent creators may replace each other's file.
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
            if fs::symlink_metadata(path).is_ok() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            fs::rename(temp, path)?;
        }
        linked => linked?,
    }
    sync_directory(path)
}

fn failed(error: io::Error) -> DatabaseError {
    StorageError::Io(error).into()
}

/// Makes the name of a new file durable: without this the file may be gone after a power cut, even if its data was
/// synced.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
