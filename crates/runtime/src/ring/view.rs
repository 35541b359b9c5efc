//! Views of rings for observers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Policy;
use super::cursors::Ended;
use super::seats::{EVICTED, VACANT, position};
use super::shared::{AnyRing, Shared, unpacked};
use crate::handle::Handle;
use crate::pid::Pid;
use crate::running::Running;
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
    pub seat: usize,
    /// Process that read last; `None` for a thread, and for a reader that has not read yet.
    pub pid: Option<Pid>,
    /// Number of items that it has not read yet.
    pub lag: u64,
    /// Number of items that it has missed.
    pub missed_total: u64,
}

/// Rings that are visible to the observers of a runtime.
#[derive(Default)]
pub(crate) struct Streams(Mutex<Known>);

/// Largest number of visible rings; rings built beyond it are not shown.
const KNOWN_MAX: usize = 65_536;

#[derive(Default)]
struct Known {
    /// Rings with their unique numbers, in the order in which they were built.
    rings: Vec<(u64, Weak<dyn AnyRing>)>,
    last_id: u64,
}

impl Known {
    fn forget_the_dead(&mut self) {
        self.rings.retain(|(_, ring)| ring.strong_count() > 0);
    }
}

impl Streams {
    fn add(&self, ring: Weak<dyn AnyRing>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Rare: the capacity doubles whenever that many rings are alive.
        if known.rings.len() == known.rings.capacity() {
            known.forget_the_dead();
        }
        if known.rings.len() < KNOWN_MAX {
            known.last_id += 1;
            let id = known.last_id;
            known.rings.push((id, ring));
        }
    }

    pub(crate) fn views(&self, readers_most: usize) -> Vec<RingView> {
        let rings: Vec<_> = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.forget_the_dead();
            known.rings.iter().filter_map(|(id, ring)| Some((*id, ring.upgrade()?))).collect()
        };
        rings.iter().map(|(id, ring)| view(*id, &**ring, readers_most)).collect()
    }
}

/// Makes a ring visible to the observers of `runtime`, or by default of the runtime that the calling process runs on.
pub(crate) fn announce<T: Send + Sync + 'static>(runtime: Option<&Handle>, ring: &Arc<Shared<T>>) {
    let weak: Weak<dyn AnyRing> = Arc::<Shared<T>>::downgrade(ring);
    if let Some(runtime) = runtime {
        runtime.shared.streams.add(weak);
    } else if let Some(running) = scheduler::local().and_then(Local::running) {
        let Running { local, .. } = running;
        ring.notes.set_writer(running.pid());
        local.shared.streams.add(weak);
    }
}

fn view(id: u64, ring: &dyn AnyRing, readers_most: usize) -> RingView {
    let (cursors, notes) = (ring.cursors(), ring.notes());
    // Load the readers first: then none of them is ahead of the head.
    let places: Vec<(usize, u64)> =
        (0..cursors.seats.used()).filter_map(|seat| Some((seat, place(ring, seat)?))).collect();
    let written_total = cursors.written();
    let reader = |(seat, place): (usize, u64)| ReaderView {
        seat,
        pid: unpacked(cursors.seats.owner(seat).load(Ordering::Relaxed)),
        lag: written_total.saturating_sub(place),
        missed_total: cursors.seats.missed(seat).load(Ordering::Relaxed),
    };
    let mut slowest: Vec<ReaderView> = places.iter().copied().map(reader).collect();
    let waits_for = cursors.blocked_on().and_then(|on| slowest.iter().find(|reader| reader.seat == on)).copied();
    slowest.sort_by_key(|reader| std::cmp::Reverse(reader.lag));
    let (readers, fill) = (slowest.len(), slowest.first().map_or(0, |slowest| slowest.lag));
    slowest.truncate(readers_most);
    RingView {
        id,
        label: notes.label.clone(),
        capacity: cursors.capacity,
        item_bytes: ring.item_bytes(),
        bytes: ring.bytes(),
        policy: notes.policy,
        written_total,
        fill,
        writer: notes.writer(),
        ended: cursors.ended() != Ended::Open,
        readers,
        waits_for,
        waits_total: notes.parks.load(Ordering::Relaxed),
        evicted_total: notes.evicted.load(Ordering::Relaxed),
        slowest,
    }
}

/// Returns the position of the reader in a reader slot; `None` if the slot has no reader.
fn place(ring: &dyn AnyRing, seat: usize) -> Option<u64> {
    let seats = &ring.cursors().seats;
    let word = seats.tail(seat).load(Ordering::Acquire);
    (word != VACANT && word != EVICTED).then(|| position(word).max(seats.read_to(seat).load(Ordering::Relaxed)))
}
