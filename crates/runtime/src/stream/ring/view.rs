//! Builds the views of rings for observers.

use std::sync::atomic::Ordering;

use super::cursors::{Cursors, Ended};
use super::reader_slots::{EVICTED, VACANT, position};
use super::registry::{ObservedRing, ReaderView, RingView};
use super::shared::{RingInfo, RingShared, unpacked};

impl<T: Send + Sync> ObservedRing for RingShared<T> {
    fn view(&self, id: u64, readers_limit: usize) -> RingView {
        let sizes = RingSizes { item_bytes: size_of::<T>(), bytes: self.bytes() };
        view(id, &self.cursors, &self.info, sizes, readers_limit)
    }

    fn memory(&self) -> (usize, usize, usize) {
        (self.slots.address(), self.slots.bytes(), self.bytes() - self.slots.bytes())
    }
}

/// Sizes that depend on the type of the items, in bytes.
#[derive(Clone, Copy)]
struct RingSizes {
    item_bytes: usize,
    bytes: usize,
}

fn view(id: u64, cursors: &Cursors, info: &RingInfo, sizes: RingSizes, readers_limit: usize) -> RingView {
    // Load the readers first: then none of them is ahead of the head.
    let positions: Vec<(usize, u64)> = (0..cursors.reader_slots.used())
        .filter_map(|reader_slot| Some((reader_slot, reader_position(cursors, reader_slot)?)))
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
        item_bytes: sizes.item_bytes,
        bytes: sizes.bytes,
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
fn reader_position(cursors: &Cursors, reader_slot: usize) -> Option<u64> {
    let reader_slots = &cursors.reader_slots;
    let word = reader_slots.tail(reader_slot).load(Ordering::Acquire);
    (word != VACANT && word != EVICTED)
        .then(|| position(word).max(reader_slots.read_to(reader_slot).load(Ordering::Relaxed)))
}
