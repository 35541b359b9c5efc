//! The space that a store leaves free on its disk, so that it can still delete what fills the disk.
//!
//! ```text
//!   disk   ▐ other files ▌ the store's file: data │ deleted since the disk was full ▌ reserve ▌
//!                                                 └─────── room for growth ────────┘
//! ```
//!
//! A deletion writes changed pages beside the old ones, so it needs space too. Writes that grow the store are refused
//! when the reserve is reached, before a commit fails. The file keeps the space of deleted data for new data.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::statvfs;

/// Free space that only writes that do not grow the store may use: a deletion changes some dozen pages of 4 KiB.
const RESERVE_BYTES: u64 = 1 << 20;
/// Longest time between two looks at the disk, which other programs fill as well.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Estimate of what a commit takes besides its data, and of the factor by which changed pages exceed it.
const COMMIT_BYTES: u64 = 64 << 10;
const PAGES_FACTOR: u64 = 4;
/// Unit in which a file system counts the space of a file.
const BLOCK_BYTES: u64 = 512;

/// Room for the growth of a store, looked at again when it may have become scarce.
#[derive(Debug, Default)]
pub(crate) struct FreeSpace {
    /// Space that may be used before the next look.
    left: u64,
    looked_at: Option<Instant>,
    is_scarce: bool,
    /// Size of the data for which the file is known to have pages; 0 before the first look.
    held: u64,
}

/// Result of a look at the disk.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Free space of the disk.
    free: u64,
    /// Space that the file takes.
    file: u64,
    /// Size of the data in the file.
    data: u64,
}

impl Found {
    fn at(path: &Path, data: u64) -> Self {
        let file = fs::metadata(path).map_or(0, |about| about.blocks().saturating_mul(BLOCK_BYTES));
        Self { free: free_bytes(path), file, data }
    }
}

/// Returns the free space of the disk of this file. A file system that does not tell its free space limits nothing.
fn free_bytes(path: &Path) -> u64 {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    statvfs(directory).map_or(u64::MAX, |about| about.f_bavail.saturating_mul(about.f_frsize))
}

impl FreeSpace {
    /// Returns true if the last look found too little room for growth.
    pub(crate) const fn is_scarce(&self) -> bool {
        self.is_scarce
    }

    /// Returns true if a store with `data` bytes of keys and values may grow by `growth` bytes.
    pub(crate) fn has_room(&mut self, growth: u64, path: &Path, data: impl FnOnce() -> u64) -> bool {
        self.has_room_of(growth, || Found::at(path, data()))
    }

    /// Returns true if the disk of this file has not even the space that a deletion needs.
    pub(crate) fn is_used_up(path: &Path) -> bool {
        free_bytes(path) < RESERVE_BYTES
    }

    /// Records that a commit found no space, neither on the disk nor in the file.
    pub(crate) const fn failed(&mut self, data: u64) {
        self.held = data;
        self.looked_at = None;
    }

    fn has_room_of(&mut self, growth: u64, look: impl FnOnce() -> Found) -> bool {
        let use_bytes = growth.saturating_mul(PAGES_FACTOR).saturating_add(COMMIT_BYTES);
        if use_bytes > self.left || self.looked_at.is_none_or(|at| at.elapsed() > LOOK_EVERY) {
            let found = look();
            if self.held == 0 {
                // Data takes less than twice its size, so the rest of the file consists of free pages.
                self.held = found.file / 2;
            }
            let on_disk = found.free.saturating_sub(RESERVE_BYTES);
            self.held = if on_disk > 0 && !self.is_scarce { found.data } else { self.held.max(found.data) };
            self.left = on_disk.saturating_add(self.held - found.data);
            self.looked_at = Some(Instant::now());
        }
        self.is_scarce = growth.saturating_add(COMMIT_BYTES) > self.left;
        self.left = self.left.saturating_sub(use_bytes);
        !self.is_scarce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn has_room(space: &mut FreeSpace, free: u64, data: u64) -> bool {
        space.has_room_of(MIB, || Found { free, file: 10 * MIB, data })
    }

    #[test]
    fn growth_ends_before_the_disk_does_and_goes_on_when_there_is_room() {
        let mut space = FreeSpace::default();
        assert!(has_room(&mut space, RESERVE_BYTES + 2 * MIB, 8 * MIB));
        assert!(!has_room(&mut space, RESERVE_BYTES + MIB, 8 * MIB), "a commit needs more than its data");
        assert!(space.is_scarce());
        assert!(has_room(&mut space, RESERVE_BYTES + 2 * MIB, 8 * MIB));
        assert!(!space.is_scarce());
    }

    #[test]
    fn deleted_data_is_room_in_the_file_while_the_disk_is_full() {
        let mut space = FreeSpace::default();
        assert!(!has_room(&mut space, 0, 8 * MIB));
        assert!(has_room(&mut space, 0, 6 * MIB));
        assert!(!has_room(&mut space, 0, 7 * MIB), "one of the two was used again");
        space.failed(6 * MIB);
        assert!(!has_room(&mut space, 0, 6 * MIB), "a commit found the room to be none");
    }

    #[test]
    fn a_file_that_is_mostly_empty_has_room_from_the_start() {
        assert!(has_room(&mut FreeSpace::default(), 0, MIB));
        assert!(!has_room(&mut FreeSpace::default(), 0, 4 * MIB));
    }

    #[test]
    fn a_large_disk_is_not_asked_for_each_commit() {
        let mut space = FreeSpace::default();
        let mut looks = 0;
        for _ in 0..1000 {
            assert!(space.has_room_of(1000, || {
                looks += 1;
                Found { free: 1 << 40, file: 0, data: 0 }
            }));
        }
        assert!(looks <= 2, "{looks}");
    }
}
