//! Timers: messages and exit signals that are sent later.
//!
//! ```text
//!   send_after ──▶ queue, ordered by instant ──▶ `rusm-timers` sleeps until the first ──▶ mailbox of the target
//!       └──▶ side table of the target: id ─▶ instant ◀── cancel, read; the target's end removes all of them
//! ```
//!
//! A timer belongs to its *target*, like that of `erlang:send_after` to a pid. It is removed when the target ends; the
//! end of the process that set it changes nothing. The side table of the target decides: a timer fires, is cancelled
//! and is read under the target's lock. If `cancel` reports that the timer had fired, its message has been delivered.

mod queue;
pub(crate) mod service;
pub(crate) mod timer;
#[cfg(feature = "test")]
pub(crate) mod virtual_clock;
#[cfg(feature = "test")]
mod virtual_time;

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use crate::links::bonds::deliver_envelope;
use crate::mailbox::queue::{Envelope, unpooled_envelope};
use crate::process::context::Context;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::side_table_guard::SideTableGuard;
use crate::process::small_map::SmallMap;
use crate::runtime::handle::Handle;
use crate::runtime::panics;
use crate::runtime::shared::RuntimeShared;
use crate::time::nanos;
use queue::Due;
use service::Runner;
use timer::{Action, CallRef, Repeat, Timer, TimerRef};

#[cfg(feature = "test")]
pub(crate) use virtual_time::drive_virtual;

/// Shortest period of an interval.
const PERIOD_MIN: Duration = Duration::from_millis(1);

/// Target of calls, which have no target process: generation 0 is never used.
const NO_TARGET: Pid = Pid::local(0, 0);

impl Context {
    /// Sends a value to a process after `delay`. The process may be this one.
    ///
    /// The message arrives once, never before its time, and even if the mailbox is full: the timer cannot report a
    /// failure. The timer is removed when `to` ends. The end of this process does not affect it.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// # use rusm::{Config, Runtime};
    /// # use std::time::Duration;
    /// # let runtime = Runtime::start(Config::default())?;
    /// # let pid = runtime.spawn(|ctx| async move {
    /// let reminder = ctx.send_after(ctx.pid(), Duration::from_millis(5), "tea");
    /// let alarm = ctx.send_after(ctx.pid(), Duration::from_secs(3600), "alarm");
    /// assert_eq!(ctx.receive_of::<&str>().await, "tea");
    /// assert_eq!(ctx.cancel(reminder), None, "it has fired");
    /// assert!(ctx.cancel(alarm).is_some_and(|left| left > Duration::from_secs(3000)));
    /// # })?;
    /// # assert_eq!(runtime.wait(pid), rusm::ExitReason::Normal);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_after<T: Send + 'static>(&self, to: Pid, delay: Duration, value: T) -> TimerRef {
        self.running().local.shared.send_after(to, delay, value)
    }

    /// Sends copies of a value to a process, the first after one `period`, until the timer is cancelled or `to` ends.
    ///
    /// Ticks keep to the grid of the first one. A tick that is late by whole periods also stands for those. A tick that
    /// finds the mailbox full is skipped and counted ([`observe::timers`](crate::observe::timers)). A period below one
    /// millisecond is raised to one. The interval ends if cloning the value panics.
    pub fn send_interval<T: Clone + Send + 'static>(&self, to: Pid, period: Duration, value: T) -> TimerRef {
        self.running().local.shared.send_interval(to, period, value)
    }

    /// Sends an exit signal after `delay`, as [`exit`](Self::exit) would at that time.
    pub fn exit_after(&self, pid: Pid, delay: Duration, reason: ExitReason) -> TimerRef {
        self.running().local.shared.exit_after(Some(self.pid()), pid, delay, reason)
    }

    /// Kills a process after `delay`. This cannot be trapped.
    pub fn kill_after(&self, pid: Pid, delay: Duration) -> TimerRef {
        self.exit_after(pid, delay, ExitReason::Killed)
    }

    /// Cancels a timer. Returns the time that was left, for an interval the time to its next tick.
    ///
    /// Returns `None` if there is nothing to cancel: the timer has fired and its message has been delivered, it was
    /// already cancelled, or its target has ended.
    pub fn cancel(&self, timer: TimerRef) -> Option<Duration> {
        self.running().local.shared.cancel_timer(timer)
    }

    /// Returns the time that a timer has left, or `None` if there is nothing that [`cancel`](Self::cancel) could
    /// cancel.
    pub fn read_timer(&self, timer: TimerRef) -> Option<Duration> {
        self.running().local.shared.read_timer(timer)
    }
}

