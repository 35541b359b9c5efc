//! Selects the next process of a scheduler: from its LIFO slot, its queue, the injector, or by stealing.

#![expect(unsafe_code, reason = "reads slots back from the LIFO slot")]

use std::ops::Not;
use std::sync::atomic::Ordering;

use crossbeam_deque::Steal;

use super::{Local, wake};
use crate::cell::{CONFINED, Cell, OWN_WAKERS, WAIT_AGAIN, WAIT_LISTED, WAIT_RECEIVE, WAIT_TURN, bump};
use crate::chance::Chance;
use crate::gate::{Phase, Taken};
use crate::holdings::Holdings;
use crate::mailbox::Letter;
use crate::panics;
use crate::parking::Parking;
use crate::pid::Pid;
use crate::slab::Slot;

/// Number of receivers run in a row from the LIFO slot before the queue gets its turn.
const HOT_STREAK: u32 = 16;
/// Number of polls between two checks for work from other threads, while there is other work.
const LOOK_POLLS: u32 = 8;
/// One check in this number tries the injector first; the others only check the processes pinned here.
const INJECTOR_LOOKS: u32 = 8;
/// Longest time for which preempted processes wait while others are always ready: as long as one of their polls.
const PREEMPTED_WAIT_NS: u64 = 1_000_000;
/// A slice with at most this number of polls had long polls.
const FEW_POLLS: u32 = 8;

impl Local {
    /// Returns the next process to run.
    #[inline]
    pub(super) fn next_slot(&self) -> Option<Slot> {
        if let Some(chance) = &self.chance {
            return self.drawn(chance);
        }
        if self.until_look.get() == 0
            && let Some(slot) = self.look_elsewhere()
        {
            return Some(slot);
        }
        if self.hot_left.get() != 0
            && let Some(slot) = self.take_next()
        {
            self.hot_left.set(self.hot_left.get() - 1);
            return Some(slot);
        }
        self.hot_left.set(HOT_STREAK);
        self.queue
            .pop()
            .or_else(|| self.take_next())
            .or_else(|| self.pinned())
            .or_else(|| self.injected())
            .or_else(|| self.take_preempted())
            .or_else(|| if self.fed.get() { None } else { self.stolen() })
    }

    /// Takes work that other threads gave to this scheduler, or to all schedulers, although the queue has work.
    #[inline(never)]
    fn look_elsewhere(&self) -> Option<Slot> {
        self.until_look.set(LOOK_POLLS);
        if self.preempted_due.get() {
            if let Some(slot) = self.take_preempted() {
                self.until_look.set(0);
                return Some(slot);
            }
            self.preempted_due.set(false);
        }
        let looks = self.looks.get().wrapping_add(1);
        self.looks.set(looks);
        let injected = if looks.is_multiple_of(INJECTOR_LOOKS) { self.injected() } else { None };
        injected.or_else(|| self.pinned())
    }

    /// Runs a process, and then the processes that it put into the LIFO slot, at most `most` in all and only until the
    /// clock is read. Returns the number of processes run, and the time of that read.
    #[inline]
    pub(super) fn run_streak(&self, mut slot: Slot, most: u32) -> (u32, Option<u64>) {
        let most = most.min(self.until_look.get()).min(self.hot_left.get() + 1).max(1);
        let mut left = most;
        let end_ns = loop {
            let end_ns = self.run_slot(slot);
            left -= 1;
            if left == 0 || end_ns.is_some() || self.owed.get() {
                break end_ns;
            }
            match self.take_next() {
                Some(next) => slot = next,
                None => break None,
            }
        };
        let ran = most - left;
        self.until_look.set(self.until_look.get().saturating_sub(ran));
        self.hot_left.set(self.hot_left.get() + 1 - ran);
        (ran, end_ns)
    }

