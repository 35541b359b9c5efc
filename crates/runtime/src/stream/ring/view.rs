//! Views of rings for observers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Policy;
use super::cursors::Ended;
use super::reader_slots::{EVICTED, VACANT, position};
use super::shared::{AnyRing, RingShared, unpacked};
use crate::process::pid::Pid;
use crate::process::running::Running;
use crate::runtime::handle::Handle;
use crate::scheduler::{self, Local};

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

/// Rings that are visible to the observers of a runtime.
#[derive(Default)]
pub(crate) struct RingRegistry(Mutex<RegisteredRings>);

/// Largest number of visible rings; rings built beyond it are not shown.
const RINGS_MAX: usize = 65_536;

#[derive(Default)]
struct RegisteredRings {
    /// Rings with their unique numbers, in the order in which they were built.
    rings: Vec<(u64, Weak<dyn AnyRing>)>,
    last_id: u64,
}

impl RegisteredRings {
    fn remove_dropped(&mut self) {
        self.rings.retain(|(_, ring)| ring.strong_count() > 0);
    }
}

impl RingRegistry {
    fn add(&self, ring: Weak<dyn AnyRing>) {
        let mut registered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let rings: Vec<_> = {
            let mut registered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            registered.remove_dropped();
            registered.rings.iter().filter_map(|(id, ring)| Some((*id, ring.upgrade()?))).collect()
        };
        rings.iter().map(|(id, ring)| view(*id, &**ring, readers_limit)).collect()
    }
}

/// Makes a ring visible to the observers of `runtime`, or by default of the runtime that the calling process runs on.
pub(crate) fn announce<T: Send + Sync + 'static>(runtime: Option<&Handle>, ring: &Arc<RingShared<T>>) {
    let weak: Weak<dyn AnyRing> = Arc::<RingShared<T>>::downgrade(ring);
    if let Some(runtime) = runtime {
        runtime.shared.streams.add(weak);
    } else if let Some(running) = scheduler::local().and_then(Local::running) {
        let Running { local, .. } = running;
        ring.info.set_writer(running.pid());
        local.shared.streams.add(weak);
    }
}

fn view(id: u64, ring: &dyn AnyRing, readers_limit: usize) -> RingView {
    let (cursors, info) = (ring.cursors(), ring.info());
    // Load the readers first: then none of them is ahead of the head.
    let positions: Vec<(usize, u64)> = (0..cursors.reader_slots.used())
        .filter_map(|reader_slot| Some((reader_slot, reader_position(ring, reader_slot)?)))
        .collect();
    let written_total = cursors.written();
    let reader = |(reader_slot, at): (usize, u64)| ReaderView {
        reader_slot,
        pid: unpacked(cursors.reader_slots.owner(reader_slot).load(Ordering::Relaxed)),
        lag: written_total.saturating_sub(at),
        missed_total: cursors.reader_slots.missed(reader_slot).load(Ordering::Relaxed),
    };
    let mut slowest: Vec<ReaderView> = positions.iter().copied().map(reader).collect();
    let waits_for = cursors.blocked_on().and_then(|on| slowest.iter().find(|reader| reader.reader_slot == on)).copied();
    slowest.sort_by_key(|reader| std::cmp::Reverse(reader.lag));
    let (readers, fill) = (slowest.len(), slowest.first().map_or(0, |slowest| slowest.lag));
    slowest.truncate(readers_limit);
    RingView {
        id,
        label: info.label.clone(),
        capacity: cursors.capacity,
        item_bytes: ring.item_bytes(),
        bytes: ring.bytes(),
        policy: info.policy,
        written_total,
        fill,
        writer: info.writer(),
        ended: cursors.ended() != Ended::Open,
        readers,
        waits_for,
        waits_total: info.parks.load(Ordering::Relaxed),
        evicted_total: info.evicted.load(Ordering::Relaxed),
        slowest,
    }
}

/// Returns the position of the reader in a reader slot; `None` if the slot has no reader.
fn reader_position(ring: &dyn AnyRing, reader_slot: usize) -> Option<u64> {
    let reader_slots = &ring.cursors().reader_slots;
    let word = reader_slots.tail(reader_slot).load(Ordering::Acquire);
    (word != VACANT && word != EVICTED)
        .then(|| position(word).max(reader_slots.read_to(reader_slot).load(Ordering::Relaxed)))
}
