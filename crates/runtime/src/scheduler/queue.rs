//! Selects the next process of a scheduler: from its LIFO slot, its queue, the injector, or by stealing.

#![expect(unsafe_code, reason = "reads slots back from the LIFO slot")]

pub(super) mod age;
pub(super) mod children;

use std::ops::Not;
use std::ptr;
use std::sync::atomic::Ordering;

use crossbeam_deque::Steal;

use super::{Local, local};
use crate::links::registry::SideTables;
use crate::mailbox::gate::{Arrivals, Phase};
use crate::mailbox::queue::Envelope;
use crate::process::header::{
    CONFINED, HAS_INNER_WAKERS, ProcessHeader, WAIT_AGAIN, WAIT_HANDOFF, WAIT_RECEIVE, WAIT_TIMER_DEFERRED, WATCHED,
    bump,
};
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::runtime::panics;
use crate::scheduler::fuzzer::ScheduleFuzzer;
use crate::scheduler::parking::Parking;

/// Number of receivers run in a row from the LIFO slot before the queue gets its turn.
const LIFO_STREAK_MAX: u32 = 16;
/// Number of polls between two checks for work from other threads, while there is other work.
const CHECK_INTERVAL_POLLS: u32 = 8;
/// One check in this number tries the injector first; the others only check the processes pinned here.
const INJECTOR_CHECK_INTERVAL: u32 = 8;
/// Longest time for which preempted processes wait while others are always ready: as long as one of their polls.
const PREEMPTED_WAIT_NS: u64 = 1_000_000;
/// Number of preempted processes that then run, unless one of them uses up its time slice again.
const RESUMED_MAX: u8 = 8;
/// Time between two comparisons with the preempted processes of other schedulers. A move costs some cache misses.
const BALANCE_INTERVAL_NS: u64 = 20_000_000;
/// A slice with at most this number of polls had long polls.
const FEW_POLLS: u32 = 8;

/// Wakes the process in `slot`, from any thread.
#[inline]
pub(crate) fn wake(slot: Slot) {
    if slot.header().gate.wake() {
        enqueue(slot, false);
    }
}

/// Puts a process into a run queue. The caller has just set its gate to scheduled.
#[inline]
pub(crate) fn enqueue(slot: Slot, lifo: bool) {
    match local() {
        Some(local) if ptr::eq(&raw const *local.shared, slot.shared()) => local.enqueue(slot, lifo),
        _ => slot.shared().inject(slot),
    }
}

impl Local {
    /// Returns the next process to run.
    #[inline]
    pub(super) fn next_slot(&self) -> Option<Slot> {
        if let Some(fuzzer) = &self.fuzzer {
            self.deliver_dropped_replies();
            return self.pick_fuzzed(fuzzer);
        }
        if self.polls_until_check.get() == 0
            && let Some(slot) = self.check_other_queues()
        {
            return Some(slot);
        }
        if self.lifo_left.get() != 0
            && let Some(slot) = self.pop_lifo()
        {
            self.lifo_left.set(self.lifo_left.get() - 1);
            return Some(slot);
        }
        self.lifo_left.set(LIFO_STREAK_MAX);
        self.pop_queue()
            .or_else(|| self.pop_lifo())
            .or_else(|| self.pinned())
            .or_else(|| self.injected())
            .or_else(|| self.take_preempted())
            .or_else(|| if self.expects_peer_work.get() { None } else { self.steal() })
    }

    /// Takes work that other threads gave to this scheduler, or to all schedulers, although the queue has work.
    #[inline(never)]
    fn check_other_queues(&self) -> Option<Slot> {
        self.polls_until_check.set(CHECK_INTERVAL_POLLS);
        self.deliver_dropped_replies();
        if self.preempted_due.get() > 0
            && let Some(slot) = self.due_preempted()
        {
            return Some(slot);
        }
        let checks = self.checks.get().wrapping_add(1);
        self.checks.set(checks);
        let injected = if checks.is_multiple_of(INJECTOR_CHECK_INTERVAL) { self.injected() } else { None };
        injected.or_else(|| self.pinned())
    }

