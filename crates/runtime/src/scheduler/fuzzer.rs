//! Seeded choice of the process that runs next: the schedules of [`test`](crate::test).
//!
//! A scheduler with a [`ScheduleFuzzer`] keeps all runnable processes in one list and draws from it. It also makes a
//! process yield now and then before a receive or a send, so that other processes run in between. Without the feature
//! `test` no `ScheduleFuzzer` can exist, and the compiler removes every check for it.

#[cfg(not(feature = "test"))]
pub(crate) use absent::ScheduleFuzzer;
#[cfg(feature = "test")]
pub(crate) use seeded::ScheduleFuzzer;

#[cfg(feature = "test")]
mod seeded {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::task::Waker;

    use crate::process::pid::Pid;
    use crate::process::table::Slot;
    use crate::rng::splitmix64;

    /// Mean number of receives and sends for each one that lets other processes run first.
    const PREEMPTION_INTERVAL: u64 = 8;

    /// Number of runs of turns of one process that are remembered.
    const LAST_TURNS: usize = 32;

    /// Random decisions of a scheduler, derived from a seed.
    pub(crate) struct ScheduleFuzzer {
        random: Cell<u64>,
        runnable: RefCell<Vec<Slot>>,
        /// Number of polls left until the run counts as endless.
        polls_left: Cell<u64>,
        /// Waker of the task that waits until no polls are left.
        exhausted_waker: RefCell<Option<Waker>>,
        /// True if the next receive must not yield.
        preemption_suppressed: Cell<bool>,
        /// The last processes that ran, each with the number of turns that it had in a row.
        last_turns: RefCell<VecDeque<(Pid, u32)>>,
    }

    impl ScheduleFuzzer {
        pub(crate) fn new(seed: u64, polls: u64) -> Self {
            Self {
                random: Cell::new(seed),
                runnable: RefCell::default(),
                polls_left: Cell::new(polls),
                exhausted_waker: RefCell::default(),
                preemption_suppressed: Cell::new(false),
                last_turns: RefCell::default(),
            }
        }

        /// Returns the next number.
        fn next(&self) -> u64 {
            let mut state = self.random.get();
            let number = splitmix64(&mut state);
            self.random.set(state);
            number
        }

        pub(crate) fn push(&self, slot: Slot) {
            self.runnable.borrow_mut().push(slot);
        }

        /// Draws the process that runs next.
        pub(crate) fn pick(&self) -> Option<Slot> {
            let mut runnable = self.runnable.borrow_mut();
            if runnable.is_empty() {
                return None;
            }
            let Some(polls_left) = self.polls_left.get().checked_sub(1) else {
                if let Some(waker) = self.exhausted_waker.take() {
                    waker.wake();
                }
                return None;
            };
            self.polls_left.set(polls_left);
            let index = self.next() % runnable.len() as u64;
            let slot = runnable.swap_remove(index as usize);
            self.note_turn(slot.pid());
            Some(slot)
        }

        fn note_turn(&self, pid: Pid) {
            let mut turns = self.last_turns.borrow_mut();
            match turns.back_mut() {
                Some((last, count)) if *last == pid => *count = count.saturating_add(1),
                _ => {
                    if turns.len() == LAST_TURNS {
                        turns.pop_front();
                    }
                    turns.push_back((pid, 1));
                }
            }
        }

        /// Returns the end of the schedule, oldest first.
        pub(crate) fn last_turns(&self) -> Vec<(Pid, u32)> {
            self.last_turns.borrow().iter().copied().collect()
        }

        /// Returns true if the running process must let other processes run first.
        pub(crate) fn preempts(&self) -> bool {
            !self.preemption_suppressed.replace(false) && self.next().is_multiple_of(PREEMPTION_INTERVAL)
        }

        /// Returns true or false with equal probability.
        pub(crate) fn coin_flip(&self) -> bool {
            self.next().is_multiple_of(2)
        }

        /// Prevents the next receive from yielding.
        pub(crate) fn suppress_preemption(&self) {
            self.preemption_suppressed.set(true);
        }

        /// Returns true if all polls are used up; wakes `waker` when they are.
        pub(crate) fn is_exhausted(&self, waker: &Waker) -> bool {
            *self.exhausted_waker.borrow_mut() = Some(waker.clone());
            self.polls_left.get() == 0
        }

        /// Sets the number of polls left, for the end of a run.
        pub(crate) fn refill(&self, polls: u64) {
            self.polls_left.set(polls);
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_seed_gives_the_same_numbers_and_its_neighbour_others() {
            let numbers = |seed| {
                std::iter::repeat_with({
                    let fuzzer = ScheduleFuzzer::new(seed, 0);
                    move || fuzzer.next()
                })
            };

            assert!(numbers(7).take(50).eq(numbers(7).take(50)));
            assert!(numbers(7).take(50).zip(numbers(8)).all(|(one, other)| one != other));
            // The first number of the reference implementation for the seed 0.
            assert_eq!(numbers(0).next(), Some(0xe220_a839_7b1d_cdaf));
        }
    }
}

#[cfg(not(feature = "test"))]
mod absent {
    use crate::process::table::Slot;

    /// No value of this type exists.
    pub(crate) enum ScheduleFuzzer {}

    impl ScheduleFuzzer {
        pub(crate) fn push(&self, _: Slot) {
            match *self {}
        }

        pub(crate) fn pick(&self) -> Option<Slot> {
            match *self {}
        }

        pub(crate) fn preempts(&self) -> bool {
            match *self {}
        }

        pub(crate) fn coin_flip(&self) -> bool {
            match *self {}
        }

        pub(crate) fn suppress_preemption(&self) {
            match *self {}
        }
    }
}
