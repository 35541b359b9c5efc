//! Bounds on memory that all connections of a server share: for responses that clients have not taken yet, and for
//! handshakes of TLS.
//!
//! ```text
//!   part of a response ──▶ share of the memory ──▶ hyper ──▶ socket      the share is returned with the last byte
//!   half is taken ──▶ a client that has taken nothing for a second is disconnected: see `connection`
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Unit in which the memory is divided.
const UNIT_BYTES: u64 = 1024;
/// Length from which a part of a response takes a share. Shorter ones are less than the state of their request.
pub(crate) const COUNTED_BYTES: usize = 1024;

/// A bound on shared memory. A share that does not fit is refused, or waits in turn.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    free: Arc<Semaphore>,
    units: u32,
}

impl MemoryBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let units = units.min(Semaphore::MAX_PERMITS.try_into().unwrap_or(u32::MAX));
        Self { free: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// Returns the units of a length, at most all of them: a longer part must wait until the whole memory is free.
    fn units(&self, bytes: usize) -> u32 {
        u32::try_from((bytes as u64).div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.units)
    }

    /// Returns the length, or that of the whole memory if that is shorter.
    pub(crate) fn at_most(&self, bytes: usize) -> usize {
        bytes.min(self.units as usize * UNIT_BYTES as usize)
    }

    /// Takes a share, if there is room for it.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_many_owned(self.units(bytes)).ok()
    }

    /// Takes a share, and waits for it in turn.
    pub(crate) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if let Some(share) = self.try_take(bytes) {
            return Some(share);
        }
        Arc::clone(&self.free).acquire_many_owned(self.units(bytes)).await.ok()
    }

    /// Returns true while half of the memory is taken.
    pub(crate) fn is_short(&self) -> bool {
        (self.free.available_permits() as u64) * 2 <= u64::from(self.units)
    }
}

/// The account of one client, or of one stream of HTTP/2: the memory that it holds until it takes its bytes.
#[derive(Debug)]
pub(crate) struct Held {
    start: Instant,
    shares: AtomicU32,
    /// Instant of the first share, or at which some of the bytes were last taken, in ns since `start`.
    taken_ns: AtomicU64,
}

impl Held {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), shares: AtomicU32::new(0), taken_ns: AtomicU64::new(0) }
    }

    /// Notes that the client has taken some of the bytes.
    pub(crate) fn note_progress(&self) {
        if self.shares.load(Relaxed) > 0 {
            self.note_taken();
        }
    }

    /// Returns the time since which bytes wait, and none was taken; `None` if none wait.
    pub(crate) fn since(&self) -> Option<Instant> {
        let is_held = self.shares.load(Relaxed) > 0;
        is_held.then(|| self.start + Duration::from_nanos(self.taken_ns.load(Relaxed)))
    }

    fn note_taken(&self) {
        self.taken_ns.store(self.start.elapsed().as_nanos() as u64, Relaxed);
    }
}

/// Bytes with their share. Both are given back when the last copy is dropped.
struct Counted<S> {
    bytes: Bytes,
    held: Arc<Held>,
    _share: S,
}

impl<S> AsRef<[u8]> for Counted<S> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.held.shares.fetch_sub(1, Relaxed);
        self.held.note_taken();
    }
}

/// Returns the same bytes, which hold a share until the client has taken them.
pub(crate) fn counted(bytes: Bytes, share: impl Send + 'static, held: &Arc<Held>) -> Bytes {
    if held.shares.fetch_add(1, Relaxed) == 0 {
        held.note_taken();
    }
    Bytes::from_owner(Counted { bytes, held: Arc::clone(held), _share: share })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_free_again_when_the_last_copy_of_its_bytes_is_dropped() {
        let (memory, held) = (MemoryBudget::new(8 * UNIT_BYTES), Arc::new(Held::new()));
        let share = memory.try_take(5000).expect("there is room");

        let bytes = counted(Bytes::from(vec![7; 5000]), share, &held);
        let copy = bytes.slice(4000..);
        drop(bytes);

        assert!(held.since().is_some() && memory.is_short());
        assert!(memory.try_take(4000).is_none() && memory.try_take(3000).is_some());
        drop(copy);
        assert!(held.since().is_none() && !memory.is_short());
        assert!(memory.try_take(usize::MAX).is_some(), "what is longer than all of it takes all of it");
    }
}
