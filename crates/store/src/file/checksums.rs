//! In-memory checksums of the blocks of an open file: detects a block that the disk returns other than it was written.
//!
//! A file is verified when it is opened, and every block that is written afterwards passes through here. So a checksum
//! is known for each block that is read again after it left redb's cache. It takes up 4 bytes for 4 KiB.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_64;

use crate::file::pages::PAGE;

const BLOCK: usize = PAGE as usize;
/// Checksum of a block with unknown content.
const UNKNOWN: u32 = 0;

/// Checksums of all blocks. Relaxed throughout: redb orders the writes and the reads of a page.
#[derive(Debug, Default)]
pub(crate) struct BlockChecksums(RwLock<Vec<AtomicU32>>);

fn checksum(block: &[u8]) -> u32 {
    (xxh3_64(block) as u32).max(1)
}

/// Returns the whole blocks in these bytes, except the first of the file: it has redb's header, which is written in
/// parts.
fn blocks(offset: u64, bytes: &[u8]) -> Option<Range<usize>> {
    let first = usize::try_from(offset).ok()? / BLOCK;
    let is_whole = offset.is_multiple_of(PAGE) && bytes.len().is_multiple_of(BLOCK) && first > 0;
    is_whole.then(|| first..first + bytes.len() / BLOCK)
}

impl BlockChecksums {
    /// Records the checksums of bytes that were written, or were read and verified.
    pub(crate) fn record(&self, offset: u64, bytes: &[u8]) {
        let Some(blocks) = blocks(offset, bytes) else {
            return self.forget(offset, bytes.len());
        };
        let mut checksums = self.0.read();
        if checksums.len() < blocks.end {
            drop(checksums);
            self.0.write().resize_with(blocks.end * 5 / 4, AtomicU32::default);
            checksums = self.0.read();
        }
        for (stored, block) in checksums[blocks].iter().zip(bytes.chunks_exact(BLOCK)) {
            stored.store(checksum(block), Relaxed);
        }
    }

    fn forget(&self, offset: u64, len: usize) {
        let first = offset as usize / BLOCK;
        let end = (offset as usize + len).div_ceil(BLOCK);
        let checksums = self.0.read();
        checksums.iter().take(end).skip(first).for_each(|stored| stored.store(UNKNOWN, Relaxed));
    }

    /// Returns true unless a block differs from its recorded checksum.
    pub(crate) fn match_recorded(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(blocks) = blocks(offset, bytes) else { return true };
        let checksums = self.0.read();
        let known = checksums.get(blocks.start..blocks.end.min(checksums.len()).max(blocks.start)).unwrap_or_default();
        known.iter().zip(bytes.chunks_exact(BLOCK)).all(|(stored, block)| {
            let known = stored.load(Relaxed);
            known == UNKNOWN || known == checksum(block)
        })
    }

    /// Discards the checksums behind the end of the file.
    pub(crate) fn truncate(&self, len: u64) {
        let mut checksums = self.0.write();
        let blocks = (len as usize).div_ceil(BLOCK);
        if blocks < checksums.len() {
            checksums.truncate(blocks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_differs_is_noticed_and_an_unknown_one_is_not() {
        let checksums = BlockChecksums::default();
        checksums.record(PAGE, &[1; 2 * BLOCK]);

        assert!(checksums.match_recorded(PAGE, &[1; 2 * BLOCK]) && checksums.match_recorded(2 * PAGE, &[1; BLOCK]));
        assert!(!checksums.match_recorded(2 * PAGE, &[2; BLOCK]));
        assert!(checksums.match_recorded(0, &[9; BLOCK]) && checksums.match_recorded(9 * PAGE, &[9; BLOCK]));

        checksums.record(2 * PAGE, &[3; BLOCK]);
        assert!(checksums.match_recorded(2 * PAGE, &[3; BLOCK]));
        checksums.record(2 * PAGE, &[4; 100]);
        assert!(checksums.match_recorded(2 * PAGE, &[5; BLOCK]), "the sum of a part of a block is unknown");
        checksums.truncate(PAGE);
        assert!(checksums.match_recorded(PAGE, &[6; BLOCK]));
    }
}
