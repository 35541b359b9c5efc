//! Rings that the observers of a runtime see, and their views.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::policy::Policy;
use crate::process::pid::Pid;

/// State of a ring at a recent moment. Fields ending in `_total` only grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingView {
    /// Number of the ring, unique within its runtime.
    pub id: u64,
    /// Label given when the ring was built.
    pub label: Option<Arc<str>>,
    /// Number of items that fit.
    pub capacity: u64,
    /// Size of an item, in bytes.
    pub item_bytes: usize,
    /// Size of the ring, in bytes.
    pub bytes: usize,
    /// Policy for readers that are too slow.
    pub policy: Policy,
    /// Number of items written.
    pub written_total: u64,
    /// Number of items that the slowest reader has not read; 0 without readers.
    pub fill: u64,
    /// Process that wrote last.
    pub writer: Option<Pid>,
    /// True if the writer is gone; readers may still read the remaining items.
    pub ended: bool,
    /// Number of readers.
    pub readers: usize,
    /// Reader that the writer waits for.
    pub waits_for: Option<ReaderView>,
    /// Number of times that the writer had to wait.
    pub waits_total: u64,
    /// Number of evicted readers.
    pub evicted_total: u64,
    /// Some or all of the readers, slowest first.
    pub slowest: Vec<ReaderView>,
}

/// State of one reader of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderView {
    /// Index of its reader slot.
    pub reader_slot: usize,
    /// Process that read last; `None` for a thread, and for a reader that has not read yet.
    pub pid: Option<Pid>,
    /// Number of items that it has not read yet.
    pub lag: u64,
    /// Number of items that it has missed.
    pub missed_total: u64,
}

/// A ring with any type of items, for observers.
pub(crate) trait ObservedRing: Send + Sync {
    /// Returns the state of the ring with the number `id`, and at most `readers_limit` of its readers.
    fn view(&self, id: u64, readers_limit: usize) -> RingView;

    /// Returns the address and the size of its slots, and the size of the rest, in bytes.
    fn memory(&self) -> (usize, usize, usize);
}

/// Rings that are visible to the observers of a runtime.
#[derive(Default)]
pub(crate) struct RingRegistry(Mutex<RegisteredRings>);

/// Largest number of visible rings; rings built beyond it are not shown.
const RINGS_MAX: usize = 65_536;

#[derive(Default)]
struct RegisteredRings {
    /// Rings with their unique numbers, in the order in which they were built.
    rings: Vec<(u64, Weak<dyn ObservedRing>)>,
    last_id: u64,
}

impl RegisteredRings {
    fn remove_dropped(&mut self) {
        self.rings.retain(|(_, ring)| ring.strong_count() > 0);
    }
}

impl RingRegistry {
    /// Makes a ring visible.
    pub(crate) fn add(&self, ring: Weak<dyn ObservedRing>) {
        let mut registered = self.0.lock();
        // Rare: the capacity doubles whenever that many rings are alive.
        if registered.rings.len() == registered.rings.capacity() {
            registered.remove_dropped();
        }
        if registered.rings.len() < RINGS_MAX {
            registered.last_id += 1;
            let id = registered.last_id;
            registered.rings.push((id, ring));
        }
    }

    pub(crate) fn views(&self, readers_limit: usize) -> Vec<RingView> {
        self.all().iter().map(|(id, ring)| ring.view(*id, readers_limit)).collect()
    }

    /// Calls `read` with the address and the size of the slots of each ring, and sums its results and the rest.
    pub(crate) fn memory_bytes(&self, read: impl Fn(usize, usize) -> u64) -> u64 {
        let bytes = |ring: &dyn ObservedRing| {
            let (start, slots, rest) = ring.memory();
            read(start, slots) + rest as u64
        };
        self.all().iter().map(|(_, ring)| bytes(&**ring)).sum()
    }

    fn all(&self) -> Vec<(u64, Arc<dyn ObservedRing>)> {
        let mut registered = self.0.lock();
        registered.remove_dropped();
        registered.rings.iter().filter_map(|(id, ring)| Some((*id, ring.upgrade()?))).collect()
    }
}