    /// Runs a process, and then the processes that it put into the LIFO slot, at most `most` in all and only until the
    /// clock is read. Returns the number of processes run, and the time of that read.
    #[inline]
    pub(super) fn run_streak(&self, mut slot: Slot, most: u32) -> (u32, Option<u64>) {
        let most = most.min(self.polls_until_check.get()).min(self.lifo_left.get() + 1).max(1);
        let mut left = most;
        let end_ns = loop {
            let end_ns = self.run_slot(slot);
            left -= 1;
            if left == 0 || end_ns.is_some() || self.wake_deferred.get() {
                break end_ns;
            }
            match self.pop_lifo() {
                Some(next) => slot = next,
                None => break None,
            }
        };
        let ran = most - left;
        self.polls_until_check.set(self.polls_until_check.get().saturating_sub(ran));
        self.lifo_left.set(self.lifo_left.get() + 1 - ran);
        (ran, end_ns)
    }

    /// Begins the turn of a process.
    #[inline]
    pub(super) fn begin_run(slot: Slot) -> Arrivals {
        let header = slot.header();
        // SAFETY: this thread took the process out of a run queue and will run it, or was given `RUNNING` with it
        // (`begin_handoff`).
        let handed_off = unsafe { slot.body() }.handed_off.replace(false);
        // First of all: senders on other cores write to the same cache line, and reading the header before would fetch
        // it twice.
        let taken = if handed_off { header.gate.begin_after_handoff() } else { header.gate.begin_run() };
        if handed_off {
            header.wait.store(header.wait.load(Ordering::Relaxed) & !WAIT_HANDOFF, Ordering::Relaxed);
        }
        let flags = header.flags.load(Ordering::Relaxed) & (HAS_INNER_WAKERS | WATCHED);
        if flags != 0 {
            Self::begin_flagged(slot, taken, flags);
        }
        taken
    }

    /// Begins the turn of a process with flags: samples it, and wakes its inner futures.
    #[cold]
    fn begin_flagged(slot: Slot, taken: Arrivals, flags: u16) {
        if flags & WATCHED != 0
            && let Some(local) = local()
        {
            local.shared.watches.begins(slot.pid(), local.id);
            // The end of this poll is part of the sample, so time it.
            let exact_polls_left = &slot.header().exact_polls_left;
            exact_polls_left.store(exact_polls_left.load(Ordering::Relaxed).max(1), Ordering::Relaxed);
        }
        if flags & HAS_INNER_WAKERS != 0 {
            Self::wake_inner_futures(slot, taken);
        }
    }

    /// Wakes futures inside of the process that wait with wakers of their own, if messages have arrived or the process
    /// had yielded. The process may be polled once more than necessary.
    #[cold]
    fn wake_inner_futures(slot: Slot, taken: Arrivals) {
        if taken.newest() == 0 && slot.header().wait.load(Ordering::Relaxed) & WAIT_AGAIN == 0 {
            return;
        }
        for waker in SideTables::take_inner_wakers(slot, slot.pid()) {
            panics::contain(|| waker.wake());
        }
    }

    /// Records and returns what the process waits for at the end of its turn.
    #[inline]
    pub(super) fn waits(&self, header: &ProcessHeader) -> u8 {
        let wait = self.wait.get();
        if header.flags.load(Ordering::Relaxed) & HAS_INNER_WAKERS != 0 {
            return self.waits_of_inner_futures(header, wait);
        }
        header.wait.store(wait, Ordering::Relaxed);
        wait
    }

    /// Like `waits`, for a process in which futures wait with own wakers: they still wait, even if this poll did not
    /// reach them.
    #[cold]
    fn waits_of_inner_futures(&self, header: &ProcessHeader, wait: u8) -> u8 {
        let again = if self.woken.get() { WAIT_AGAIN } else { 0 };
        header.wait.store(wait | WAIT_RECEIVE | again, Ordering::Relaxed);
        wait | WAIT_RECEIVE
    }

