//! What runs next on a scheduler: its own shortcut and queue, the injector, and what it can steal.

#![expect(unsafe_code, reason = "reads slots back from the place of the next to run")]

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

/// Receivers run in a row from the one-slot shortcut before the queue has its turn.
const HOT_STREAK: u32 = 16;
/// Polls between two looks at what others gave this scheduler to run, while there is other work.
const LOOK_POLLS: u32 = 8;
/// One in so many of them goes to the injector first, the others only to what is pinned here.
const INJECTOR_LOOKS: u32 = 8;
/// A slice of no more was one of long polls.
const FEW_POLLS: u32 = 8;

impl Local {
    /// The next process to run.
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
            .or_else(|| if self.fed.get() { None } else { self.stolen() })
    }

    /// What others gave this scheduler to run, or all of them, while it has work of its own.
    #[inline(never)]
    fn look_elsewhere(&self) -> Option<Slot> {
        self.until_look.set(LOOK_POLLS);
        let looks = self.looks.get().wrapping_add(1);
        self.looks.set(looks);
        let injected = if looks.is_multiple_of(INJECTOR_LOOKS) { self.injected() } else { None };
        injected.or_else(|| self.pinned())
    }

    /// Runs a process, and then those whose turn is next because of it, at most so many in all, until the clock was read;
    /// gives how many ran and the instant.
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
        // SAFETY: whoever took the process out of a run queue will run it, or runs it already: it was handed over.
        let handed = unsafe { slot.body() }.handed.replace(false);
        // First, for senders on other cores write to the same cache line: a look before would fetch it twice.
        let taken = if handed { cell.gate.begin_handed() } else { cell.gate.begin_run() };
        if handed {
            cell.wait.store(cell.wait.load(Ordering::Relaxed) & !WAIT_TURN, Ordering::Relaxed);
        }
        if cell.flags.load(Ordering::Relaxed) & OWN_WAKERS != 0 {
            Self::wake_within(slot, taken);
        }
        taken
    }

    /// Wakes what waits inside of the process by wakers of its own where mail came, or its turn has come again; the process
    /// runs once more for it than it must.
    #[cold]
    fn wake_within(slot: Slot, taken: Taken) {
        if taken.newest() == 0 && slot.cell().wait.load(Ordering::Relaxed) & WAIT_AGAIN == 0 {
            return;
        }
        for waker in Holdings::take_own_wakers(slot, slot.pid()) {
            panics::contain(|| waker.wake());
        }
    }

    /// What the process whose turn ends waits for.
    #[inline]
    pub(super) fn waits(&self, cell: &Cell) -> u8 {
        let wait = self.wait.get();
        if cell.flags.load(Ordering::Relaxed) & OWN_WAKERS != 0 {
            return self.waits_within(cell, wait);
        }
        cell.wait.store(wait, Ordering::Relaxed);
        wait
    }

    /// The same where something waits inside of it by a waker of its own: that waits on, whether this poll came to it or not.
    #[cold]
    fn waits_within(&self, cell: &Cell, wait: u8) -> u8 {
        let again = if self.woken.get() { WAIT_AGAIN } else { 0 };
        cell.wait.store(wait | WAIT_RECEIVE | again, Ordering::Relaxed);
        wait | WAIT_RECEIVE
    }

    /// Whoever runs has taken its time: the clock is read soon, so that timers need not wait for a whole slice of such polls.
    #[cfg(feature = "wasm")]
    pub(crate) fn poll_is_long(&self) {
        if let Some(slot) = self.current.get() {
            self.stopwatch.is_long(slot);
        }
    }

    /// Has every other one of the slices that follow long polls begin elsewhere than at the queue: counted in polls alone,
    /// what lies in the injector would wait for dozens of them.
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

    /// A process that the seed chose among all that could run.
    #[cold]
    fn drawn(&self, chance: &Chance) -> Option<Slot> {
        while let Some(slot) = self.injected().or_else(|| self.queue.pop()).or_else(|| self.pinned()) {
            chance.push(slot);
        }
        // What is due at this instant fires before those whom the same instant woke, or after some of them.
        if chance.flips() {
            self.shared.fire_due();
        }
        chance.draw()
    }

    #[inline]
    fn take_next(&self) -> Option<Slot> {
        // SAFETY: the place holds slots of this runtime, which runs.
        unsafe { Slot::from_ptr(self.me.next.take()) }
    }

    /// A process that only this scheduler may run; in the queue it could be stolen, so it is taken alone.
    #[inline]
    fn pinned(&self) -> Option<Slot> {
        self.me.pinned.is_empty().not().then(|| insist(|| self.me.pinned.steal())).flatten()
    }

    #[cold]
    fn injected(&self) -> Option<Slot> {
        insist(|| self.shared.injector.steal_batch_and_pop(&self.queue))
    }

    /// Queues a process on this scheduler; a `hot` one runs next.
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

    /// Puts a letter straight into the mailbox of a process that waits for nothing but messages, and has it run next; gives
    /// the letter back if there is no such process.
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
        // Before the gate was taken it may have begun to wait in another way, or another one has moved in, which runs for
        // nothing. Now it stays as it is.
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

    /// Whether another scheduler sleeps that should hear of what is queued here.
    #[inline]
    pub(super) fn may_wake(&self) -> bool {
        self.shared.parking.might_wake() && !self.me.is_guarded()
    }

    /// Wakes another scheduler for what was just queued here, unless this one runs it within microseconds: it is the only
    /// process in the queue, and no poll is under way, or one that is about to end. To wake another for it would double what
    /// a spawn or a wake-up costs.
    fn wake_for_queue(&self) {
        let runs_soon = self.current.get().is_none() || self.brief.get();
        if runs_soon && self.queue.len() == 1 {
            self.owed.set(true);
        } else {
            self.shared.wake_one();
        }
    }

    /// Wakes another scheduler after all if something else is to run before the process that nobody was woken for.
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

    /// Has the running process spawn its next one without waking another scheduler: its poll ends right after that, or
    /// it pays the wake before it goes on.
    pub(crate) fn spawns_and_returns(&self) {
        self.pay_wake();
        self.brief.set(true);
    }

    /// Notes that the running process waits with a timeout and has set no timer.
    #[inline]
    pub(crate) fn list_waiting(&self, slot: Slot) {
        self.wait.set(self.wait.get() | WAIT_LISTED);
        let mut listed = self.listed.take();
        if listed.last() != Some(&slot) {
            listed.push(slot);
        }
        self.listed.set(listed);
    }

    /// Wakes the processes that still wait as they were listed, so that they set their timers; false if there are none.
    pub(super) fn rouse_listed(&self) -> bool {
        let mut listed = self.listed.take();
        let mut any = false;
        for slot in listed.drain(..) {
            // Read without the gate: one that has moved on meanwhile is polled once too often, which is harmless. Its last
            // wait was noted on this thread, or it was listed again where it was noted.
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

    /// Makes `slot` the next to run; whoever was that goes to the queue.
    #[inline]
    fn put_next(&self, slot: Slot) -> Option<Slot> {
        // SAFETY: as in `take_next`.
        unsafe { Slot::from_ptr(self.me.next.put(slot.as_ptr())) }
    }
}

/// Tries until it is known whether there is something.
pub(crate) fn insist(mut steal: impl FnMut() -> Steal<Slot>) -> Option<Slot> {
    loop {
        match steal() {
            Steal::Success(slot) => return Some(slot),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
