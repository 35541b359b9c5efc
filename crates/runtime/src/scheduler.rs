//! A scheduler: one thread that runs processes from its queue, steals when it has none, and drives its own reactor.
//!
//! ```text
//!              spawn, requeue ──▶ queue ──▶ run        (others steal from the far end)
//!   message wakes a receiver ──▶ next ───▶ run next    (at most HOT_STREAK in a row)
//!      other threads ──▶ injector ──┘
//!      nothing? steal what lasts ─▶ spin a little ─▶ sleep in the reactor until I/O, a timer or another scheduler wakes it
//! ```
//!
//! A process that is pinned to a scheduler waits in a queue of its own there, which nobody steals from.
//!
//! The loop is one task of a tokio current-thread runtime, which polls sockets and timers between slices. A process that
//! they wake is queued on this thread; the loop's own task must then be woken too, or it would sleep over its queue.

#![expect(unsafe_code, reason = "owns the slots that it runs; each block says how it came to own them")]

mod guard;
mod idle;
mod introductions;
mod pause;
mod queue;
mod reap;
mod shared;
mod start;

use std::cell::Cell as Plain;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, Waker};

use crossbeam_deque::Worker;

use crate::cell::{WAIT_RECEIVE, bump};
use crate::chance::Chance;
use crate::events::EVENTS_PER_SLICE;
use crate::exit::ExitReason;
use crate::gate::Taken;
use crate::holdings::{Held, Holdings};
use crate::mailbox::NodePool;
use crate::panics;
use crate::parking::Parking;
use crate::ring::turn::Turn;
use crate::running::Running;
use crate::runtime::Shared;
use crate::slab::Slot;
use crate::stock::Stock;
use crate::stopwatch::Stopwatch;
use crate::task::Polled;
use crate::waker;

use guard::Wards;
use introductions::Introductions;

pub(crate) use pause::Pause;
pub(crate) use queue::insist;
pub(crate) use shared::{Counters, SchedulerShared};

/// Processes run between two looks at the clock.
const SLICE_POLLS: u32 = 64;
/// Time between two turns of the reactor while there is work: a bound on the latency of I/O under load.
const SLICE_NS: u64 = 250_000;
/// Rounds of looking for work before a scheduler sleeps; waking it would cost its friends more.
const SPIN_ROUNDS: u32 = 100;
/// Polls in one stretch that promise more of the kind soon.
const WORTH_A_SPIN: u32 = 16;
/// A scheduler that another woke after less than this would have done better not to sleep.
const SHORT_SLEEP_NS: u64 = 100_000;
/// Messages that a process may receive before it lets others run.
pub(crate) const RECEIVE_BUDGET: u32 = 256;

/// A scheduler thread's own part.
pub(crate) struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: usize,
    pub(crate) me: Arc<SchedulerShared>,
    queue: Worker<Slot>,
    /// Decides what runs next, instead of the queue, where schedules follow a seed.
    pub(crate) chance: Option<Chance>,
    slots: Stock<Slot>,
    pub(crate) nodes: NodePool,
    /// Empty ones, for processes that will hold something from their first instant.
    #[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
    held: Plain<Vec<Box<Held>>>,
    stopwatch: Stopwatch,
    current: Plain<Option<Slot>>,
    /// What the running poll waits for, in the flags of [`Cell::wait`](crate::cell::Cell::wait).
    pub(crate) wait: Plain<u8>,
    /// The running process must be queued again.
    pub(crate) woken: Plain<bool>,
    /// The running process has signals to look at.
    pub(crate) signalled: Plain<bool>,
    pub(crate) budget: Plain<u32>,
    /// What the running process owes to rings.
    pub(crate) turn: Turn,
    /// Processes that may still run next before the queue has its turn.
    hot_left: Plain<u32>,
    /// The loop's task, while the reactor has its turn.
    reacting: Plain<bool>,
    loop_waker: Plain<Option<Waker>>,
    /// See [`References`](crate::signal::References).
    pub(crate) last_reference: Plain<u64>,
    /// Processes that began a wait which is to end after a time; see `timeout.rs`.
    listed: Plain<Vec<Slot>>,
    /// Nobody was woken for the process in the queue, because this scheduler will run it next.
    owed: Plain<bool>,
    /// The poll that runs ends as soon as one process was queued.
    pub(crate) brief: Plain<bool>,
    first: Plain<bool>,
    events_left: Plain<u32>,
    now_ms: Plain<u32>,
    /// Polls until the next look at what others gave it to run.
    until_look: Plain<u32>,
    /// Heap bytes that entered mailboxes less those that left, not yet added to the sum of the runtime.
    pub(crate) unsettled_mail: Plain<i64>,
    introduced: Introductions,
    looks: Plain<u32>,
    /// Slices that ended after few polls, each of them long.
    long_slices: Plain<u32>,
    spins: Plain<u32>,
    /// Work came from other schedulers lately, soon after there was none.
    fed: Plain<bool>,
    slept_at_ns: Plain<u64>,
    searching: Plain<bool>,
    asleep: Plain<bool>,
    wards: Wards,
}