    /// Notes that the running poll is long. The clock is then read soon, so that timers need not wait for a slice of
    /// such polls.
    pub(crate) fn poll_is_long(&self) {
        if let Some(slot) = self.current.get() {
            self.busy_timer.mark_long(slot);
            self.preempted.set(Some(slot));
        }
    }

    /// Queues a process that used up its time slice behind all others: a process that was woken waits for one such
    /// slice, and not for those of all processes that compute without end.
    #[cold]
    pub(super) fn enqueue_preempted(&self, slot: Slot) {
        self.preempted.set(None);
        bump(&self.me.counters.preemptions, 1);
        if self.resumed.get() == Some(slot) {
            self.preempted_due.set(0);
            self.resumed_long.set(true);
        }
        self.queue_behind(slot);
    }

    fn queue_behind(&self, slot: Slot) {
        if self.fuzzer.is_some() || slot.header().queue_flags().is_some() {
            return self.enqueue(slot, false);
        }
        self.me.preempted.push(slot);
        if self.may_wake() {
            self.shared.wake_one();
        }
    }

    /// Gives preempted processes their share while others are always ready, here and on other schedulers. Called at the
    /// start of a slice.
    #[inline]
    pub(super) fn schedule_preempted(&self, now_ns: u64) {
        if self.resumed_long.replace(false) {
            self.resumed_ns.set(now_ns);
        } else if now_ns - self.resumed_ns.get() >= PREEMPTED_WAIT_NS && !self.me.preempted.is_empty() {
            self.preempted_due.set(RESUMED_MAX);
            self.polls_until_check.set(0);
        }
        if now_ns - self.balanced_ns.get() >= BALANCE_INTERVAL_NS {
            self.balance_preempted(now_ns);
        }
    }

    /// Takes a preempted process while they have their share: one long poll, or a few short ones.
    #[cold]
    fn due_preempted(&self) -> Option<Slot> {
        let left = self.preempted_due.get() - 1;
        self.preempted_due.set(left);
        if left == 0 {
            self.resumed_long.set(true);
        }
        let slot = self.take_preempted();
        match slot {
            Some(_) => self.polls_until_check.set(0),
            None => self.preempted_due.set(0),
        }
        slot
    }

    fn take_preempted(&self) -> Option<Slot> {
        let slot = retry_steal(|| self.me.preempted.steal())?;
        self.resumed.set(Some(slot));
        Some(slot)
    }

    /// Lets every other slice after long polls begin with work from other threads instead of the queue. The checks are
    /// counted in polls, so work in the injector would otherwise wait for dozens of long polls.
    pub(super) fn on_slice_end(&self, polls: u32) {
        if polls > FEW_POLLS {
            return;
        }
        // Below, the check that tells the callers of dropped replies may be put off.
        self.deliver_dropped_replies();
        let slices = self.long_slices.get().wrapping_add(1);
        self.long_slices.set(slices);
        let (polls_until_check, checks) =
            [(0, INJECTOR_CHECK_INTERVAL - 1), (CHECK_INTERVAL_POLLS, 0), (0, 0), (CHECK_INTERVAL_POLLS, 0)]
                [slices as usize % 4];
        self.polls_until_check.set(polls_until_check);
        self.checks.set(checks);
    }

    /// Returns a runnable process that the seed selects.
    #[cold]
    fn pick_fuzzed(&self, fuzzer: &ScheduleFuzzer) -> Option<Slot> {
        while let Some(slot) = self.injected().or_else(|| self.queue.pop()).or_else(|| self.pinned()) {
            fuzzer.push(slot);
        }
        // Timers due at this instant fire before the processes woken at the same instant run, or after some of them.
        if fuzzer.coin_flip() {
            self.shared.fire_due();
        }
        fuzzer.pick()
    }

    /// Takes the process that waits longest in the queue.
    #[inline]
    fn pop_queue(&self) -> Option<Slot> {
        let slot = self.queue.pop()?;
        self.queue_age.count_pop();
        Some(slot)
    }

