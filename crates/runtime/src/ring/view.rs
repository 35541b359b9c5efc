//! Rings as observers see them.

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

/// A ring at some recent moment; what ends in `_total` only goes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingView {
    /// Unlike every other of its runtime.
    pub id: u64,
    /// What it was called.
    pub label: Option<Arc<str>>,
    /// Items that fit.
    pub capacity: u64,
    /// Bytes of an item.
    pub item_bytes: usize,
    /// Bytes of the ring.
    pub bytes: usize,
    /// What happens to readers that are too slow.
    pub policy: Policy,
    /// Items written.
    pub written_total: u64,
    /// Items that the slowest reader has before it; 0 without readers.
    pub fill: u64,
    /// The process that wrote last.
    pub writer: Option<Pid>,
    /// The writer is gone; readers may still read what is there.
    pub ended: bool,
    /// Readers.
    pub readers: usize,
    /// The reader that the writer waits for.
    pub waits_for: Option<ReaderView>,
    /// Times that the writer had to wait.
    pub waits_total: u64,
    /// Readers evicted.
    pub evicted_total: u64,
    /// Some or all of the readers, the slowest first.
    pub slowest: Vec<ReaderView>,
}

/// A reader of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderView {
    /// Its seat.
    pub seat: usize,
    /// The process that read last; `None` for a thread, and for one that has not read yet.
    pub pid: Option<Pid>,
    /// Items that it has before it.
    pub lag: u64,
    /// Items that it has missed.
    pub missed_total: u64,
}

/// The rings that observers of a runtime see.
#[derive(Default)]
pub(crate) struct Streams(Mutex<Known>);

/// Rings that observers can see at most; of more, those that were built last are not shown.
const KNOWN_MAX: usize = 65_536;

#[derive(Default)]
struct Known {
    /// With what tells them apart, in the order in which they were built.
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
        // Seldom: its memory doubles each time that so many are alive.
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

/// Makes a ring known to the observers of a runtime, or of the one whose process builds it.
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
    // The readers first: none is then ahead of the head.
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

/// How far the reader in a seat is; `None` if nobody reads there.
fn place(ring: &dyn AnyRing, seat: usize) -> Option<u64> {
    let seats = &ring.cursors().seats;
    let word = seats.tail(seat).load(Ordering::Acquire);
    (word != VACANT && word != EVICTED).then(|| position(word).max(seats.read_to(seat).load(Ordering::Relaxed)))
}
