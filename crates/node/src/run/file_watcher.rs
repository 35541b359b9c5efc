//! Detects changed files. Each change is reported once, when two polls in turn found the file the same.
//!
//! The files are polled a few times a second. A poll is cheap, works on every file system, and misses no lasting
//! change. These properties are worth more here than learning of a change a tenth of a second earlier.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Metadata that differs between two states of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    modified_ns: i128,
    bytes: u64,
    inode: u64,
}

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    /// The state that was last reported.
    reported: Option<FileState>,
    /// The state at the previous poll.
    last: Option<FileState>,
}

/// The files that are polled.
#[derive(Debug)]
pub(crate) struct FileWatcher(Vec<WatchedFile>);

impl FileWatcher {
    /// Starts with the current state of the files; only later changes are reported.
    pub(crate) fn new(paths: impl Iterator<Item = PathBuf>) -> Self {
        Self(
            paths
                .map(|path| {
                    let now = file_state(&path);
                    WatchedFile { path, reported: now, last: now }
                })
                .collect(),
        )
    }

    /// Returns the files that have changed and were equal at two polls in a row.
    pub(crate) fn poll(&mut self) -> Vec<PathBuf> {
        self.poll_with(file_state)
    }

    fn poll_with(&mut self, file_state: impl Fn(&Path) -> Option<FileState>) -> Vec<PathBuf> {
        let changed = self.0.iter_mut().filter_map(|file| {
            let now = file_state(&file.path);
            let is_settled = now == std::mem::replace(&mut file.last, now);
            // A missing file is being replaced.
            if now.is_none() || now == file.reported || !is_settled {
                return None;
            }
            file.reported = now;
            Some(file.path.clone())
        });
        changed.collect()
    }
}

fn file_state(path: &Path) -> Option<FileState> {
    let metadata = std::fs::metadata(path).ok()?;
    let modified_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    Some(FileState { modified_ns, bytes: metadata.len(), inode: metadata.ino() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_and_when_it_is_whole() {
        let at = |bytes| Some(FileState { modified_ns: 0, bytes, inode: 1 });
        let path = PathBuf::from("app.wasm");
        let mut watcher = FileWatcher(vec![WatchedFile { path: path.clone(), reported: at(1), last: at(1) }]);
        // Unchanged; missing; half written; complete; still complete; and then the first state again.
        let states = [at(1), None, at(5), at(9), at(9), at(9), at(1), at(1)];

        let reported = states.map(|state| watcher.poll_with(|_| state).len());

        assert_eq!(reported, [0, 0, 0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_file_that_is_written_anew_has_another_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "1").unwrap();
        let before = file_state(&path);

        std::fs::write(&path, "22").unwrap();

        assert_ne!(file_state(&path), before);
        assert_eq!(file_state(&dir.path().join("gone")), None);
    }
}
