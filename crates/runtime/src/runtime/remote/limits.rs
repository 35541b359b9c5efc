//! Limits on the use of this node by another one: processes that it has spawned here, and messages that wait beyond the
//! room of their mailboxes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::process::header::{ProcessHeader, READS_SHORT};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of live processes that a node has spawned here.
pub(crate) const SPAWNED_MAX: u64 = 65_536;
/// Maximum number of memberships that processes of a node have in groups.
pub(crate) const MEMBERSHIPS_MAX: usize = 65_536;
/// Maximum number of monitors and open calls of processes of a node. As many calls may wait in mailboxes.
pub(crate) const MONITORS_MAX: usize = 262_144;
/// Maximum number of links between processes of this node and of another one.
pub(crate) const LINKS_MAX: usize = 262_144;
/// Maximum length of the first frame of a connection, in bytes.
pub(crate) const HELLO_BYTES_MAX: usize = 4 << 20;

/// Returns the part of a limit at another node that a process may use up: guests leave half of it to native processes.
pub(crate) fn share_of(header: &ProcessHeader, limit: usize) -> usize {
    if header.flags.load(Ordering::Relaxed) & READS_SHORT == 0 { limit } else { limit / 2 }
}

/// Numbers of live processes that each node has spawned here, by its name: those of its earlier lives count.
#[derive(Debug, Default)]
pub(crate) struct SpawnedByNodes(Mutex<HashMap<Arc<str>, Arc<AtomicU64>>>);

/// A live process that another node has spawned.
#[derive(Debug)]
pub(crate) struct Spawned(Arc<AtomicU64>);

impl SpawnedByNodes {
    /// Counts one more process of a node. `None` if it has too many.
    pub(crate) fn add(&self, node: &Arc<str>) -> Option<Spawned> {
        let spawned = Spawned(Arc::clone(self.0.lock().entry(Arc::clone(node)).or_default()));
        let before = spawned.0.fetch_add(1, Ordering::Relaxed);
        (before < SPAWNED_MAX).then_some(spawned)
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory of a message beyond its bytes.
const MESSAGE_COST: u64 = 64;

/// Memory of messages of other nodes that wait although their mailboxes are full. Messages of lost connections count
/// until their mailboxes have room again.
#[derive(Debug, Default)]
pub(crate) struct Overflow(AtomicU64);

impl Overflow {
    /// Counts a message, unless all would then have more than `max` bytes: a long one may exceed it alone. Returns its
    /// memory.
    pub(crate) fn take(&self, bytes: u64, max: u64) -> Option<u64> {
        let cost = bytes + MESSAGE_COST;
        let more = |held| (held == 0 || held + cost <= max).then_some(held + cost);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_before| cost)
    }

    /// Counts the memory of messages that no longer wait beyond the room.
    pub(crate) fn give(&self, cost: u64) {
        self.0.fetch_sub(cost, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_may_have_so_many_processes_and_another_one_as_soon_as_one_has_ended() {
        let spawned = SpawnedByNodes::default();
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let mut live: Vec<_> = (0..SPAWNED_MAX).filter_map(|_| spawned.add(&one)).collect();

        assert_eq!(live.len() as u64, SPAWNED_MAX);
        assert!(spawned.add(&one).is_none() && spawned.add(&other).is_some());
        live.pop();
        assert!(spawned.add(&one).is_some(), "a refused one is not counted");
    }

    #[test]
    fn messages_beyond_the_room_have_a_limit_that_a_long_one_exceeds_only_alone() {
        let overflow = Overflow::default();
        let long = overflow.take(5_000, 1_000).unwrap();
        assert_eq!(overflow.take(0, 1_000), None);
        overflow.give(long);

        let costs: Vec<u64> = std::iter::from_fn(|| overflow.take(36, 1_000)).collect();

        assert_eq!(costs, [36 + MESSAGE_COST; 10]);
        for cost in costs {
            overflow.give(cost);
        }
        assert!(overflow.take(5_000, 1_000).is_some());
    }
}
