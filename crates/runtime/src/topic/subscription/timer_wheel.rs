//! Hierarchical timer wheel for deadlines that are mostly removed before they expire. Insertion and removal take
//! constant time.
//!
//! ```text
//!   level 0: 64 slots of a tick   level 1: 64 of 64 ticks   level 2: …        a list of entries in each slot
//!            ◀── a slot of a higher level is spread over the lower one when its time comes
//! ```
//!
//! Never reads a clock: the current time is an argument. No entry expires early; one expires at most a tick late if
//! [`advance`](TimerWheel::advance) is called by then.

/// A tick is 2²⁰ ns, about a millisecond.
const TICK_BITS: u32 = 20;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 6;
const NONE: u32 = u32::MAX;

/// Timer wheel over entries that are identified by small integers.
#[derive(Debug)]
pub(crate) struct TimerWheel {
    /// Last tick for which all entries have expired.
    now: u64,
    heads: Box<[u32; SLOTS * LEVELS]>,
    /// Bit set of the non-empty slots of each level.
    occupied: [u64; LEVELS],
    entries: Vec<Entry>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    next: u32,
    previous: u32,
    /// Slot that holds the entry; `NONE` if it is not in the wheel.
    slot: u32,
}

const VACANT: Entry = Entry { at: 0, next: NONE, previous: NONE, slot: NONE };

impl Default for TimerWheel {
    fn default() -> Self {
        Self { now: 0, heads: Box::new([NONE; SLOTS * LEVELS]), occupied: [0; LEVELS], entries: Vec::new(), len: 0 }
    }
}

/// Returns the first tick that begins after the instant.
const fn tick_after(at_ns: u64) -> u64 {
    (at_ns >> TICK_BITS) + 1
}

impl TimerWheel {
    /// Number of entries in the wheel.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Inserts an entry that is not in the wheel.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32, at_ns: u64, now_ns: u64) {
        if self.entries.len() <= id as usize {
            self.entries.resize(id as usize + 1, VACANT);
        }
        if self.len == 0 {
            // The wheel is empty, so no entry can be skipped.
            self.now = self.now.max(now_ns >> TICK_BITS);
        }
        self.len += 1;
        self.place(id, tick_after(at_ns));
    }

    fn place(&mut self, id: u32, at: u64) {
        let at = at.max(self.now + 1);
        let differs = at ^ self.now;
        let level = ((differs | 1).ilog2() / SLOT_BITS).min(LEVELS as u32 - 1);
        let digit = (at >> (level * SLOT_BITS)) as usize % SLOTS;
        let slot = level as usize * SLOTS + digit;
        let next = std::mem::replace(&mut self.heads[slot], id);
        if next != NONE {
            self.entries[next as usize].previous = id;
        }
        self.entries[id as usize] = Entry { at, next, previous: NONE, slot: slot as u32 };
        self.occupied[level as usize] |= 1 << digit;
    }

    /// Removes an entry if it is in the wheel.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        let Some(entry) = self.entries.get_mut(id as usize) else { return };
        let Entry { next, previous, slot, .. } = *entry;
        if slot == NONE {
            return;
        }
        *entry = VACANT;
        self.len -= 1;
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
            return;
        }
        self.heads[slot as usize] = next;
        if next == NONE {
            self.occupied[slot as usize / SLOTS] &= !(1 << (slot as usize % SLOTS));
        }
    }

    /// Returns the time at which to call [`advance`](Self::advance) next: at most a tick after the first deadline,
    /// possibly before it.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.next_tick().map(|tick| tick << TICK_BITS)
    }

    /// Returns the next non-empty slot of a level, and the tick at which it begins.
    fn next_of(&self, level: usize) -> Option<(u64, usize)> {
        let occupied = self.occupied[level];
        if occupied == 0 {
            return None;
        }
        let shift = level as u32 * SLOT_BITS;
        let current = self.now >> shift;
        // All entries are ahead of the current slot, possibly past the wrap-around of the level.
        let ahead = occupied.rotate_right((current % SLOTS as u64) as u32 + 1).trailing_zeros();
        let position = current + 1 + u64::from(ahead);
        Some((position << shift, level * SLOTS + (position as usize % SLOTS)))
    }

    /// Removes the entries that are due, and calls `due` for each.
    pub(crate) fn advance(&mut self, now_ns: u64, mut due: impl FnMut(u32)) {
        let target = now_ns >> TICK_BITS;
        while let Some(tick) = self.next_tick().filter(|tick| *tick <= target) {
            // Compute these before `now` changes: afterwards the slots would appear to be a full turn ahead.
            let slots: [_; LEVELS] = std::array::from_fn(|level| self.next_of(level).filter(|next| next.0 == tick));
            self.now = tick;
            for (_, slot) in slots.into_iter().flatten() {
                self.expire_slot(slot, tick, &mut due);
            }
        }
        self.now = self.now.max(target);
    }

    fn next_tick(&self) -> Option<u64> {
        (0..LEVELS).filter_map(|level| self.next_of(level)).map(|(tick, _)| tick).min()
    }

    fn expire_slot(&mut self, slot: usize, tick: u64, due: &mut impl FnMut(u32)) {
        let mut id = std::mem::replace(&mut self.heads[slot], NONE);
        self.occupied[slot / SLOTS] &= !(1 << (slot % SLOTS));
        while id != NONE {
            let Entry { at, next, .. } = self.entries[id as usize];
            if at <= tick {
                self.entries[id as usize] = VACANT;
                self.len -= 1;
                due(id);
            } else {
                self.place(id, at);
            }
            id = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const TICK_NS: u64 = 1 << TICK_BITS;

    proptest! {
        #[test]
        fn everything_that_stays_in_comes_out_once_never_early_and_at_most_a_tick_late(
            steps in prop::collection::vec((0_u32..40, 0_u64..5_000_000, any::<bool>(), 0_u64..3_000), 1..200),
        ) {
            let (mut wheel, mut model, mut now) = (TimerWheel::default(), BTreeMap::new(), 0_u64);
            for (id, ticks, remove, step) in steps {
                if remove {
                    wheel.remove(id);
                    model.remove(&id);
                } else if let std::collections::btree_map::Entry::Vacant(vacant) = model.entry(id) {
                    // Covers deadlines of all magnitudes.
                    let at = now + ((ticks * TICK_NS) >> (ticks % 23));
                    vacant.insert(at);
                    wheel.insert(id, at, now);
                }
                prop_assert_eq!(wheel.len(), model.len());
                let first = model.values().copied().min();
                prop_assert_eq!(wheel.next_ns().is_some(), first.is_some());
                if let (Some(next), Some(first)) = (wheel.next_ns(), first) {
                    prop_assert!(next <= (first.max(now) + 2 * TICK_NS));
                }
                now += step * TICK_NS / 7;
                let mut out = Vec::new();
                wheel.advance(now, |id| out.push(id));
                for id in out {
                    let at = model.remove(&id);
                    prop_assert!(at.is_some_and(|at| at <= now), "id {} at {:?}, now {}", id, at, now);
                }
                prop_assert!(model.values().all(|at| at + TICK_NS > now), "{:?} at {}", model, now);
            }
        }
    }
}
