//! Queue of items ordered by their instants, and by order of insertion among equal instants.
//!
//! ```text
//!   owners with few ──▶ pending ──▶ ┐
//!                                  ├──▶ take_due: a batch in order; at most a quarter of the bulk while others are due
//!   owners with many ─▶ bulk ────▶ ┘
//! ```
//!
//! All items of an owner are in one of the two maps, so they come out in order. Without the bulk, a burst of one owner
//! would delay all items that are due a moment later.
//!
//! Never reads a clock: `now_ns` is an argument. Ordered maps have advantages over a timer wheel: they are exact to the
//! nanosecond, take no memory when empty, and know the first instant, so no thread wakes just to turn a wheel.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

/// Instant at which an item is due, and its id; ids grow in order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) at_ns: u64,
    pub(super) id: u64,
}

pub(super) struct Queue<T> {
    pending: BTreeMap<Due, T>,
    /// Items of owners that have many.
    bulk: BTreeMap<Due, T>,
    last_id: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { pending: BTreeMap::new(), bulk: BTreeMap::new(), last_id: 0 }
    }
}

impl<T> Queue<T> {
    /// Adds an item and returns its id, which is unique and never 0.
    pub(super) fn insert(&mut self, at_ns: u64, item: T) -> u64 {
        self.last_id += 1;
        self.pending.insert(Due { at_ns, id: self.last_id }, item);
        self.last_id
    }

    /// Adds an item of an owner that has many, and returns its id.
    pub(super) fn insert_bulk(&mut self, at_ns: u64, item: T) -> u64 {
        self.last_id += 1;
        self.bulk.insert(Due { at_ns, id: self.last_id }, item);
        self.last_id
    }

    /// Adds an item again under its previous id.
    pub(super) fn put_back(&mut self, due: Due, item: T, is_bulk: bool) {
        let queue = if is_bulk { &mut self.bulk } else { &mut self.pending };
        queue.insert(due, item);
    }

    /// Moves the items of an owner that now has many to the bulk.
    pub(super) fn move_to_bulk(&mut self, dues: impl Iterator<Item = Due>) {
        for due in dues {
            self.bulk.extend(self.pending.remove_entry(&due));
        }
    }

    pub(super) fn has_bulk(&self) -> bool {
        !self.bulk.is_empty()
    }

    /// Returns true if this item is in the bulk.
    pub(super) fn is_bulk(&self, due: Due) -> bool {
        self.bulk.contains_key(&due)
    }

    pub(super) fn remove(&mut self, due: Due) -> Option<T> {
        self.pending.remove(&due).or_else(|| self.bulk.remove(&due))
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len() + self.bulk.len()
    }

    /// Returns the first instant.
    pub(super) fn first_ns(&self) -> Option<u64> {
        let first = |queue: &BTreeMap<Due, T>| queue.first_key_value().map(|(due, _)| due.at_ns);
        first(&self.pending).into_iter().chain(first(&self.bulk)).min()
    }

    /// Removes and returns at most `most` of the items that are due at `now_ns`, in order. If more are due, the bulk
    /// gets what the other items leave, and at least a quarter.
    pub(super) fn take_due(&mut self, now_ns: u64, most: usize) -> Vec<(Due, T)> {
        let kept_for_bulk = self.bulk.len().min(most.div_ceil(4));
        let mut due = take(&mut self.pending, now_ns, most - kept_for_bulk);
        if !self.bulk.is_empty() {
            let left = most - due.len();
            due.extend(take(&mut self.bulk, now_ns, left));
            due.sort_unstable_by_key(|(due, _)| *due);
        }
        due
    }
}

fn take<T>(queue: &mut BTreeMap<Due, T>, now_ns: u64, most: usize) -> Vec<(Due, T)> {
    let due = || queue.first_entry().filter(|entry| entry.key().at_ns <= now_ns).map(OccupiedEntry::remove_entry);
    std::iter::from_fn(due).take(most).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equals_come_in_the_order_in_which_they_were_set() {
        let mut queue = Queue::default();
        for (at_ns, name) in [(20, "c"), (10, "a"), (20, "d"), (10, "b"), (30, "e")] {
            queue.insert(at_ns, name);
        }

        let names = |due: Vec<(Due, &'static str)>| due.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(queue.first_ns(), Some(10));
        assert_eq!(names(queue.take_due(9, 10)), [""; 0]);
        assert_eq!(names(queue.take_due(20, 3)), ["a", "b", "c"]);
        assert_eq!(names(queue.take_due(20, 3)), ["d"]);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_burst_of_an_owner_with_many_does_not_delay_others_beyond_a_batch() {
        let mut queue = Queue::default();
        for _ in 0..1000 {
            queue.insert_bulk(10, "burst");
        }
        queue.insert(20, "neighbour");

        let first = queue.take_due(20, 16);
        assert_eq!(first.iter().filter(|(_, name)| *name == "burst").count(), 15);
        assert_eq!(first.last().map(|(_, name)| *name), Some("neighbour"));
        let mut last = Due { at_ns: 0, id: 0 };
        let mut rest = std::iter::from_fn(|| Some(queue.take_due(20, 16)).filter(|due| !due.is_empty()));
        let rest: Vec<_> = rest.by_ref().flatten().collect();
        assert_eq!(rest.len(), 985);
        assert!(rest.iter().all(|(due, _)| *due > std::mem::replace(&mut last, *due)), "in order");
    }

    #[test]
    fn a_burst_is_not_starved_by_others() {
        let mut queue = Queue::default();
        for at_ns in 0..100 {
            queue.insert(at_ns, "other");
        }
        let burst = queue.insert_bulk(0, "burst");
        let moved = Due { at_ns: 50, id: 51 };
        queue.move_to_bulk([moved].into_iter());

        assert!(queue.is_bulk(moved) && !queue.is_bulk(Due { at_ns: 51, id: 52 }));
        let first = queue.take_due(200, 8);
        assert_eq!(first.len(), 8);
        assert!(first.iter().any(|(due, _)| due.id == burst));
        assert_eq!(queue.len(), 93);
    }

    proptest! {
        #[test]
        fn what_was_not_removed_comes_out_once_and_in_order(
            instants in prop::collection::vec(0_u64..50, 1..100),
            removed in prop::collection::vec(any::<bool>(), 100),
            step in 1_u64..60,
        ) {
            let mut queue = Queue::default();
            let dues: Vec<Due> = instants.iter().map(|&at_ns| Due { at_ns, id: queue.insert(at_ns, at_ns) }).collect();
            let mut kept = Vec::new();
            for (due, removed) in dues.iter().zip(removed) {
                if removed {
                    prop_assert_eq!(queue.remove(*due), Some(due.at_ns));
                    prop_assert_eq!(queue.remove(*due), None);
                } else {
                    kept.push(*due);
                }
            }
            kept.sort();

            let mut out = Vec::new();
            for now_ns in (0..120).step_by(step as usize) {
                let due = queue.take_due(now_ns, usize::MAX);
                prop_assert!(due.iter().all(|(due, _)| due.at_ns <= now_ns));
                out.extend(due.into_iter().map(|(due, _)| due));
                prop_assert!(queue.first_ns().is_none_or(|first| first > now_ns));
            }
            prop_assert_eq!(out, kept);
        }
    }
}
