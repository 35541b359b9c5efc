//! A scheduler: a thread that runs processes from its queue, steals when the queue is empty, and drives its own
//! reactor.
//!
//! ```text
//!              spawn, requeue ──▶ queue ──▶ run        (other schedulers steal from the far end)
//!   message wakes a receiver ──▶ next ───▶ run next    (at most LIFO_STREAK_MAX in a row)
//!      other threads ──▶ injector ──┘
//!    guest at its slice's end ──▶ preempted ──▶ run when nothing is ready, and after 1 ms at the latest
//!      no work? steal from lasting queues ─▶ spin a little ─▶ sleep in the reactor until I/O, a timer or a wake-up
//! ```
//!
//! A process that is pinned to a scheduler waits in a separate queue of that scheduler, from which no other one steals.
//!
//! The loop is one task of a tokio current-thread runtime, which polls sockets and timers between slices. When the
//! reactor wakes a process, that process is queued on this thread, and the task of the loop must be woken too:
//! otherwise the thread would sleep while its queue has work.

#![expect(unsafe_code, reason = "owns the slots that it runs; each block states why")]

pub(crate) mod busy_time;
pub(crate) mod fuzzer;
mod idle;
mod introductions;
pub(crate) mod lifo_slot;
pub(crate) mod parking;
mod pause;
mod queue;
mod reap;
mod shared;
mod start;
mod steal_monitor;
pub(crate) mod turn_end;
pub(crate) mod watchdog;

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, Waker};

use crossbeam_deque::Worker;

use crate::mailbox::gate::Arrivals;
use crate::mailbox::queue::NodePool;
use crate::observe::events::EVENTS_PER_SLICE;
use crate::process::exit::ExitReason;
use crate::process::free_list::FreeList;
use crate::process::header::{WAIT_RECEIVE, bump};
use crate::process::running::Running;
use crate::process::side_table::{SideTable, SideTables};
use crate::process::table::Slot;
use crate::process::task::Polled;
use crate::process::waker;
use crate::runtime::RuntimeShared;
use crate::runtime::panics;
use crate::scheduler::busy_time::BusyTimer;
use crate::scheduler::fuzzer::ScheduleFuzzer;
use crate::scheduler::parking::Parking;
use crate::scheduler::turn_end::Turn;

use introductions::IntroductionCache;
use steal_monitor::StealMonitor;

pub(crate) use pause::Pause;
pub(crate) use queue::retry_steal;
pub(crate) use shared::{Counters, SchedulerShared};

/// Number of polls between two reads of the clock.
const SLICE_POLLS: u32 = 64;
/// Time between two turns of the reactor while there is work: a bound on the latency of I/O under load.
const SLICE_NS: u64 = 250_000;
/// Rounds of searching for work before a scheduler sleeps: waking it would cost other schedulers more.
const SPIN_ROUNDS: u32 = 100;
/// Number of polls in a slice that makes more work of the same kind likely soon.
const WORTH_A_SPIN: u32 = 16;
/// After a shorter sleep that another scheduler ended, staying awake would have been cheaper.
const SHORT_SLEEP_NS: u64 = 100_000;
/// Number of messages that a process may receive before it must yield.
pub(crate) const RECEIVE_BUDGET: u32 = 256;

/// Thread-local state of a scheduler.
pub(crate) struct Local {
    pub(crate) shared: Arc<RuntimeShared>,
    pub(crate) id: usize,
    pub(crate) me: Arc<SchedulerShared>,
    queue: Worker<Slot>,
    /// Selects the next process instead of the queue, in runs with a seed.
    pub(crate) fuzzer: Option<ScheduleFuzzer>,
    slots: FreeList<Slot>,
    pub(crate) nodes: NodePool,
    /// Empty side tables for processes that need one from their start.
    #[expect(clippy::vec_box, reason = "the boxes themselves are kept for reuse")]
    spare_side_tables: Cell<Vec<Box<SideTable>>>,
    busy_timer: BusyTimer,
    current: Cell<Option<Slot>>,
    /// Waits of the running poll, as flags of [`ProcessHeader::wait`](crate::process::header::ProcessHeader::wait).
    pub(crate) wait: Cell<u8>,
    /// The running process must be queued again.
    pub(crate) woken: Cell<bool>,
    /// The running process has pending signals.
    pub(crate) signalled: Cell<bool>,
    pub(crate) budget: Cell<u32>,
    /// Wake-ups that the running process owes to rings.
    pub(crate) turn: Turn,
    /// Number of processes that may still run from the LIFO slot before the queue gets its turn.
    lifo_left: Cell<u32>,
    /// True while the reactor runs instead of the task of the loop.
    in_reactor: Cell<bool>,
    loop_waker: Cell<Option<Waker>>,
    /// See [`ReferenceAllocator`](crate::links::signal::ReferenceAllocator).
    pub(crate) last_reference: Cell<u64>,
    /// Processes that began a wait with a timeout and have set no timer yet; see `timeout.rs`.
    deferred_timeouts: Cell<Vec<Slot>>,
    /// No other scheduler was woken for the process in the queue, because this one will run it next.
    wake_deferred: Cell<bool>,
    /// The running poll ends as soon as it has queued one process.
    pub(crate) ends_after_enqueue: Cell<bool>,
    first: Cell<bool>,
    events_left: Cell<u32>,
    now_ms: Cell<u32>,
    /// Number of polls until the next check for work from other threads.
    polls_until_check: Cell<u32>,
    /// Heap bytes that entered mailboxes minus those that left them, not yet added to the sum of the runtime.
    pub(crate) unsettled_mail: Cell<i64>,
    introduction_cache: IntroductionCache,
    checks: Cell<u32>,
    /// Number of slices that ended after a few long polls.
    long_slices: Cell<u32>,
    /// Guests that the running guest has spawned in this poll.
    children: Cell<Vec<Slot>>,
    /// The process whose poll was ended because its time slice was used up.
    preempted: Cell<Option<Slot>>,
    /// The last process taken from the preempted ones.
    resumed: Cell<Option<Slot>>,
    /// It used up its time slice again.
    resumed_long: Cell<bool>,
    /// Time of the slice after that.
    resumed_ns: Cell<u64>,
    /// Preempted processes run next, although others are ready, until one has used up its time slice.
    preempted_due: Cell<bool>,
    spins: Cell<u32>,
    /// Other schedulers recently sent work soon after this one had run out of it.
    expects_peer_work: Cell<bool>,
    slept_at_ns: Cell<u64>,
    searching: Cell<bool>,
    asleep: Cell<bool>,
    steal_monitor: StealMonitor,
}