thread_local! {
    static LOCAL: Plain<*const Local> = const { Plain::new(ptr::null()) };
}

/// The scheduler that this thread is, if it is one.
#[inline]
pub(crate) fn local<'a>() -> Option<&'a Local> {
    // SAFETY: the pointer is set for as long as the scheduler's thread runs its loop, and only this thread reads it. No
    // caller keeps the reference beyond a poll.
    unsafe { LOCAL.with(Plain::get).as_ref() }
}

/// Wakes the process in `slot` from wherever this thread is.
#[inline]
pub(crate) fn wake(slot: Slot) {
    if slot.cell().gate.wake() {
        enqueue(slot, false);
    }
}

/// Puts a process whose gate was just turned to scheduled into a run queue.
#[inline]
pub(crate) fn enqueue(slot: Slot, hot: bool) {
    match local() {
        Some(local) if ptr::eq(&raw const *local.shared, slot.shared()) => local.enqueue(slot, hot),
        _ => slot.shared().inject(slot),
    }
}

impl Local {
    /// Runs processes until it is the reactor's turn or there are none.
    fn slice(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let now_ns = self.stopwatch.now_ns();
        let counters = &self.me.counters;
        self.me.unpark.get_or_init(|| cx.waker().clone());
        self.reacting.set(false);
        if counters.busy_since_ns.load(Ordering::Relaxed) == 0 {
            counters.busy_since_ns.store(now_ns.max(1), Ordering::Relaxed);
            bump(&counters.wakes, 1);
            self.first.set(true);
        }
        // With wards a rise is a search, so it comes before those of them are let go who need somebody.
        if self.rise() && !self.me.was_served_from_outside() && now_ns - self.slept_at_ns.get() < SHORT_SLEEP_NS {
            self.fed.set(true);
        }
        #[cfg(feature = "store")]
        if self.me.promised.load(Ordering::Relaxed) {
            self.await_promised();
        }
        self.look_after_wards(now_ns);
        if self.shared.pause.is_asked() {
            self.shared.pause.wait();
        }
        if self.shared.is_stopped() {
            self.rest(cx);
            return Poll::Ready(());
        }
        self.now_ms.set((now_ns / 1_000_000) as u32);
        self.stopwatch.resume(now_ns);
        self.events_left.set(EVENTS_PER_SLICE);
        // A seeded schedule must not depend on the clock: each of its slices ends with the polls.
        let seeded = self.chance.is_some();
        let slice_end_ns = if seeded { 0 } else { now_ns + SLICE_NS };
        let mut until_clock = SLICE_POLLS;
        let mut ran = 0_u32;
        loop {
            let Some(slot) = self.next_slot() else {
                // The stop counts as work, so that nobody sleeps over it; it must not be waited for as work is.
                if self.shared.is_stopped() {
                    self.rest(cx);
                    return Poll::Ready(());
                }
                if self.fed.get() {
                    self.fed.set(self.await_feed());
                    continue;
                }
                // After a short stretch the next work most likely comes from the reactor, which spinning would delay.
                if ran >= WORTH_A_SPIN && self.spins.replace(self.spins.get() + 1) < SPIN_ROUNDS {
                    std::hint::spin_loop();
                    continue;
                }
                self.spins.set(0);
                if self.rouse_listed() {
                    continue;
                }
                if self.sleep(cx) {
                    return Poll::Pending;
                }
                continue;
            };
            self.spins.set(0);
            if self.searching.get() {
                self.found_work();
            }
            self.pay_wake();
            let (polls, end_ns) = self.run_streak(slot, until_clock);
            let before = ran;
            ran = ran.wrapping_add(polls);
            if ran / SLICE_POLLS != before / SLICE_POLLS {
                self.housekeep();
            }
            until_clock -= polls;
            let end_ns = match end_ns.filter(|_| !seeded) {
                None if until_clock != 0 => continue,
                None => self.stopwatch.now_ns(),
                Some(end_ns) => end_ns,
            };
            until_clock = SLICE_POLLS;
            if end_ns >= slice_end_ns {
                self.slice_ends_after(ran);
                self.rest(cx);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    fn housekeep(&self) {
        self.nodes.balance(&self.shared.nodes);
        Parking::announce_work();
        if self.may_wake() && !self.queue.is_empty() {
            self.shared.wake_one();
        }
    }

    /// Publishes busy time and lets the reactor have its turn.
    fn rest(&self, cx: &mut TaskContext<'_>) {
        self.rouse_listed();
        self.nodes.balance(&self.shared.nodes);
        let now_ns = self.stopwatch.pause();
        let counters = &self.me.counters;
        bump(&counters.busy_ns, now_ns - counters.busy_since_ns.load(Ordering::Relaxed).min(now_ns));
        counters.busy_since_ns.store(now_ns, Ordering::Relaxed);
        self.react(cx);
        // After the loop can be woken: senders that go on are queued here.
        self.shared.settle_mail(self);
    }

    fn react(&self, cx: &mut TaskContext<'_>) {
        let waker = self.loop_waker.take().filter(|waker| waker.will_wake(cx.waker()));
        self.loop_waker.set(Some(waker.unwrap_or_else(|| cx.waker().clone())));
        self.reacting.set(true);
    }

    /// Runs one process until it waits, yields or ends; the end's instant, if it was timed.
    fn run_slot(&self, slot: Slot) -> Option<u64> {
        let cell = slot.cell();
        let taken = Self::begin_run(slot);
        self.current.set(Some(slot));
        // Released: whoever sees it sees that this one was taken from the place of the next.
        self.me.counters.current.store(slot.as_ptr(), Ordering::Release);
        self.wait.set(0);
        self.woken.set(false);
        self.signalled.set(false);
        self.brief.set(false);
        self.budget.set(RECEIVE_BUDGET);
        if !taken.is_empty() {
            self.take_in(slot, taken);
        }
        bump(&cell.polls, 1);
        bump(&self.me.counters.polls, 1);
        let timing = self.stopwatch.before(slot, self.first.replace(false));
        let polled = self.poll(slot);
        self.turn.end();
        let end_ns = self.stopwatch.after(slot, timing);
        match polled {
            Polled::Pending => match self.exit_signal(slot) {
                None => self.park(slot),
                Some(reason) => self.end_early(slot, &Some(Box::new(reason))),
            },
            Polled::Finished(exit) => self.end(slot, &exit),
            Polled::Panicked(payload) => self.end(slot, &Some(Box::new(panics::reason(payload)))),
        }
        self.current.set(None);
        self.me.counters.current.store(ptr::null_mut(), Ordering::Relaxed);
        end_ns
    }

    #[inline]
    fn poll(&self, slot: Slot) -> Polled {
        if self.signalled.get()
            && let Some(reason) = self.exit_signal(slot)
        {
            // SAFETY: this thread runs the process, whose future has neither finished nor been dropped.
            let dropped = unsafe { slot.body().drop_future() };
            return match dropped {
                Ok(()) => Polled::Finished(Some(Box::new(reason))),
                Err(payload) => Polled::Panicked(payload),
            };
        }
        let waker = waker::lent(slot);
        let mut cx = TaskContext::from_waker(&waker);
        // SAFETY: as above.
        let polled = unsafe { slot.body().poll(&mut cx) };
        match polled {
            Polled::Pending => Polled::Pending,
            // SAFETY: the future is done or broken, and dropped once, here.
            over => match unsafe { slot.body().drop_future() } {
                Ok(()) => over,
                Err(payload) => Polled::Panicked(payload),
            },
        }
    }

    /// The exit signal that the process must obey, if one came.
    #[inline]
    fn exit_signal(&self, slot: Slot) -> Option<ExitReason> {
        if !self.signalled.get() {
            return None;
        }
        self.signalled.set(false);
        Holdings::take_exit_signal(slot, slot.pid())
    }

    #[inline]
    fn park(&self, slot: Slot) {
        let cell = slot.cell();
        let wait = self.waits(cell);
        if cell.gate.end_run(wait & WAIT_RECEIVE == 0, self.woken.get()) {
            self.brief.set(true);
            self.enqueue(slot, false);
        }
    }

    /// Moves what the gate gave to where the process finds it.
    pub(crate) fn take_in(&self, slot: Slot, taken: Taken) {
        let mut is_relieved = false;
        if taken.newest() != 0 {
            let cell = slot.cell();
            // SAFETY: this thread runs the process, and the chain comes from its gate.
            unsafe {
                let body = slot.body();
                let mut backlog = body.backlog.get();
                let (count, dropped) = backlog.append(taken.newest(), cell.generation.load(Ordering::Relaxed));
                body.backlog.set(backlog);
                cell.backlog.store(cell.backlog.load(Ordering::Relaxed) + count, Ordering::Relaxed);
                if dropped != 0 {
                    cell.mail_bytes.fetch_sub(dropped, Ordering::Relaxed);
                    self.shared.release_mail(Some(self), dropped);
                    is_relieved = body.crowded.get();
                }
            }
        }
        if taken.crowded() || is_relieved {
            // SAFETY: this thread runs the process.
            unsafe { slot.body() }.crowded.set(true);
            Running { slot, local: self }.room();
        }
        if taken.signal() {
            self.signalled.set(true);
        }
        if taken.woken() {
            self.woken.set(true);
        }
    }

    /// The process that runs on this thread, for what it may do to itself.
    #[inline]
    pub(crate) fn running(&self) -> Option<Running<'_>> {
        self.current.get().map(|slot| Running { slot, local: self })
    }

    /// Whether the tenant `generation` of a slot runs on this thread.
    #[inline]
    pub(crate) fn is_running(&self, slot: Slot, generation: u32) -> bool {
        self.current.get() == Some(slot) && slot.cell().generation.load(Ordering::Relaxed) == generation
    }

    /// Which of the runtime's schedulers this is, counted from 0.
    #[cfg(feature = "wasm")]
    pub(crate) const fn number(&self) -> usize {
        self.id
    }

    pub(crate) fn now_ms(&self) -> u32 {
        self.now_ms.get()
    }

    pub(crate) fn count_spawn(&self) {
        bump(&self.me.counters.spawned, 1);
    }
}
