//! Files of a node that would destroy each other: those of the log and those of the store.

use std::ffi::OsString;
use std::fs::read_link;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Symbolic links that are followed at most, as many as Linux follows.
const LINKS_MAX: usize = 40;

/// Returns the first file of a log that is also a file of a store; `kept` is the number of files that its rotation
/// keeps, if it is rotated.
pub(super) fn shared_file(log: &Path, kept: Option<u32>, store: &Path) -> Option<PathBuf> {
    let log_file = resolved(log);
    // A rotation that keeps files writes a new one beside the log, and renames it.
    let suffixes = kept
        .into_iter()
        .flat_map(|kept| (1..=kept).map(|n| format!(".{n}")).chain((kept > 0).then(|| ".new".to_owned())));
    let log_files = std::iter::once(log_file.clone()).chain(suffixes.map(|suffix| with_suffix(&log_file, &suffix)));
    let store_file = resolved(store);
    let store_files = [store, &store_file]
        .map(|path| resolved(&with_suffix(path, "-journal")))
        .into_iter()
        .chain([store_file.clone()]);
    let store_files: Vec<PathBuf> = store_files.collect();
    log_files.into_iter().find(|file| store_files.iter().any(|other| is_same_file(file, other)))
}

/// Returns the path without links, also of a file that does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if let Ok(found) = path.canonicalize() {
            return found;
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let Ok(target) = read_link(&path) else {
            let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
            return path.file_name().map_or_else(|| parent.clone(), |name| parent.join(name));
        };
        path = parent.join(target);
    }
    path
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Returns true if two paths without links lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| path.metadata().map(|about| (about.dev(), about.ino())).ok();
    one == other || inode(one).is_some_and(|found| inode(other) == Some(found))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_files_of_the_log_and_of_the_store_are_told_apart_before_they_exist() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("sub")).expect("a folder");
        symlink(".", folder.path().join("link")).expect("a link");
        symlink("s.redb", folder.path().join("dangling")).expect("a link");
        let shared = |log: &str, kept: Option<u32>, store: &str| {
            shared_file(&folder.path().join(log), kept, &folder.path().join(store))
                .map(|path| path.file_name().expect("a name").to_owned())
        };

        assert_eq!(shared("n.log", Some(3), "s.redb"), None);
        assert_eq!(shared("n.log", Some(3), "n.log.4"), None);
        assert_eq!(shared("n.log", None, "n.log.new"), None);
        for (log, store, file) in [
            ("s.redb", "s.redb", "s.redb"),
            ("n.log", "n.log.3", "n.log.3"),
            ("s.redb-journal", "s.redb", "s.redb-journal"),
            ("n.log", "n.log.new", "n.log.new"),
            ("n", "n.1", "n.1"),
            ("link/s.redb", "s.redb", "s.redb"),
            ("sub/../s.redb", "s.redb", "s.redb"),
            ("dangling", "s.redb", "s.redb"),
            ("s.redb", "dangling", "s.redb"),
            ("dangling-journal", "dangling", "dangling-journal"),
        ] {
            assert_eq!(shared(log, Some(3), store).as_deref(), Some(file.as_ref()), "{log} and {store}");
        }
    }
}
