//! What stands in for the guard of a stack where the system has no more memory maps: a pattern at its end.
//!
//! It is looked at when the stack comes back. Where it has changed, somebody ran over the end of his stack into his neighbour's:
//! nothing in this program can be relied on any more.

use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The pattern, as long as a line of the processor's cache.
const PATTERN: [u64; 8] = [0x5ca1_ab1e_0ddb_a115; 8];
/// Its bytes.
pub(super) const BYTES: usize = size_of::<[u64; 8]>();

/// Which slots have one.
#[derive(Default)]
pub(super) struct Canaries {
    any: AtomicBool,
    slots: Mutex<HashSet<u32>>,
}

impl Canaries {
    /// This slot has one from now on.
    pub(super) fn add(&self, slot: u32) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).insert(slot);
        if !self.any.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "no memory maps are left for guards of guests' stacks: they get canaries; raise vm.max_map_count"
            );
        }
    }

    /// Whether this slot has one. Whoever asks was given the slot after it was added.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.any.load(Ordering::Relaxed) && self.slots.lock().unwrap_or_else(PoisonError::into_inner).contains(&slot)
    }
}

/// Draws the pattern.
pub(super) fn draw(place: &mut [u8; BYTES]) {
    for (bytes, word) in place.chunks_exact_mut(8).zip(PATTERN) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
}

/// Ends the program if the pattern has changed.
pub(super) fn check(place: &[u8; BYTES]) {
    if !is_whole(place) {
        let line = "rusm: a guest's stack ran over its end into another's: the program cannot go on";
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
        draw(&mut place);
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