impl Handle {
    /// Sends a value to a process after `delay`; see [`Context::send_after`].
    pub fn send_after<T: Send + 'static>(&self, to: Pid, delay: Duration, value: T) -> TimerRef {
        self.shared.send_after(to, delay, value)
    }

    /// Sends copies of a value to a process periodically; see [`Context::send_interval`].
    pub fn send_interval<T: Clone + Send + 'static>(&self, to: Pid, period: Duration, value: T) -> TimerRef {
        self.shared.send_interval(to, period, value)
    }

    /// Sends an exit signal after `delay`, as [`exit`](Self::exit) would at that time.
    pub fn exit_after(&self, pid: Pid, delay: Duration, reason: ExitReason) -> TimerRef {
        self.shared.exit_after(None, pid, delay, reason)
    }

    /// Kills a process after `delay`. This cannot be trapped.
    pub fn kill_after(&self, pid: Pid, delay: Duration) -> TimerRef {
        self.exit_after(pid, delay, ExitReason::Killed)
    }

    /// Cancels a timer, and returns the time that was left; see [`Context::cancel`].
    pub fn cancel(&self, timer: TimerRef) -> Option<Duration> {
        self.shared.cancel_timer(timer)
    }

    /// Returns the time that a timer has left, or `None` if there is nothing that [`cancel`](Self::cancel) could
    /// cancel.
    pub fn read_timer(&self, timer: TimerRef) -> Option<Duration> {
        self.shared.read_timer(timer)
    }
}

impl RuntimeShared {
    /// Returns the nanoseconds since the start, by the clock of the timers.
    pub(crate) fn now_ns(&self) -> u64 {
        #[cfg(feature = "test")]
        if let Some(now_ns) = self.timers.virtual_ns() {
            return now_ns;
        }
        nanos(self.started.elapsed())
    }

