//! The memory that all guests of an engine share: linear memory, streams and timers, with one bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thiserror::Error;

use crate::bindings::rusm::runtime::types;

/// The bound, and what is taken of it.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    taken: AtomicU64,
    max_bytes: u64,
}

/// Error of a request for memory that would exceed the bound.
#[derive(Clone, Copy, Debug, Error)]
#[error("all guests together may have at most {max_bytes} bytes of memory")]
pub(crate) struct MemoryFull {
    pub(crate) max_bytes: u64,
}

impl From<MemoryFull> for types::Error {
    #[cold]
    fn from(full: MemoryFull) -> Self {
        Self::Limit(full.to_string())
    }
}

/// A part of the memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    memory: Arc<SharedMemory>,
    bytes: u64,
}

impl SharedMemory {
    /// Returns `None` without a bound: then nothing is counted.
    pub(crate) fn new(max_bytes: u64) -> Option<Arc<Self>> {
        (max_bytes < u64::MAX).then(|| Arc::new(Self { taken: AtomicU64::new(0), max_bytes }))
    }

    /// Returns the error for a request that exceeds the bound.
    pub(crate) const fn full(&self) -> MemoryFull {
        MemoryFull { max_bytes: self.max_bytes }
    }

    /// Returns a share, if there is room for it.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Option<MemoryShare> {
        let mut share = MemoryShare { memory: Arc::clone(self), bytes: 0 };
        share.resize(bytes).then_some(share)
    }
}

impl MemoryShare {
    /// Changes the size of the share. Returns false, and leaves the share as it is, if the bound would be exceeded.
    pub(crate) fn resize(&mut self, bytes: u64) -> bool {
        // Relaxed: only the sum matters.
        let taken = &self.memory.taken;
        if let Some(more) = bytes.checked_sub(self.bytes) {
            let before = taken.fetch_add(more, Relaxed);
            if before.saturating_add(more) > self.memory.max_bytes && more > 0 {
                taken.fetch_sub(more, Relaxed);
                return false;
            }
        } else {
            taken.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
        true
    }
}

impl MemoryShare {
    /// Leaves the share taken for as long as the memory exists.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_one_bound_and_are_given_back() {
        let memory = SharedMemory::new(100).expect("a bound");
        let mut one = memory.take(60).expect("there is room");

        assert!(memory.take(41).is_none());
        assert!(!one.resize(101) && one.resize(30));
        let other = memory.take(70).expect("there is room");
        assert!(!one.resize(31));
        drop(other);
        assert!(one.resize(100));
        drop(one);
        assert_eq!(memory.taken.load(Relaxed), 0);
        assert!(SharedMemory::new(u64::MAX).is_none());
    }
}
