//! A new file for redb, which gets its name when it is whole.
//!
//! redb makes a file in two steps, and of whom dies between them, or finds the disk full, there would stay a file that nobody
//! can open.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redb::{Builder, DatabaseError, StorageError};

use super::disk::{open_file, sync_directory};

/// Tells apart those that this program makes at once.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Makes a database at a path, unless something is there; the name of either outlives a power cut afterwards.
pub(crate) fn ensure(path: &Path) -> Result<(), DatabaseError> {
    if fs::symlink_metadata(path).is_ok() {
        // Who made it may have died before its name was safe. A folder that cannot be read keeps nobody from what is in it.
        drop(sync_directory(path));
        return Ok(());
    }
    let mut whole = path.as_os_str().to_owned();
    whole.push(format!("-new-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed)));
    let whole = PathBuf::from(whole);
    let made = make(&whole).and_then(|()| name(&whole, path).map_err(failed));
    drop(fs::remove_file(&whole));
    made?;
    sync_directory(path).map_err(failed)
}

fn make(path: &Path) -> Result<(), DatabaseError> {
    let file = open_file(path).map_err(failed)?;
    let again = file.try_clone().map_err(failed)?;
    drop(Builder::new().create_file(file)?);
    again.sync_all().map_err(failed)
}

/// Gives a file its name, unless another has it by now.
fn name(whole: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(whole, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        // A file system without links.
        Err(_) => fs::rename(whole, path),
        Ok(()) => Ok(()),
    }
}

fn failed(error: io::Error) -> DatabaseError {
    StorageError::Io(error).into()
}