    /// Begins the turn of a process.
    #[inline]
    pub(super) fn begin_run(slot: Slot) -> Taken {
        let cell = slot.cell();
        // SAFETY: this thread took the process out of a run queue and will run it, or was given `RUNNING` with it
        // (`hand`).
        let handed = unsafe { slot.body() }.handed.replace(false);
        // First of all: senders on other cores write to the same cache line, and reading the cell before would fetch it
        // twice.
        let taken = if handed { cell.gate.begin_handed() } else { cell.gate.begin_run() };
        if handed {
            cell.wait.store(cell.wait.load(Ordering::Relaxed) & !WAIT_TURN, Ordering::Relaxed);
        }
        if cell.flags.load(Ordering::Relaxed) & OWN_WAKERS != 0 {
            Self::wake_within(slot, taken);
        }
        taken
    }

    /// Wakes futures inside of the process that wait with wakers of their own, if messages have arrived or the process
    /// had yielded. The process may be polled once more than necessary.
    #[cold]
    fn wake_within(slot: Slot, taken: Taken) {
        if taken.newest() == 0 && slot.cell().wait.load(Ordering::Relaxed) & WAIT_AGAIN == 0 {
            return;
        }
        for waker in Holdings::take_own_wakers(slot, slot.pid()) {
            panics::contain(|| waker.wake());
        }
    }

    /// Records and returns what the process waits for at the end of its turn.
    #[inline]
    pub(super) fn waits(&self, cell: &Cell) -> u8 {
        let wait = self.wait.get();
        if cell.flags.load(Ordering::Relaxed) & OWN_WAKERS != 0 {
            return self.waits_within(cell, wait);
        }
        cell.wait.store(wait, Ordering::Relaxed);
        wait
    }

    /// Like `waits`, for a process in which futures wait with own wakers: they still wait, even if this poll did not
    /// reach them.
    #[cold]
    fn waits_within(&self, cell: &Cell, wait: u8) -> u8 {
        let again = if self.woken.get() { WAIT_AGAIN } else { 0 };
        cell.wait.store(wait | WAIT_RECEIVE | again, Ordering::Relaxed);
        wait | WAIT_RECEIVE
    }

    /// Notes that the running poll is long. The clock is then read soon, so that timers need not wait for a slice of
    /// such polls.
    pub(crate) fn poll_is_long(&self) {
        if let Some(slot) = self.current.get() {
            self.stopwatch.is_long(slot);
            self.preempted.set(Some(slot));
        }
    }

    /// Queues a process that used up its time slice behind all others: a process that was woken waits for one such
    /// slice, and not for those of all processes that compute without end.
    #[cold]
    pub(super) fn enqueue_preempted(&self, slot: Slot) {
        self.preempted.set(None);
        if self.resumed.get() == Some(slot) {
            self.preempted_due.set(false);
            self.resumed_long.set(true);
        }
        self.queue_behind(slot);
    }

    fn queue_behind(&self, slot: Slot) {
        if self.chance.is_some() || slot.cell().home().is_some() {
            return self.enqueue(slot, false);
        }
        self.me.preempted.push(slot);
        if self.may_wake() {
            self.shared.wake_one();
        }
    }

    /// Holds back a guest that the running guest has spawned, until [`start_children`](Self::start_children).
    pub(crate) fn hold_child(&self, slot: Slot) {
        let mut children = self.children.take();
        children.push(slot);
        self.children.set(children);
    }

    /// Queues the guests that the running guest has spawned, at the end of its poll. Where that used up its time slice
    /// they queue behind all others, as it does itself: hundreds of them may each compute without end.
    #[inline]
    pub(crate) fn start_children(&self) {
        let mut children = self.children.take();
        if !children.is_empty() {
            let is_long = self.preempted.get().is_some() && self.preempted.get() == self.current.get();
            for slot in children.drain(..) {
                if is_long { self.queue_behind(slot) } else { self.enqueue(slot, false) }
            }
        }
        self.children.set(children);
    }

