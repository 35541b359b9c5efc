//! The agenda of a run, in order of time. Entries of the same time come in the order in which they were added.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::clock::WorldTime;

/// Planned things.
pub(super) struct Agenda<T> {
    entries: BinaryHeap<Reverse<Entry<T>>>,
    number: u64,
}

struct Entry<T> {
    at: WorldTime,
    number: u64,
    what: T,
}

impl<T> Agenda<T> {
    /// Plans something.
    pub(super) fn add(&mut self, at: WorldTime, what: T) {
        self.number += 1;
        self.entries.push(Reverse(Entry { at, number: self.number, what }));
    }

    /// Takes the next thing, if it happens until a time.
    pub(super) fn take_until(&mut self, end: WorldTime) -> Option<(WorldTime, T)> {
        self.entries.peek().filter(|Reverse(entry)| entry.at <= end)?;
        self.entries.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }

    /// Removes what no longer happens.
    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let entries = std::mem::take(&mut self.entries).into_iter();
        self.entries = entries.filter(|Reverse(entry)| keep(&entry.what)).collect();
    }
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { entries: BinaryHeap::new(), number: 0 }
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