    #[inline]
    fn pop_lifo(&self) -> Option<Slot> {
        // SAFETY: the LIFO slot holds slots of this runtime, which is running.
        unsafe { Slot::from_ptr(self.me.lifo_slot.take()) }
    }

    /// Takes a process that only this scheduler may run. Takes only one: in the queue, others could be stolen.
    #[inline]
    fn pinned(&self) -> Option<Slot> {
        self.me.pinned.is_empty().not().then(|| retry_steal(|| self.me.pinned.steal())).flatten()
    }

    #[cold]
    fn injected(&self) -> Option<Slot> {
        retry_steal(|| self.shared.injector.steal_batch_and_pop(&self.queue))
    }

    /// Queues a process on this scheduler. A `lifo` process runs next.
    #[inline]
    pub(crate) fn enqueue(&self, slot: Slot, lifo: bool) {
        let affinity = slot.header().queue_flags().and_then(|_| self.shared.note_ready(slot));
        if let Some(affinity) = affinity.filter(|affinity| *affinity != self.id) {
            return self.shared.push_pinned(slot, affinity);
        }
        if self.in_reactor.get() {
            self.wake_loop();
        }
        if let Some(fuzzer) = &self.fuzzer {
            return fuzzer.push(slot);
        }
        if affinity.is_some() {
            return self.me.pinned.push(slot);
        }
        let queued = if lifo { self.push_lifo(slot) } else { Some(slot) };
        if let Some(slot) = queued {
            if self.queue.is_empty() {
                bump(&self.me.counters.refills, 1);
            }
            self.queue.push(slot);
            if self.may_wake() {
                self.wake_for_queue();
            }
        }
    }

