//! Canaries: a pattern in the lowest bytes of a stack, where it would overflow. They replace guard pages when the system
//! runs out of memory maps.
//!
//! The pattern is checked when the stack is returned. If it has changed, a guest overflowed its stack into its
//! neighbour's, and the state of the whole program can no longer be trusted.

use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The pattern, as long as a cache line.
const PATTERN: [u64; 8] = [0x5ca1_ab1e_0ddb_a115; 8];
/// Its size in bytes.
pub(super) const BYTES: usize = size_of::<[u64; 8]>();

/// The set of slots with a canary.
#[derive(Default)]
pub(super) struct Canaries {
    any: AtomicBool,
    slots: Mutex<HashSet<u32>>,
}

impl Canaries {
    /// Adds a slot.
    pub(super) fn add(&self, slot: u32) {
        self.slots.lock().insert(slot);
        if !self.any.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "no memory maps are left for guard pages of guest stacks: canaries are used; raise vm.max_map_count"
            );
        }
    }

    /// Returns true if the slot has a canary. Relaxed is enough: the slot reached the caller after `add`.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.any.load(Ordering::Relaxed) && self.slots.lock().contains(&slot)
    }
}

/// Writes the pattern.
pub(super) fn write(place: &mut [u8; BYTES]) {
    for (bytes, word) in place.chunks_exact_mut(8).zip(PATTERN) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
}

/// Aborts the program if the pattern has changed.
pub(super) fn check(place: &[u8; BYTES]) {
    if !is_whole(place) {
        let line = "rusm: the stack of a guest overflowed into that of another guest: aborting";
        drop(writeln!(std::io::stderr(), "{line}"));
        std::process::abort();
    }
}

fn is_whole(place: &[u8; BYTES]) -> bool {
    place.chunks_exact(8).zip(PATTERN).all(|(bytes, word)| bytes == word.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_whole_until_any_byte_of_it_changes() {
        let mut place = [0; BYTES];
        assert!(!is_whole(&place));
        write(&mut place);
        assert!(is_whole(&place));
        for byte in 0..BYTES {
            place[byte] ^= 1;
            assert!(!is_whole(&place), "{byte}");
            place[byte] ^= 1;
        }
    }

    #[test]
    fn only_slots_that_were_added_have_one() {
        let canaries = Canaries::default();
        assert!(!canaries.has(3));
        canaries.add(3);
        assert!(canaries.has(3) && !canaries.has(4));
    }
}