    /// Gives preempted processes their share while others are always ready. Called at the start of a slice.
    #[inline]
    pub(super) fn let_preempted_run(&self, now_ns: u64) {
        if self.resumed_long.replace(false) {
            self.resumed_ns.set(now_ns);
        } else if now_ns - self.resumed_ns.get() >= PREEMPTED_WAIT_NS && !self.me.preempted.is_empty() {
            self.preempted_due.set(true);
            self.until_look.set(0);
        }
    }

    fn take_preempted(&self) -> Option<Slot> {
        let slot = insist(|| self.me.preempted.steal())?;
        self.resumed.set(Some(slot));
        Some(slot)
    }

    /// Lets every other slice after long polls begin with work from other threads instead of the queue. The checks are
    /// counted in polls, so work in the injector would otherwise wait for dozens of long polls.
    pub(super) fn slice_ends_after(&self, polls: u32) {
        if polls > FEW_POLLS {
            return;
        }
        let slices = self.long_slices.get().wrapping_add(1);
        self.long_slices.set(slices);
        let (until_look, looks) =
            [(0, INJECTOR_LOOKS - 1), (LOOK_POLLS, 0), (0, 0), (LOOK_POLLS, 0)][slices as usize % 4];
        self.until_look.set(until_look);
        self.looks.set(looks);
    }

    /// Returns a runnable process that the seed selects.
    #[cold]
    fn drawn(&self, chance: &Chance) -> Option<Slot> {
        while let Some(slot) = self.injected().or_else(|| self.queue.pop()).or_else(|| self.pinned()) {
            chance.push(slot);
        }
        // Timers due at this instant fire before the processes woken at the same instant run, or after some of them.
        if chance.flips() {
            self.shared.fire_due();
        }
        chance.draw()
    }

    #[inline]
    fn take_next(&self) -> Option<Slot> {
        // SAFETY: the LIFO slot holds slots of this runtime, which is running.
        unsafe { Slot::from_ptr(self.me.next.take()) }
    }

    /// Takes a process that only this scheduler may run. Takes only one: in the queue, others could be stolen.
    #[inline]
    fn pinned(&self) -> Option<Slot> {
        self.me.pinned.is_empty().not().then(|| insist(|| self.me.pinned.steal())).flatten()
    }

    #[cold]
    fn injected(&self) -> Option<Slot> {
        insist(|| self.shared.injector.steal_batch_and_pop(&self.queue))
    }