thread_local! {
    static LOCAL: Cell<*const Local> = const { Cell::new(ptr::null()) };
}

/// Returns the scheduler of this thread, if it is one.
#[inline]
pub(crate) fn local<'a>() -> Option<&'a Local> {
    // SAFETY: the pointer is set for as long as the scheduler's thread runs its loop, and only this thread reads it. No
    // caller keeps the reference beyond a poll.
    unsafe { LOCAL.with(Cell::get).as_ref() }
}

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
    /// Runs processes until the reactor gets its turn or no work is left.
    fn slice(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let now_ns = self.busy_timer.now_ns();
        let counters = &self.me.counters;
        self.me.unpark.get_or_init(|| cx.waker().clone());
        self.in_reactor.set(false);
        if counters.busy_since_ns.load(Ordering::Relaxed) == 0 {
            counters.busy_since_ns.store(now_ns.max(1), Ordering::Relaxed);
            bump(&counters.wakes, 1);
            self.first.set(true);
        }
        // Mark the scheduler awake before releasing monitored peers: otherwise two schedulers could search at once.
        if self.mark_awake() && !self.me.take_external_wake() && now_ns - self.slept_at_ns.get() < SHORT_SLEEP_NS {
            self.expects_peer_work.set(true);
        }
        if self.me.prewoken.load(Ordering::Relaxed) {
            self.spin_for_prewoken_work();
        }
        self.check_monitored_peers(now_ns);
        if self.shared.pause.is_requested() {
            self.shared.pause.wait();
        }
        if self.shared.is_stopped() {
            self.yield_to_reactor(cx);
            return Poll::Ready(());
        }
        self.now_ms.set((now_ns / 1_000_000) as u32);
        self.busy_timer.resume(now_ns);
        self.schedule_preempted(now_ns);
        self.events_left.set(EVENTS_PER_SLICE);
        // A seeded schedule must not depend on the clock, so its slices end after a number of polls.
        let seeded = self.fuzzer.is_some();
        let slice_end_ns = if seeded { 0 } else { now_ns + SLICE_NS };
        let mut until_clock = SLICE_POLLS;
        let mut ran = 0_u32;
        loop {
            let Some(slot) = self.next_slot() else {
                // A stop counts as work, so that no scheduler sleeps through it. Do not wait for it as for work.
                if self.shared.is_stopped() {
                    self.yield_to_reactor(cx);
                    return Poll::Ready(());
                }
                if self.expects_peer_work.get() {
                    self.expects_peer_work.set(self.spin_for_peer_work());
                    continue;
                }
                // After a short stretch the next work most likely comes from the reactor, which spinning would delay.
                if ran >= WORTH_A_SPIN && self.spins.replace(self.spins.get() + 1) < SPIN_ROUNDS {
                    std::hint::spin_loop();
                    continue;
                }
                self.spins.set(0);
                if self.wake_deferred_timeouts() {
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
            self.send_deferred_wake();
            let (polls, end_ns) = self.run_streak(slot, until_clock);
            let before = ran;
            ran = ran.wrapping_add(polls);
            if ran / SLICE_POLLS != before / SLICE_POLLS {
                self.run_maintenance();
            }
            until_clock -= polls;
            let end_ns = match end_ns.filter(|_| !seeded) {
                None if until_clock != 0 => continue,
                None => self.busy_timer.now_ns(),
                Some(end_ns) => end_ns,
            };
            until_clock = SLICE_POLLS;
            if end_ns >= slice_end_ns {
                self.on_slice_end(ran);
                self.yield_to_reactor(cx);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    fn run_maintenance(&self) {
        self.nodes.balance(&self.shared.nodes);
        Parking::announce_work();
        if self.may_wake() && !self.queue.is_empty() {
            self.shared.wake_one();
        }
    }

    /// Publishes the busy time and gives the reactor its turn.
    fn yield_to_reactor(&self, cx: &mut TaskContext<'_>) {
        self.wake_deferred_timeouts();
        self.nodes.balance(&self.shared.nodes);
        let now_ns = self.busy_timer.pause();
        let counters = &self.me.counters;
        bump(&counters.busy_ns, now_ns - counters.busy_since_ns.load(Ordering::Relaxed).min(now_ns));
        counters.busy_since_ns.store(now_ns, Ordering::Relaxed);
        self.arm_loop_waker(cx);
        // Only after the loop can be woken again: this may queue senders that continue.
        self.shared.settle_mail(self);
    }

    fn arm_loop_waker(&self, cx: &mut TaskContext<'_>) {
        let waker = self.loop_waker.take().filter(|waker| waker.will_wake(cx.waker()));
        self.loop_waker.set(Some(waker.unwrap_or_else(|| cx.waker().clone())));
        self.in_reactor.set(true);
    }

    /// Runs one process until it waits, yields or ends. Returns the end of the poll, if it was timed.
    fn run_slot(&self, slot: Slot) -> Option<u64> {
        let header = slot.header();
        let taken = Self::begin_run(slot);
        self.current.set(Some(slot));
        // Release: a reader that sees this process also sees that it was taken from the LIFO slot.
        self.me.counters.current.store(slot.as_ptr(), Ordering::Release);
        self.wait.set(0);
        self.woken.set(false);
        self.signalled.set(false);
        self.ends_after_enqueue.set(false);
        self.budget.set(RECEIVE_BUDGET);
        if !taken.is_empty() {
            self.take_arrivals(slot, taken);
        }
        bump(&header.polls, 1);
        bump(&self.me.counters.polls, 1);
        let timing = self.busy_timer.begin_poll(slot, self.first.replace(false));
        let polled = self.poll(slot);
        self.turn.end();
        let end_ns = self.busy_timer.end_poll(slot, timing);
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
            // SAFETY: this thread runs the process; its future has neither finished nor been dropped.
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

    /// Returns the exit signal that the process must obey, if it received one.
    #[inline]
    fn exit_signal(&self, slot: Slot) -> Option<ExitReason> {
        if !self.signalled.get() {
            return None;
        }
        self.signalled.set(false);
        SideTables::take_exit_signal(slot, slot.pid())
    }

    #[inline]
    fn park(&self, slot: Slot) {
        let header = slot.header();
        let wait = self.waits(header);
        if header.gate.end_run(wait & WAIT_RECEIVE == 0, self.woken.get()) {
            self.ends_after_enqueue.set(true);
            if self.preempted.get() == Some(slot) {
                self.enqueue_preempted(slot);
            } else {
                self.enqueue(slot, false);
            }
        }
    }

    /// Moves the messages, signals and wake-ups found at the gate to the process.
    pub(crate) fn take_arrivals(&self, slot: Slot, taken: Arrivals) {
        let mut is_below_low_watermark = false;
        if taken.newest() != 0 {
            let header = slot.header();
            // SAFETY: this thread runs the process, and the chain comes from its gate.
            unsafe {
                let body = slot.body();
                let mut backlog = body.backlog.get();
                let (count, dropped) = backlog.append(taken.newest(), header.generation.load(Ordering::Relaxed));
                body.backlog.set(backlog);
                header.backlog.store(header.backlog.load(Ordering::Relaxed) + count, Ordering::Relaxed);
                if dropped != 0 {
                    header.mail_bytes.fetch_sub(dropped, Ordering::Relaxed);
                    self.shared.release_mail(Some(self), dropped);
                    is_below_low_watermark = body.backpressured.get();
                }
            }
        }
        if taken.backpressure() || is_below_low_watermark {
            // SAFETY: this thread runs the process.
            unsafe { slot.body() }.backpressured.set(true);
            Running { slot, local: self }.wake_senders_if_room();
        }
        if taken.signal() {
            self.signalled.set(true);
        }
        if taken.woken() {
            self.woken.set(true);
        }
    }

    /// Returns the process that runs on this thread.
    #[inline]
    pub(crate) fn running(&self) -> Option<Running<'_>> {
        self.current.get().map(|slot| Running { slot, local: self })
    }

    /// Returns true if the tenant `generation` of a slot runs on this thread.
    #[inline]
    pub(crate) fn is_running(&self, slot: Slot, generation: u32) -> bool {
        self.current.get() == Some(slot) && slot.header().generation.load(Ordering::Relaxed) == generation
    }

    /// Returns the number of this scheduler in the runtime, counted from 0.
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
