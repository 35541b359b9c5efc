//! Files that a node creates and removes when it stops, and the lock on a node's name.
//!
//! ```text
//!   create ──▶ OwnedFile { path, device, inode } ──▶ drop: removed if the path still names that inode
//!   open ──▶ flock ──▶ the path still names that inode? ──▶ NameLock      else open again
//! ```
//!
//! Removal by path alone could remove a successor's file: after a node has closed its listener and before it removes
//! its files, another node may create files of the same names. The kernel releases the lock of a process that dies.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// A file that this node created; dropping it removes the file, unless another file has replaced it.
#[derive(Debug)]
pub struct OwnedFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// The kernel may reuse an inode number once the file is removed and closed, so the file stays open.
    _open: Option<File>,
}

impl OwnedFile {
    /// Takes ownership of an open file that `path` names.
    pub(crate) fn of(path: PathBuf, file: File) -> io::Result<Self> {
        let about = file.metadata()?;
        Ok(Self { path, device: about.dev(), inode: about.ino(), _open: Some(file) })
    }

    /// Takes ownership of a bound socket. Its listener prevents reuse of the inode.
    ///
    /// # Errors
    /// The error of the system.
    pub fn of_socket(path: PathBuf) -> io::Result<Self> {
        let about = fs::symlink_metadata(&path)?;
        Ok(Self { path, device: about.dev(), inode: about.ino(), _open: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true while the path names this file.
    fn is_in_place(&self) -> bool {
        let is_this = |about: Metadata| (about.dev(), about.ino()) == (self.device, self.inode);
        fs::symlink_metadata(&self.path).is_ok_and(is_this)
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        if !self.is_in_place() {
            return tracing::debug!(path = %self.path.display(), "not removed: the file belongs to another node");
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove file");
        }
    }
}

/// An exclusive lock on a node's name, held from before its socket is bound until after its files are removed.
#[derive(Debug)]
pub(crate) struct NameLock {
    // The file is removed while it is locked: a node that opened it just before locks a file without a name, and tries
    // again with a new one.
    _file: OwnedFile,
}

impl NameLock {
    /// Locks the file, creating it if it does not exist; returns `None` if another process holds the lock.
    pub(crate) fn acquire(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(flags.bits().cast_signed())
                .open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let file = OwnedFile::of(path.to_owned(), file)?;
            if file.is_in_place() {
                return Ok(Some(Self { _file: file }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owned_file_is_removed_and_a_successor_of_its_name_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let create = |name: &str| {
            let path = dir.path().join(name);
            OwnedFile::of(path.clone(), File::create_new(&path).unwrap()).unwrap()
        };
        let (own, lost, gone) = (create("own"), create("lost"), create("gone"));
        let [own_path, lost_path, gone_path] = [&own, &lost, &gone].map(|file| file.path().to_owned());
        fs::remove_file(&lost_path).unwrap();
        fs::write(&lost_path, "another node's").unwrap();
        fs::remove_file(&gone_path).unwrap();

        drop((own, lost, gone));

        assert!(!own_path.exists() && !gone_path.exists());
        assert_eq!(fs::read_to_string(lost_path).unwrap(), "another node's");
    }

    #[test]
    fn a_lock_is_held_by_one_and_free_again_after_it_without_leaving_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.lock");

        let first = NameLock::acquire(&path).unwrap();
        assert!(first.is_some() && NameLock::acquire(&path).unwrap().is_none());
        drop(first);

        assert!(!path.exists());
        assert!(NameLock::acquire(&path).unwrap().is_some());
    }

    #[test]
    fn a_lock_of_many_that_come_and_go_is_never_held_twice() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.lock");
        let (holders, acquired) = (AtomicU32::new(0), AtomicU32::new(0));

        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while acquired.load(Ordering::Relaxed) < 2000 {
                        let Some(lock) = NameLock::acquire(&path).unwrap() else { continue };
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        acquired.fetch_add(1, Ordering::Relaxed);
                        holders.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
    }
}