    fn send_after<T: Send + 'static>(self: &Arc<Self>, to: Pid, delay: Duration, value: T) -> TimerRef {
        self.set_timer(to, delay, Action::Send(unpooled_envelope(to.generation(), value)))
    }

    fn send_interval<T: Clone + Send + 'static>(self: &Arc<Self>, to: Pid, period: Duration, value: T) -> TimerRef {
        let period = period.max(PERIOD_MIN);
        let copy = Box::new(move || unpooled_envelope(to.generation(), value.clone()));
        self.set_timer(to, period, Action::Repeat(Box::new(Repeat { period_ns: nanos(period), copy })))
    }

    fn exit_after(self: &Arc<Self>, from: Option<Pid>, pid: Pid, delay: Duration, reason: ExitReason) -> TimerRef {
        self.set_timer(pid, delay, Action::Exit(Box::new((from, reason))))
    }

    fn set_timer(self: &Arc<Self>, target: Pid, delay: Duration, action: Action) -> TimerRef {
        let at_ns = self.now_ns().saturating_add(nanos(delay));
        let Some(mut locked) = self.lock_process(target) else { return TimerRef { target, id: 0 } };
        let others = locked.side_table().timers();
        let id = self.timers.insert(at_ns, Timer { target, action }, others, || start(self));
        others.insert(id, at_ns);
        TimerRef { target, id }
    }

    /// Schedules `call` on the timer service at an instant. For quick calls that belong to no process.
    pub(crate) fn call_at(self: &Arc<Self>, at_ns: u64, call: impl FnOnce() + Send + 'static) -> CallRef {
        let timer = Timer { target: NO_TARGET, action: Action::Call(Box::new(call)) };
        let id = self.timers.insert(at_ns, timer, &SmallMap::default(), || start(self));
        CallRef(Due { at_ns, id })
    }

    /// Cancels a call that has not begun.
    pub(crate) fn cancel_call(&self, CallRef(due): CallRef) {
        drop(self.timers.remove(due));
    }

    fn cancel_timer(&self, timer: TimerRef) -> Option<Duration> {
        let mut locked = self.lock_process(timer.target)?;
        let at_ns = locked.get()?.take_timer(timer.id)?;
        let cancelled = self.timers.remove(Due { at_ns, id: timer.id });
        drop(locked);
        // Dropped after the lock is released: dropping the message may run any code.
        drop(cancelled);
        Some(self.left(at_ns))
    }

    fn read_timer(&self, timer: TimerRef) -> Option<Duration> {
        let at_ns = self.lock_process(timer.target)?.get()?.timer(timer.id)?;
        Some(self.left(at_ns))
    }

    fn left(&self, at_ns: u64) -> Duration {
        Duration::from_nanos(at_ns.saturating_sub(self.now_ns()))
    }

    /// Fires due timers if the thread of the timer service could not be created; see
    /// [`Timers::take_due_without_runner`].
    pub(crate) fn fire_without_runner(&self) {
        self.fire(self.timers.take_due_without_runner(self.now_ns()));
    }

    /// Fires due timers on this thread.
    pub(crate) fn fire_due(&self) {
        self.fire(self.timers.take_due(self.now_ns()));
    }

    /// Runs all scheduled calls at once, after the timer service has stopped: threads may wait for their effects. Calls
    /// that these calls schedule never run.
    pub(crate) fn run_remaining_calls(&self) {
        let mut rest = Vec::new();
        loop {
            let due = self.timers.take_due(u64::MAX);
            if due.is_empty() {
                break;
            }
            rest.extend(due);
        }
        for (_, timer) in rest {
            panics::contain(|| {
                if let Action::Call(call) = timer.action {
                    call();
                }
            });
        }
    }

    fn fire(&self, due: Vec<(Due, Timer)>) {
        for (due, Timer { target, action }) in due {
            panics::contain(|| match action {
                Action::Send(envelope) => self.fire_message(due, target, envelope),
                Action::Repeat(repeat) => self.tick(due, target, repeat),
                Action::Exit(exit) => self.fire_exit(due, target, *exit),
                Action::Call(call) => call(),
            });
        }
    }

    /// Locks the target of a timer that fires, and removes the timer from it. Returns `None` if the timer was
    /// cancelled.
    fn claim(&self, due: Due, target: Pid) -> Option<SideTableGuard> {
        let mut locked = self.lock_process(target)?;
        locked.get()?.take_timer(due.id)?;
        Some(locked)
    }

    fn fire_message(&self, due: Due, target: Pid, envelope: Envelope) {
        if let Some(locked) = self.claim(due, target) {
            self.timers.count_fired();
            deliver_envelope(locked, envelope);
        }
    }

    fn fire_exit(&self, due: Due, target: Pid, (from, reason): (Option<Pid>, ExitReason)) {
        if let Some(locked) = self.claim(due, target) {
            self.timers.count_fired();
            self.exit_locked(from, target, reason, locked);
        }
    }

    fn tick(&self, due: Due, target: Pid, repeat: Box<Repeat>) {
        // Copy before locking the target: cloning may run any code.
        let mut envelope = None;
        panics::contain(|| envelope = Some((repeat.copy)()));
        let Some(mut locked) = self.claim(due, target) else { return };
        let Some(envelope) = envelope else { return };
        let next = Due { at_ns: next_tick_ns(due.at_ns, repeat.period_ns, self.now_ns()), ..due };
        let others = locked.side_table().timers();
        self.timers.put_back(next, Timer { target, action: Action::Repeat(repeat) }, others);
        others.insert(next.id, next.at_ns);
        let slot = locked.slot();
        if self.has_room(slot.header(), slot.header().gate.pending(), 0) {
            self.timers.count_fired();
            deliver_envelope(locked, envelope);
        } else {
            self.timers.count_skipped();
            drop(locked);
        }
    }
}

/// Creates the thread that fires timers.
fn start(shared: &Arc<RuntimeShared>) -> Option<Runner> {
    let shared = Arc::clone(shared);
    let body = move || {
        while let Some(due) = shared.timers.wait(|| shared.now_ns()) {
            shared.fire(due);
        }
    };
    match Builder::new().name("rusm-timers".to_owned()).spawn(body) {
        Ok(thread) => Some(Runner::Thread(thread)),
        Err(error) => {
            tracing::warn!(%error, "no thread for timers: the watchdog fires them, about 50 ms late");
            None
        }
    }
}

/// Returns the first instant after `now_ns` on the grid of an interval.
fn next_tick_ns(at_ns: u64, period_ns: u64, now_ns: u64) -> u64 {
    let missed = now_ns.saturating_sub(at_ns) / period_ns;
    at_ns.saturating_add(period_ns.saturating_mul(missed + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_tick_stands_for_those_that_were_missed() {
        assert_eq!(next_tick_ns(100, 10, 100), 110);
        assert_eq!(next_tick_ns(100, 10, 109), 110);
        assert_eq!(next_tick_ns(100, 10, 110), 120);
        assert_eq!(next_tick_ns(100, 10, 157), 160);
        assert_eq!(next_tick_ns(u64::MAX - 1, 10, 0), u64::MAX);
    }
}