    /// Puts an envelope directly into the mailbox of a process that waits only for messages, and lets that process run
    /// next. Returns the envelope if this is not possible.
    #[inline]
    pub(crate) fn hand_off(&self, to: Pid, envelope: Envelope) -> Result<(), Envelope> {
        let Some(slot) = self.shared.table.slot(to) else { return Err(envelope) };
        let header = slot.header();
        let is_addressee = || header.generation.load(Ordering::Acquire) == to.generation();
        let handoff_blockers = header.handoff_blockers();
        let may_hand_off = handoff_blockers == 0 || (handoff_blockers == CONFINED && self.is_introduced(to));
        if !may_hand_off
            || !is_addressee()
            || envelope.heap() != 0
            || !header.has_room()
            || !header.gate.begin_handoff()
        {
            return Err(envelope);
        }
        // SAFETY: the gate has made this thread the owner, which it stays until the process is queued.
        let body = unsafe { slot.body() };
        // Before the gate was taken, the process may have begun another wait, or the slot may have a new tenant, which
        // is then polled in vain. Check again, now that neither can change.
        let is_unchanged = is_addressee() && header.handoff_blockers() == handoff_blockers;
        let handed_off = if is_unchanged && header.has_room() && header.mail_bytes.load(Ordering::Relaxed) == 0 {
            let mut backlog = body.backlog.get();
            backlog.push(envelope);
            body.backlog.set(backlog);
            header.backlog.store(header.backlog.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            Ok(())
        } else {
            Err(envelope)
        };
        body.handed_off.set(true);
        header.wait.store(header.wait.load(Ordering::Relaxed) | WAIT_HANDOFF, Ordering::Relaxed);
        if handed_off.is_err()
            || self.in_reactor.get()
            || self.fuzzer.is_some()
            || !self.me.lifo_slot.put_first(slot.as_ptr())
        {
            self.enqueue(slot, true);
        }
        handed_off
    }

    /// Returns true if this scheduler has cached an introduction of the running process to `to`.
    #[cold]
    fn is_introduced(&self, to: Pid) -> bool {
        self.current.get().is_some_and(|from| self.introduction_cache.contains(from.pid(), to))
    }

    /// Introduces the running process to `to`, which may then send to it.
    #[cold]
    pub(crate) fn introduce(&self, to: Pid) {
        let (Some(from), Some(slot)) = (self.current.get().map(Slot::pid), self.shared.table.slot(to)) else {
            return;
        };
        if self.introduction_cache.insert(from, to) {
            SideTables::introduce(slot, to, from, |pid| self.shared.is_alive(pid));
        }
    }

    /// Returns true if another scheduler sleeps and should be woken for work queued here.
    #[inline]
    pub(super) fn may_wake(&self) -> bool {
        self.shared.parking.has_sleepers() && !self.me.is_monitored()
    }

    /// Wakes another scheduler for the process just queued here, unless this scheduler will run it within microseconds:
    /// it is the only one in the queue, and no poll is running or the running poll is about to end. Waking another
    /// scheduler would double the cost of a spawn or a wake-up.
    fn wake_for_queue(&self) {
        let runs_soon = self.current.get().is_none() || self.ends_after_enqueue.get();
        if runs_soon && self.queue.len() == 1 {
            self.wake_deferred.set(true);
        } else {
            self.shared.wake_one();
        }
    }

    /// Sends the skipped wake-up after all, if something else runs before the process that it was skipped for.
    #[inline]
    pub(crate) fn send_deferred_wake(&self) {
        if self.wake_deferred.get() {
            self.wake_deferred.set(false);
            if !self.queue.is_empty() {
                Parking::announce_work();
                self.shared.wake_one();
            }
        }
    }

    /// Lets the running process spawn its next child without waking another scheduler. Its poll must end right after
    /// that, or call `send_deferred_wake` before it continues.
    pub(crate) fn defer_wake_for_spawn(&self) {
        self.send_deferred_wake();
        self.ends_after_enqueue.set(true);
    }

    /// Notes that the running process waits with a timeout and has set no timer yet.
    #[inline]
    pub(crate) fn defer_timeout(&self, slot: Slot) {
        self.wait.set(self.wait.get() | WAIT_TIMER_DEFERRED);
        let mut deferred_timeouts = self.deferred_timeouts.take();
        if deferred_timeouts.last() != Some(&slot) {
            deferred_timeouts.push(slot);
        }
        self.deferred_timeouts.set(deferred_timeouts);
    }

    /// Wakes the processes with a deferred timeout that still wait, so that they set their timers. Returns false if
    /// none waits.
    pub(super) fn wake_deferred_timeouts(&self) -> bool {
        let mut deferred_timeouts = self.deferred_timeouts.take();
        let mut any = false;
        for slot in deferred_timeouts.drain(..) {
            // Read without the gate: a process that has continued in the meantime is polled once too often, which is
            // harmless. Its last wait was recorded on this thread, or the process was listed again on the thread that
            // recorded it.
            let header = slot.header();
            if header.wait.load(Ordering::Relaxed) & WAIT_TIMER_DEFERRED != 0 && header.gate.phase() == Phase::Parked {
                wake(slot);
                any = true;
            }
        }
        self.deferred_timeouts.set(deferred_timeouts);
        any
    }

    #[cold]
    fn wake_loop(&self) {
        self.in_reactor.set(false);
        self.fed_by_reactor.set(true);
        self.mark_awake();
        if let Some(waker) = self.loop_waker.take() {
            waker.wake_by_ref();
            self.loop_waker.set(Some(waker));
        }
    }

    /// Puts `slot` into the LIFO slot. Returns the previous process there, which goes to the queue.
    #[inline]
    fn push_lifo(&self, slot: Slot) -> Option<Slot> {
        // SAFETY: as in `pop_lifo`.
        unsafe { Slot::from_ptr(self.me.lifo_slot.put(slot.as_ptr())) }
    }
}

/// Repeats a steal until it succeeds or finds the queue empty.
pub(crate) fn retry_steal(mut steal: impl FnMut() -> Steal<Slot>) -> Option<Slot> {
    loop {
        match steal() {
            Steal::Success(slot) => return Some(slot),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
