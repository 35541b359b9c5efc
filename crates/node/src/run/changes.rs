//! Detects changed files. Each change is reported once, and only when the file is completely written.
//!
//! The files are polled a few times a second. A poll is cheap, works on every file system, and misses no lasting
//! change. These properties are worth more here than learning of a change a tenth of a second earlier.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Metadata that differs between two states of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified_ns: i128,
    bytes: u64,
    inode: u64,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// The state that was last reported.
    told: Option<Stamp>,
    /// The state at the previous poll.
    last: Option<Stamp>,
}

/// The files that are polled.
#[derive(Debug)]
pub(crate) struct Changes(Vec<Watched>);

impl Changes {
    /// Starts with the current state of the files; only later changes are reported.
    pub(crate) fn of(paths: impl Iterator<Item = PathBuf>) -> Self {
        Self(
            paths
                .map(|path| {
                    let now = stamp(&path);
                    Watched { path, told: now, last: now }
                })
                .collect(),
        )
    }

    /// Returns the files that have changed and were equal at two polls in a row.
    pub(crate) fn look(&mut self) -> Vec<PathBuf> {
        self.look_by(stamp)
    }

    fn look_by(&mut self, stamp: impl Fn(&Path) -> Option<Stamp>) -> Vec<PathBuf> {
        let changed = self.0.iter_mut().filter_map(|file| {
            let now = stamp(&file.path);
            let is_settled = now == std::mem::replace(&mut file.last, now);
            // A missing file is being replaced.
            if now.is_none() || now == file.told || !is_settled {
                return None;
            }
            file.told = now;
            Some(file.path.clone())
        });
        changed.collect()
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    let modified_ns = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
    Some(Stamp { modified_ns, bytes: about.len(), inode: about.ino() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_and_when_it_is_whole() {
        let at = |bytes| Some(Stamp { modified_ns: 0, bytes, inode: 1 });
        let path = PathBuf::from("app.wasm");
        let mut changes = Changes(vec![Watched { path: path.clone(), told: at(1), last: at(1) }]);
        // Unchanged; missing; half written; complete; still complete; and then the first state again.
        let states = [at(1), None, at(5), at(9), at(9), at(9), at(1), at(1)];

        let told = states.map(|state| changes.look_by(|_| state).len());

        assert_eq!(told, [0, 0, 0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_file_that_is_written_anew_has_another_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "1").unwrap();
        let before = stamp(&path);

        std::fs::write(&path, "22").unwrap();

        assert_ne!(stamp(&path), before);
        assert_eq!(stamp(&dir.path().join("gone")), None);
    }
}
