//! The chunks that a stream carries, and their hashes.

use xxhash_rust::xxh3::xxh3_64;

/// Number of different chunks; the guests' code has the same constant.
pub(super) const CHUNKS: usize = 16;
/// Factor that generates the first word of the first chunk; the guests' code has the same constant.
const FIRST_WORD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Chunks to write, and the XXH3 hash of each.
pub(super) struct Chunks {
    pub(super) bytes: Vec<u8>,
    pub(super) hashes: Vec<u64>,
    pub(super) chunk: usize,
}

impl Chunks {
    pub(super) fn new(chunk: usize) -> Self {
        let word = |x: &u64| {
            let x = x ^ (x << 13);
            let x = x ^ (x >> 7);
            Some(x ^ (x << 17))
        };
        let words = std::iter::successors(Some(FIRST_WORD), word).skip(1).take(chunk * CHUNKS / 8);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
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
