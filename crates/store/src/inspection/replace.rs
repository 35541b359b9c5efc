//! Gives a repaired store the name of the damaged one.
//!
//! Invariant: the path of the store always leads to a whole file, and nothing is renamed that the inspection has not
//! read.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redb::StorageBackend;
use redb::backends::FileBackend;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::Inspection;
use crate::file::create;
use crate::file::disk::{inode_of, journal_of, open_regular};

/// Time to wait for another program that replaces files of the same directory.
const TURN_TIMEOUT: Duration = Duration::from_secs(3);

impl Inspection {
    /// Replaces the damaged file with the repaired one, which gets its owner and its mode. The damaged file and its
    /// journal are kept under another name, which is returned.
    ///
    /// The two files exchange their names in one step, so the path of the store always leads to a whole file. Both are
    /// locked until the journal has its new name, so no node opens them before. Only one program replaces files of a
    /// directory at a time.
    ///
    /// # Errors
    /// The operating system's error if a file cannot be renamed, or an error if the file or its journal was replaced
    /// since it was opened, or if another program has locked the directory: then they are left alone, and the repaired
    /// file is removed.
    pub fn replace(&self, repaired: &Path) -> io::Result<PathBuf> {
        let path = &self.files.store;
        // Both locks are released when the files are closed, after all names are changed.
        let locked = lock_directory(path).and_then(|directory| Ok((directory, self.claim(repaired)?)));
        let _locks = locked.inspect_err(|_| drop(fs::remove_file(repaired)))?;
        if !self.files.are_there() {
            drop(fs::remove_file(repaired));
            return Err(io::Error::other(
                "it was replaced meanwhile, by another repair or by a node: it was left alone",
            ));
        }
        let named = |number: u32| {
            let mut name = path.as_os_str().to_owned();
            name.push(if number == 0 { ".damaged".to_owned() } else { format!(".damaged-{number}") });
            PathBuf::from(name)
        };
        let is_free =
            |kept: &PathBuf| fs::symlink_metadata(kept).is_err() && fs::symlink_metadata(journal_of(kept)).is_err();
        let kept = (0..1000).map(named).find(is_free).ok_or(ErrorKind::AlreadyExists)?;
        match renameat_with(CWD, path, CWD, repaired, RenameFlags::EXCHANGE) {
            Ok(()) => fs::rename(repaired, &kept)?,
            // A file system that cannot exchange names.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_in_steps(path, repaired, &kept)?,
            Err(error) => return Err(error.into()),
        }
        let journal = journal_of(path);
        let is_ours = |found: fs::Metadata| Some(inode_of(&found)) == self.files.journal_inode;
        if fs::metadata(&journal).is_ok_and(is_ours) {
            fs::rename(&journal, journal_of(&kept))?;
        }
        create::sync_directory(path)?;
        Ok(kept)
    }

    /// Locks the repaired file, so that no node opens it until it is closed, and gives it the owner and the mode of the
    /// damaged one.
    fn claim(&self, repaired: &Path) -> io::Result<FileBackend> {
        let file = open_regular(repaired, OpenOptions::new().read(true).write(true))?;
        let old = fs::metadata(&self.files.store)?;
        // Fails if it would change and the user is not root; then the file stays the user's.
        drop(fchown(&file, Some(old.uid()), Some(old.gid())));
        file.set_permissions(old.permissions())?;
        let locked = FileBackend::new(file).map_err(io::Error::other)?;
        match locked.try_lock_shared_range(Bound::Unbounded, Bound::Unbounded) {
            Ok(false) => Err(io::Error::other("another program has opened the repaired file")),
            // A file system without locks.
            Ok(true) | Err(_) => Ok(locked),
        }
    }
}

/// Returns the path of the store that has a journal of this name.
pub(super) fn store_of(journal: &Path) -> Option<PathBuf> {
    let name = journal.file_name()?.to_str()?.strip_suffix("-journal").filter(|name| !name.is_empty())?;
    Some(journal.with_file_name(name))
}

/// Waits for its turn to replace files of the directory of this file.
fn lock_directory(path: &Path) -> io::Result<File> {
    let directory = File::open(path.parent().unwrap_or_else(|| Path::new("/")))?;
    let started = Instant::now();
    loop {
        match directory.try_lock() {
            Ok(()) => return Ok(directory),
            Err(TryLockError::WouldBlock) if started.elapsed() < TURN_TIMEOUT => {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                let what = "another program has locked its directory: end that program, and try again";
                return Err(io::Error::new(ErrorKind::ResourceBusy, what));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Renames both files where names cannot be exchanged.
fn rename_in_steps(path: &Path, repaired: &Path, kept: &Path) -> io::Result<()> {
    match fs::hard_link(path, kept) {
        Ok(()) => fs::rename(repaired, path),
        // Without hard links, the path leads to no file for an instant.
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
            fs::rename(path, kept)?;
            create::publish(repaired, path)?;
            drop(fs::remove_file(repaired));
            Ok(())
        }
        Err(error) => Err(error),
    }
}
