//! Guests that guests spawn: they start after the poll of their parent, and few of them at a time ahead of others.
//!
//! ```text
//!   spawn ──▶ held ──▶ end of the parent's poll ──┬──▶ queue, while fewer than PLACES of them wait there
//!                                                 └──▶ behind all others, with those that used up their time slice
//! ```
//!
//! Each new guest may compute for a whole time slice. Guests that fork without end would otherwise fill the queue, and a
//! process that is woken would wait for hundreds of such slices.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::process::table::Slot;
use crate::scheduler::Local;

/// Maximum number of new guests in the queue of a scheduler.
const PLACES: usize = 8;

/// Places of new guests in the queue of one scheduler. Only its own thread uses them.
#[derive(Default)]
pub(in crate::scheduler) struct ChildPlaces(
    /// Places of guests that may still wait, counted from the first process ever in the queue.
    RefCell<VecDeque<u64>>,
);

impl ChildPlaces {
    /// Returns how many more may queue, after `taken` processes have ever left the queue.
    fn free(&self, taken: u64) -> usize {
        let mut places = self.0.borrow_mut();
        while places.front().is_some_and(|place| *place <= taken) {
            places.pop_front();
        }
        PLACES - places.len().min(PLACES)
    }
}

impl Local {
    /// Holds back a guest that the running guest has spawned, until [`start_children`](Self::start_children).
    pub(crate) fn hold_child(&self, slot: Slot) {
        let mut children = self.children.take();
        children.push(slot);
        self.children.set(children);
    }

    /// Queues the guests that the running guest has spawned, at the end of its poll.
    #[inline]
    pub(crate) fn start_children(&self) {
        let mut children = self.children.take();
        if !children.is_empty() {
            self.queue_children(&mut children);
        }
        self.children.set(children);
    }

    /// If the poll used up its time slice, all children queue behind others, as the parent does itself.
    #[inline(never)]
    fn queue_children(&self, children: &mut Vec<Slot>) {
        let is_long = self.preempted.get().is_some() && self.preempted.get() == self.current.get();
        let taken = self.queue_age.popped() + self.me.stolen_from_queue.load(Ordering::Relaxed);
        let places = if is_long { 0 } else { self.child_places.free(taken) };
        for (at, slot) in children.drain(..).enumerate() {
            if at >= places {
                self.queue_behind(slot);
                continue;
            }
            self.enqueue(slot, false);
            self.child_places.0.borrow_mut().push_back(taken + self.queue.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_guest_has_left_the_queue() {
        let places = ChildPlaces::default();
        assert_eq!(places.free(0), PLACES);

        places.0.borrow_mut().extend(3..11);

        assert_eq!([places.free(2), places.free(3), places.free(9)], [0, 1, 7]);
        assert_eq!(places.free(10), PLACES);
    }
}
