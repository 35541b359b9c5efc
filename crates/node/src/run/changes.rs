//! Which files have changed, told once for each change and not before whoever writes is done.
//!
//! Files are looked at a few times a second. That a look is cheap, works on every file system and misses nothing that stays
//! is worth more here than hearing of a change a tenth of a second earlier.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified_ns: i128,
    bytes: u64,
    inode: u64,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// The state that was last told of.
    told: Option<Stamp>,
    /// The state at the look before.
    last: Option<Stamp>,
}

/// The files that are looked at.
#[derive(Debug)]
pub(crate) struct Changes(Vec<Watched>);

impl Changes {
    /// Takes the files as they are now for known.
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

    /// The files that have changed and were the same at two looks in a row.
    pub(crate) fn look(&mut self) -> Vec<PathBuf> {
        self.look_by(stamp)
    }

    fn look_by(&mut self, stamp: impl Fn(&Path) -> Option<Stamp>) -> Vec<PathBuf> {
        let changed = self.0.iter_mut().filter_map(|file| {
            let now = stamp(&file.path);
            let is_settled = now == std::mem::replace(&mut file.last, now);
            // A file that is away is being replaced.
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
        // Unchanged; away; half written; whole; still whole; and back again.
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
