//! The chunks that a stream carries, and their hashes.

use xxhash_rust::xxh3::xxh3_64;

use crate::measure::rng::{GOLDEN, XorShift};

/// Number of different chunks; the guests' code has the same constant.
pub(super) const CHUNKS: usize = 16;
/// First state of the generator of all words; the guests' code has the same constant and the same generator.
const FIRST_STATE: u64 = GOLDEN;

/// Chunks to write, and the XXH3 hash of each.
pub(super) struct Chunks {
    pub(super) bytes: Vec<u8>,
    pub(super) hashes: Vec<u64>,
    pub(super) chunk: usize,
}

impl Chunks {
    pub(super) fn new(chunk: usize) -> Self {
        let mut words = XorShift::new(FIRST_STATE);
        let bytes: Vec<u8> = (0..chunk * CHUNKS / 8).flat_map(|_| words.next().to_le_bytes()).collect();
        let hashes = bytes.chunks_exact(chunk).map(xxh3_64).collect();
        Self { bytes, hashes, chunk }
    }

    pub(super) fn of(&self, number: u64) -> &[u8] {
        let first = number as usize % CHUNKS * self.chunk;
        &self.bytes[first..first + self.chunk]
    }

    pub(super) fn hash(&self, number: u64) -> u64 {
        self.hashes[number as usize % CHUNKS]
    }
}
