//! What is to come, ordered by its instant, and by the order in which it was set among equals.
//!
//! Never reads a clock: `now_ns` is an argument. An ordered map and no wheel: exact to the nanosecond, empty when it is
//! empty, and the first instant is known, so that nobody has to wake for the next turn of a wheel.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

/// When one is due; ids grow in the order of setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) at_ns: u64,
    pub(super) id: u64,
}

pub(super) struct Queue<T> {
    coming: BTreeMap<Due, T>,
    last_id: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { coming: BTreeMap::new(), last_id: 0 }
    }
}

impl<T> Queue<T> {
    /// Puts one in, and gives its id: never 0, never twice the same.
    pub(super) fn insert(&mut self, at_ns: u64, item: T) -> u64 {
        self.last_id += 1;
        self.coming.insert(Due { at_ns, id: self.last_id }, item);
        self.last_id
    }

    /// Puts one in that has been in before.
    pub(super) fn put_back(&mut self, due: Due, item: T) {
        self.coming.insert(due, item);
    }

    pub(super) fn remove(&mut self, due: Due) -> Option<T> {
        self.coming.remove(&due)
    }

    pub(super) fn len(&self) -> usize {
        self.coming.len()
    }

    /// The first instant.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.coming.first_key_value().map(|(due, _)| due.at_ns)
    }

    /// Takes out what is due at `now_ns`, in order, `most` at the most.
    pub(super) fn take_due(&mut self, now_ns: u64, most: usize) -> Vec<(Due, T)> {
        let due =
            || self.coming.first_entry().filter(|entry| entry.key().at_ns <= now_ns).map(OccupiedEntry::remove_entry);
        std::iter::from_fn(due).take(most).collect()
    }
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
