//! Age of the oldest process in a scheduler's queue, measured only while an observer watches the schedulers.
//!
//! ```text
//!   slice start ──▶ mark(now, length) ──▶ [(pushed, ns), …]     pushed = taken + length: it only grows
//!   the oldest process is number `taken`: the first mark with pushed > taken has seen it in the queue
//! ```
//!
//! A queue is first in, first out, so its processes have numbers in the order in which they entered it. The age is exact
//! to the time between two marks, which is a slice: a quarter of a millisecond. Nothing is stored for each process.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Maximum number of marks. When they are used up, every second one is dropped, which halves the precision.
const MARKS_MAX: usize = 64;

/// Marks of one scheduler's queue. Only its own thread uses them.
#[derive(Default)]
pub(in crate::scheduler) struct QueueAge {
    /// Number of processes that this scheduler took from its queue.
    popped: Cell<u64>,
    /// Numbers of processes that had ever entered the queue, with the times of these observations.
    marks: RefCell<VecDeque<(u64, u64)>>,
    /// Number of processes taken by this scheduler and by others at the last mark.
    taken: Cell<u64>,
}

impl QueueAge {
    /// Counts a process that this scheduler took from its queue.
    #[inline]
    pub(in crate::scheduler) fn count_pop(&self) {
        self.popped.set(self.popped.get().wrapping_add(1));
    }

    /// Returns the number of processes that this scheduler took from its queue.
    pub(in crate::scheduler) fn popped(&self) -> u64 {
        self.popped.get()
    }

    /// Marks the queue with `len` processes, of which others took `stolen` in all. Returns the time at which its oldest
    /// process was already there; 0 for an empty queue.
    pub(in crate::scheduler) fn mark(&self, now_ns: u64, len: u64, stolen: u64) -> u64 {
        let mut marks = self.marks.borrow_mut();
        // A thief counts after it has taken: then the number of taken processes may seem to decrease relative to `len`.
        let taken = self.popped.get().wrapping_add(stolen).max(self.taken.get());
        self.taken.set(taken);
        if len == 0 {
            marks.clear();
            return 0;
        }
        let pushed = taken + len;
        while marks.front().is_some_and(|(seen, _)| *seen <= taken) {
            marks.pop_front();
        }
        if marks.len() == MARKS_MAX {
            let mut keeps = false;
            marks.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
        if marks.back().is_none_or(|(seen, _)| *seen < pushed) {
            marks.push_back((pushed, now_ns.max(1)));
        }
        marks.front().map_or(0, |(_, at_ns)| *at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(age: &QueueAge, processes: u64) {
        (0..processes).for_each(|_| age.count_pop());
    }

    #[test]
    fn the_oldest_process_is_as_old_as_the_first_mark_that_has_seen_it() {
        let age = QueueAge::default();

        assert_eq!(age.mark(100, 3, 0), 100);
        assert_eq!(age.mark(200, 5, 0), 100, "nothing was taken");
        taking(&age, 2);
        assert_eq!(age.mark(300, 3, 0), 100, "the third of the first three is left");
        taking(&age, 1);
        assert_eq!(age.mark(400, 2, 0), 200);
        assert_eq!(age.mark(500, 1, 1), 200, "another scheduler took one");
        taking(&age, 1);
        assert_eq!(age.mark(600, 0, 1), 0);
        assert_eq!(age.mark(700, 1, 1), 700);
    }

    #[test]
    fn a_busy_queue_has_no_old_process() {
        let age = QueueAge::default();
        for round in 1..1_000 {
            let oldest_ns = age.mark(round * 250, 10, 0);
            assert!(round * 250 - oldest_ns <= 250, "{round}: {oldest_ns}");
            taking(&age, 10);
        }
    }

    #[test]
    fn many_marks_take_little_memory_and_the_first_is_kept() {
        let age = QueueAge::default();
        for round in 1..10_000 {
            assert_eq!(age.mark(round * 250, round, 0), 250);
            assert!(age.marks.borrow().len() <= MARKS_MAX);
        }
    }
}
