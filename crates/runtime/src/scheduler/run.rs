//! The loop of a scheduler: runs processes in slices, and gives the reactor its turn in between.

#![expect(unsafe_code, reason = "owns the slots that it runs; each block states why")]

pub(crate) mod dropped_replies;
mod instruments;
pub(crate) mod traced;

use std::ptr;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};

use super::Local;
use super::busy_time::Timing;
use super::parking::Parking;
use crate::links::registry::SideTables;
use crate::observe::events::EVENTS_PER_SLICE;
use crate::observe::inspect::ended::EndedBy;
use crate::process::exit::{ExitReason, panic_reason};
use crate::process::header::{WAIT_MESSAGE, bump};
use crate::process::table::Slot;
use crate::process::task::Polled;
use crate::process::waker;

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
const RECEIVE_BUDGET: u32 = 256;

impl Local {
    /// Runs processes until the reactor gets its turn or no work is left.
    pub(super) fn slice(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let now_ns = self.busy_timer.now_ns();
        let counters = &self.me.counters;
        self.me.unpark.get_or_init(|| cx.waker().clone());
        self.in_reactor.set(false);
        let fed_by_reactor = self.fed_by_reactor.replace(false);
        let since_ns = counters.busy_since_ns.load(Ordering::Relaxed);
        if since_ns == 0 {
            counters.busy_since_ns.store(now_ns.max(1), Ordering::Relaxed);
            bump(&counters.wakes, 1);
            self.first.set(true);
        } else {
            bump(&counters.reactor_ns, now_ns.saturating_sub(since_ns));
        }
        // Mark the scheduler awake before releasing monitored peers: otherwise two schedulers could search at once.
        if self.mark_awake() && !self.me.take_external_wake() && now_ns - self.slept_at_ns.get() < SHORT_SLEEP_NS {
            self.expects_peer_work.set(true);
        }
        if self.me.prewoken.load(Ordering::Relaxed) {
            self.spin_for_prewoken_work();
        }
        self.steal_monitor.check(&self.shared.schedulers, now_ns);
        if self.shared.pause.is_requested() {
            self.shared.pause.wait();
        }
        if self.shared.is_stopped() {
            self.yield_to_reactor(cx);
            return Poll::Ready(());
        }
        self.now_ms.set(now_ns / 1_000_000);
        self.busy_timer.resume(now_ns, since_ns == 0);
        self.schedule_preempted(now_ns);
        if self.shared.scheduler_watchers.load(Ordering::Relaxed) != 0 {
            self.publish_queue_age(now_ns);
        }
        self.events_left.set(EVENTS_PER_SLICE);
        self.samples.set(self.shared.watches.is_active());
        self.ends_left.set(EVENTS_PER_SLICE);
        self.set_instruments();
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
                // After a short stretch, or one that the reactor has begun, the next work most likely comes from the
                // reactor, which spinning would delay.
                if ran >= WORTH_A_SPIN && !fed_by_reactor && self.spins.replace(self.spins.get() + 1) < SPIN_ROUNDS {
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

    /// Publishes the age of the queue at the start of a slice, for observers.
    #[cold]
    fn publish_queue_age(&self, now_ns: u64) {
        let stolen = self.me.stolen_from_queue.load(Ordering::Relaxed);
        let oldest_ns = self.queue_age.mark(now_ns, self.queue.len() as u64, stolen);
        self.me.counters.oldest_ready_ns.store(oldest_ns, Ordering::Relaxed);
    }

    fn run_maintenance(&self) {
        self.nodes.balance(&self.shared.nodes);
        Parking::announce_work();
        if self.may_wake() && !self.queue.is_empty() {
            self.shared.wake_one();
        }
    }

    /// Publishes the busy time and gives the reactor its turn.
    pub(super) fn yield_to_reactor(&self, cx: &mut TaskContext<'_>) {
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
    pub(super) fn run_slot(&self, slot: Slot) -> Option<u64> {
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
        let instrumented_ns = if self.instruments.get() == 0 { 0 } else { self.begin_instrumented(slot) };
        let polled = self.poll(slot);
        if instrumented_ns != 0 {
            self.end_instrumented(slot, instrumented_ns, &polled);
        }
        self.turn.end();
        let end_ns = self.busy_timer.end_poll(slot, timing, &self.me.counters);
        if let (Timing::From(start_ns, weight), Some(end_ns)) = (timing, end_ns)
            && self.samples.get()
        {
            self.sample_poll(slot, (start_ns, end_ns), weight, matches!(polled, Polled::Pending));
        }
        match polled {
            Polled::Pending => match self.exit_signal(slot) {
                None => self.park(slot),
                Some(reason) => self.end_early(slot, &Some(Box::new(reason))),
            },
            // The normal exit apart: it has nothing to drop.
            Polled::Finished(None) => self.end(slot, &None),
            Polled::Finished(exit) => self.end(slot, &exit),
            Polled::Panicked(payload) => self.end(slot, &Some(Box::new(panic_reason(payload)))),
        }
        self.current.set(None);
        self.me.counters.current.store(ptr::null_mut(), Ordering::Relaxed);
        end_ns
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, its result goes through memory: 2 ns for each poll")]
    fn poll(&self, slot: Slot) -> Polled {
        if self.signalled.get()
            && let Some(reason) = self.exit_signal(slot)
        {
            // SAFETY: this thread runs the process; its future has neither finished nor been dropped.
            let dropped = unsafe { slot.body().drop_future() };
            return match dropped {
                Ok(()) => Polled::Finished(Some(Box::new(reason))),
                Err(payload) => {
                    // A panic is a crash, also of a process that was killed.
                    self.ended_by.take();
                    Polled::Panicked(payload)
                }
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
        if self.signalled.get() { self.take_exit_signal(slot) } else { None }
    }

    #[cold]
    fn take_exit_signal(&self, slot: Slot) -> Option<ExitReason> {
        self.signalled.set(false);
        let signal = SideTables::take_exit_signal(slot, slot.pid())?;
        self.ended_by.set(Some(
            signal.link.map_or_else(|| signal.from.map_or(EndedBy::Outside, EndedBy::Process), EndedBy::Link),
        ));
        Some(signal.reason)
    }

    #[inline]
    fn park(&self, slot: Slot) {
        let header = slot.header();
        let wait = self.waits(header);
        if header.gate.end_run(wait & WAIT_MESSAGE == 0, self.woken.get()) {
            self.ends_after_enqueue.set(true);
            if self.preempted.get() == Some(slot) {
                self.enqueue_preempted(slot);
            } else {
                self.enqueue(slot, false);
            }
        }
    }
}
