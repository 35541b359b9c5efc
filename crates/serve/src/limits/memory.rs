//! Bounds on memory that all connections of a server share: for responses that clients have not taken yet, and for
//! handshakes of TLS.
//!
//! ```text
//!   part of a response ──▶ share of the memory ──▶ hyper ──▶ socket      the share is returned with the last byte
//!   more than half is taken ──▶ a client that has taken nothing for a second is disconnected: see `connection`
//! ```

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::io::Activity;

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

/// A part of the memory, until it is dropped.
pub(crate) type Share = OwnedSemaphorePermit;

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

    /// Takes a share, if there is room for it.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Share> {
        Arc::clone(&self.free).try_acquire_many_owned(self.units(bytes)).ok()
    }

    /// Takes a share, and waits for it in turn.
    pub(crate) async fn take(&self, bytes: usize) -> Option<Share> {
        if let Some(share) = self.try_take(bytes) {
            return Some(share);
        }
        Arc::clone(&self.free).acquire_many_owned(self.units(bytes)).await.ok()
    }

    /// Returns true while more than half of the memory is taken.
    pub(crate) fn is_short(&self) -> bool {
        (self.free.available_permits() as u64) * 2 < u64::from(self.units)
    }
}

/// Bytes with their share. Both are given back when the last copy is dropped.
struct Counted {
    bytes: Bytes,
    activity: Arc<Activity>,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.activity.share_returned();
    }
}

/// Returns the same bytes, which hold a share until they were sent on the connection of `activity`.
pub(crate) fn counted(bytes: Bytes, share: Share, activity: &Arc<Activity>) -> Bytes {
    activity.share_taken();
    Bytes::from_owner(Counted { bytes, activity: Arc::clone(activity), _share: share })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_free_again_when_the_last_copy_of_its_bytes_is_dropped() {
        let (memory, activity) = (MemoryBudget::new(8 * UNIT_BYTES), Arc::new(Activity::new(false)));
        let share = memory.try_take(5000).expect("there is room");

        let bytes = counted(Bytes::from(vec![7; 5000]), share, &activity);
        let copy = bytes.slice(4000..);
        drop(bytes);

        assert!(activity.held_since().is_some() && memory.is_short());
        assert!(memory.try_take(4000).is_none() && memory.try_take(3000).is_some());
        drop(copy);
        assert!(activity.held_since().is_none() && !memory.is_short());
        assert!(memory.try_take(usize::MAX).is_some(), "what is longer than all of it takes all of it");
    }
}
