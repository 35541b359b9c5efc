//! A scheduler without work: stealing, waiting for other schedulers, going to sleep and waking up.

use std::sync::atomic::Ordering;
use std::task::Context as TaskContext;

use crossbeam_deque::Steal;

use super::queue::retry_steal;
use super::steal_monitor::StealDecision;
use super::{Local, SchedulerShared};
use crate::process::header::bump;
use crate::process::table::Slot;
use crate::scheduler::parking::Sleep;

/// Rounds of waiting for schedulers that send work repeatedly. Longer than a turn of their reactor.
const PEER_SPIN_ROUNDS: u32 = 2_000;
/// Longest wait for prewoken work, which mostly comes sooner. The reactor is not polled meanwhile.
const PREWAKE_SPIN_NS: u64 = 100_000;

impl Local {
    /// Steals a process: one that is ready, or else one that was preempted.
    #[cold]
    pub(super) fn steal(&self) -> Option<Slot> {
        if !self.searching.replace(true) {
            self.shared.parking.search();
        }
        if self.search_since_ns.get() == 0 {
            self.search_since_ns.set(self.busy_timer.now_ns());
        }
        self.steal_ready().or_else(|| self.steal_preempted(1))
    }

    /// Adds the time of the search that ends now.
    fn end_search_time(&self) {
        let since_ns = self.search_since_ns.replace(0);
        if since_ns != 0 {
            bump(&self.me.counters.search_ns, self.busy_timer.now_ns().saturating_sub(since_ns));
        }
    }

    fn others(&self) -> impl Iterator<Item = (usize, &SchedulerShared)> {
        let all = self.shared.schedulers.iter().enumerate();
        all.filter(|(id, _)| *id != self.id).map(|(id, other)| (id, &**other))
    }

    /// Takes a preempted process from the scheduler that has the most, unless this one has more. A scheduler that is
    /// never idle does not steal; so the processes that compute without end get about equal shares.
    #[cold]
    pub(super) fn balance_preempted(&self, now_ns: u64) {
        self.balanced_ns.set(now_ns);
        if let Some(slot) = self.steal_preempted(self.me.preempted.len().max(1)) {
            // Ahead of the ones here: the next to be moved is one of those, not this one again.
            self.enqueue(slot, false);
        }
    }

    /// Steals from the scheduler with the most preempted processes, if it has at least `min`. Their polls are long, so a
    /// steal always pays.
    fn steal_preempted(&self, min: usize) -> Option<Slot> {
        let (_, other) = self.others().max_by_key(|(_, other)| other.preempted.len())?;
        if other.preempted.len() < min {
            return None;
        }
        let slot = retry_steal(|| other.preempted.steal())?;
        other.count_stolen(1, 0);
        bump(&self.me.counters.steals, 1);
        Some(slot)
    }

    /// Steals from the LIFO slot of a stuck scheduler, or from the longest queue if that outlasts the steal.
    fn steal_ready(&self) -> Option<Slot> {
        for (_, other) in self.others() {
            if let Some(slot) = other.steal_lifo() {
                other.count_stolen(1, 0);
                bump(&self.me.counters.steals, 1);
                return Some(slot);
            }
        }
        let queued = |other: &SchedulerShared| if other.is_monitored() { 0 } else { other.stealer.len() };
        let (id, other) =
            self.others().max_by_key(|(_, other)| queued(other)).filter(|(_, other)| queued(other) > 0)?;
        let must_stop = || !self.shared.injector.is_empty() || !self.me.pinned.is_empty() || self.shared.is_stopped();
        match self.steal_monitor.observe((id, other), &self.busy_timer, must_stop) {
            StealDecision::Steal => self.steal_from(other),
            StealDecision::Monitor => {
                self.steal_monitor.add(self.id, (id, other), self.busy_timer.now_ns());
                None
            }
            StealDecision::Stop => None,
        }
    }

    fn steal_from(&self, other: &SchedulerShared) -> Option<Slot> {
        let before = self.queue.len();
        let Steal::Success(slot) = other.stealer.steal_batch_and_pop(&self.queue) else { return None };
        let stolen = 1 + (self.queue.len() - before) as u64;
        other.count_stolen(stolen, stolen);
        bump(&self.me.counters.steals, stolen);
        Some(slot)
    }

    /// Waits briefly for work from other schedulers, without stealing. Returns false if none came.
    ///
    /// Work in the queues of other schedulers does not end the wait, because nothing is stolen here. Work from outside,
    /// for example the ticks of a ticker, ends the wait but returns false: it does not predict more.
    pub(super) fn spin_for_peer_work(&self) -> bool {
        let came = (0..PEER_SPIN_ROUNDS).any(|round| {
            std::hint::spin_loop();
            !self.me.pinned.is_empty()
                || (round % 32 == 31 && (!self.shared.injector.is_empty() || self.shared.is_stopped()))
        });
        came && self.shared.injector.is_empty() && !self.me.take_external_wake()
    }

    /// Waits briefly for work that a thread outside has prewoken.
    #[cold]
    pub(super) fn spin_for_prewoken_work(&self) {
        self.me.prewoken.store(false, Ordering::Relaxed);
        let until_ns = self.busy_timer.now_ns() + PREWAKE_SPIN_NS;
        while !self.shared.has_work() && self.me.pinned.is_empty() && self.busy_timer.now_ns() < until_ns {
            (0..32).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Goes to sleep in the reactor. Returns false if work came in the meantime.
    pub(super) fn sleep(&self, cx: &mut TaskContext<'_>) -> bool {
        if self.searching.replace(false) {
            self.shared.parking.end_search();
        }
        self.end_search_time();
        match self.shared.parking.sleep(self.id, || self.shared.has_work() || !self.me.pinned.is_empty()) {
            Sleep::Asleep => {}
            // The enqueuing thread may have seen a search in progress and woken no scheduler: search again.
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
        self.yield_to_reactor(cx);
        self.steal_monitor.wake_soon(cx);
        let counters = &self.me.counters;
        let slept_at_ns = counters.busy_since_ns.load(Ordering::Relaxed);
        self.slept_at_ns.set(slept_at_ns);
        counters.slept_at_ns.store(slept_at_ns, Ordering::Relaxed);
        counters.busy_since_ns.store(0, Ordering::Release);
        bump(&counters.parks, 1);
        true
    }

    /// Clears the asleep mark of this scheduler. Returns true if it was picked while asleep, and so counts as
    /// searching.
    pub(super) fn mark_awake(&self) -> bool {
        let picked = self.asleep.replace(false) && !self.shared.parking.wake_up(self.id);
        if picked {
            self.searching.set(true);
        } else if self.steal_monitor.any() && !self.searching.replace(true) {
            // Any work that the search finds releases the monitored peers.
            self.shared.parking.search();
        }
        picked
    }

    pub(super) fn found_work(&self) {
        self.searching.set(false);
        self.end_search_time();
        self.steal_monitor.release(&self.shared.schedulers);
        if self.shared.parking.end_search() && self.shared.parking.has_sleepers() && self.shared.has_work() {
            self.shared.wake_one();
        }
    }
}
