//! A scheduler without work: what it takes from others, how long it waits for them, and its way into sleep and back.

use std::sync::atomic::Ordering;
use std::task::Context as TaskContext;

use crossbeam_deque::Steal;

use super::guard::Verdict;
use super::{Local, SchedulerShared};
use crate::cell::bump;
use crate::parking::Sleep;
use crate::slab::Slot;

/// Rounds of waiting for others who send work time and again: longer than a turn of their reactor.
const FED_SPIN_ROUNDS: u32 = 2_000;
/// Whoever promises work brings it sooner; the reactor waits so long.
#[cfg(feature = "store")]
const PROMISE_NS: u64 = 100_000;

impl Local {
    /// A process of another scheduler: whatever is stuck there, or of the longest queue what outlasts the taking.
    #[cold]
    pub(super) fn stolen(&self) -> Option<Slot> {
        if !self.searching.replace(true) {
            self.shared.parking.search();
        }
        let others = || self.shared.schedulers.iter().enumerate().filter(|(id, _)| *id != self.id);
        for (_, other) in others() {
            if let Some(slot) = other.steal_next() {
                bump(&self.me.counters.steals, 1);
                return Some(slot);
            }
        }
        let queued = |other: &SchedulerShared| if other.is_guarded() { 0 } else { other.stealer.len() };
        let (id, other) = others().max_by_key(|(_, other)| queued(other)).filter(|(_, other)| queued(other) > 0)?;
        match self.observe(id) {
            Verdict::Lasting => self.steal_from(other),
            Verdict::Brisk => {
                self.guard(id);
                None
            }
            Verdict::Over => None,
        }
    }

    fn steal_from(&self, other: &SchedulerShared) -> Option<Slot> {
        let before = self.queue.len();
        let Steal::Success(slot) = other.stealer.steal_batch_and_pop(&self.queue) else { return None };
        bump(&self.me.counters.steals, 1 + (self.queue.len() - before) as u64);
        Some(slot)
    }

    /// Waits a little for what other schedulers send, without taking anything from them; false if nothing came.
    ///
    /// What lies in their queues is not for this one: it must not be waited for here, where nothing is stolen. Nor is what
    /// comes from outside, such as the ticks of a ticker: it ends the wait and promises nothing.
    pub(super) fn await_feed(&self) -> bool {
        let came = (0..FED_SPIN_ROUNDS).any(|round| {
            std::hint::spin_loop();
            !self.me.pinned.is_empty()
                || (round % 32 == 31 && (!self.shared.injector.is_empty() || self.shared.is_stopped()))
        });
        came && self.shared.injector.is_empty() && !self.me.was_served_from_outside()
    }

    /// Waits a little for what somebody outside has promised.
    #[cfg(feature = "store")]
    #[cold]
    pub(super) fn await_promised(&self) {
        self.me.promised.store(false, Ordering::Relaxed);
        let until_ns = self.stopwatch.now_ns() + PROMISE_NS;
        while !self.shared.has_work() && self.me.pinned.is_empty() && self.stopwatch.now_ns() < until_ns {
            (0..32).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Goes to sleep in the reactor; false if work came just then.
    pub(super) fn sleep(&self, cx: &mut TaskContext<'_>) -> bool {
        if self.searching.replace(false) {
            self.shared.parking.end_search();
        }
        match self.shared.parking.sleep(self.id, || self.shared.has_work() || !self.me.pinned.is_empty()) {
            Sleep::Asleep => {}
            // Whoever queued that may have left it to a search, and woken nobody.
            Sleep::Work => {
                self.shared.parking.search();
                self.searching.set(true);
                return false;
            }
            Sleep::Picked => {
                self.searching.set(true);
                return false;
            }
        }
        self.asleep.set(true);
        self.rest(cx);
        self.wards.wake_soon(cx);
        let counters = &self.me.counters;
        self.slept_at_ns.set(counters.busy_since_ns.load(Ordering::Relaxed));
        counters.busy_since_ns.store(0, Ordering::Relaxed);
        bump(&counters.parks, 1);
        true
    }

    /// Takes back this scheduler's mark if it slept; one who was picked counts as searching, which is the answer.
    pub(super) fn rise(&self) -> bool {
        let picked = self.asleep.replace(false) && !self.shared.parking.wake_up(self.id);
        if picked {
            self.searching.set(true);
        } else if self.wards.any() && !self.searching.replace(true) {
            // Whatever it finds releases the wards.
            self.shared.parking.search();
        }
        picked
    }

    pub(super) fn found_work(&self) {
        self.searching.set(false);
        self.release_wards();
        if self.shared.parking.end_search() && self.shared.parking.might_wake() && self.shared.has_work() {
            self.shared.wake_one();
        }
    }
}