    /// Queues a process on this scheduler. A `hot` process runs next.
    #[inline]
    pub(crate) fn enqueue(&self, slot: Slot, hot: bool) {
        let home = slot.cell().home();
        if let Some(home) = home.filter(|home| *home != self.id) {
            return self.shared.send_home(slot, home);
        }
        if self.reacting.get() {
            self.wake_loop();
        }
        if let Some(chance) = &self.chance {
            return chance.push(slot);
        }
        if home.is_some() {
            return self.me.pinned.push(slot);
        }
        let queued = if hot { self.put_next(slot) } else { Some(slot) };
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
    pub(crate) fn hand(&self, to: Pid, letter: Letter) -> Result<(), Letter> {
        let Some(slot) = self.shared.slab.slot(to) else { return Err(letter) };
        let cell = slot.cell();
        let is_meant = || cell.generation.load(Ordering::Acquire) == to.generation();
        let hindrances = cell.hindrances();
        let may_hand = hindrances == 0 || (hindrances == CONFINED && self.is_introduced(to));
        if !may_hand || !is_meant() || letter.heap() != 0 || !cell.has_room() || !cell.gate.hand() {
            return Err(letter);
        }
        // SAFETY: the gate has made this thread the owner, which it stays until the process is queued.
        let body = unsafe { slot.body() };
        // Before the gate was taken, the process may have begun another wait, or the slot may have a new tenant, which
        // is then polled in vain. Check again, now that neither can change.
        let is_as_it_was = is_meant() && cell.hindrances() == hindrances;
        let handed = if is_as_it_was && cell.has_room() && cell.mail_bytes.load(Ordering::Relaxed) == 0 {
            let mut backlog = body.backlog.get();
            backlog.push(letter);
            body.backlog.set(backlog);
            cell.backlog.store(cell.backlog.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            Ok(())
        } else {
            Err(letter)
        };
        body.handed.set(true);
        cell.wait.store(cell.wait.load(Ordering::Relaxed) | WAIT_TURN, Ordering::Relaxed);
        if handed.is_err() || self.reacting.get() || self.chance.is_some() || !self.me.next.put_first(slot.as_ptr()) {
            self.enqueue(slot, true);
        }
        handed
    }

    /// Returns true if another scheduler sleeps and should be woken for work queued here.
    #[inline]
    pub(super) fn may_wake(&self) -> bool {
        self.shared.parking.might_wake() && !self.me.is_guarded()
    }

    /// Wakes another scheduler for the process just queued here, unless this scheduler will run it within microseconds:
    /// it is the only one in the queue, and no poll is running or the running poll is about to end. Waking another
    /// scheduler would double the cost of a spawn or a wake-up.
    fn wake_for_queue(&self) {
        let runs_soon = self.current.get().is_none() || self.brief.get();
        if runs_soon && self.queue.len() == 1 {
            self.owed.set(true);
        } else {
            self.shared.wake_one();
        }
    }

    /// Sends the skipped wake-up after all, if something else runs before the process that it was skipped for.
    #[inline]
    pub(crate) fn pay_wake(&self) {
        if self.owed.get() {
            self.owed.set(false);
            if !self.queue.is_empty() {
                Parking::announce_work();
                self.shared.wake_one();
            }
        }
    }

    /// Lets the running process spawn its next child without waking another scheduler. Its poll must end right after
    /// that, or call `pay_wake` before it continues.
    pub(crate) fn spawns_and_returns(&self) {
        self.pay_wake();
        self.brief.set(true);
    }

    /// Notes that the running process waits with a timeout and has set no timer yet.
    #[inline]
    pub(crate) fn list_waiting(&self, slot: Slot) {
        self.wait.set(self.wait.get() | WAIT_LISTED);
        let mut listed = self.listed.take();
        if listed.last() != Some(&slot) {
            listed.push(slot);
        }
        self.listed.set(listed);
    }

    /// Wakes the listed processes that still wait, so that they set their timers. Returns false if none waits.
    pub(super) fn rouse_listed(&self) -> bool {
        let mut listed = self.listed.take();
        let mut any = false;
        for slot in listed.drain(..) {
            // Read without the gate: a process that has continued in the meantime is polled once too often, which is
            // harmless. Its last wait was recorded on this thread, or the process was listed again on the thread that
            // recorded it.
            let cell = slot.cell();
            if cell.wait.load(Ordering::Relaxed) & WAIT_LISTED != 0 && cell.gate.phase() == Phase::Parked {
                wake(slot);
                any = true;
            }
        }
        self.listed.set(listed);
        any
    }

    #[cold]
    fn wake_loop(&self) {
        self.reacting.set(false);
        self.rise();
        if let Some(waker) = self.loop_waker.take() {
            waker.wake_by_ref();
            self.loop_waker.set(Some(waker));
        }
    }

    /// Puts `slot` into the LIFO slot. Returns the previous process there, which goes to the queue.
    #[inline]
    fn put_next(&self, slot: Slot) -> Option<Slot> {
        // SAFETY: as in `take_next`.
        unsafe { Slot::from_ptr(self.me.next.put(slot.as_ptr())) }
    }
}

/// Repeats a steal until it succeeds or finds the queue empty.
pub(crate) fn insist(mut steal: impl FnMut() -> Steal<Slot>) -> Option<Slot> {
    loop {
        match steal() {
            Steal::Success(slot) => return Some(slot),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
