//! Figures of a whole runtime: counters, mailboxes, events and progress.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::mailbox::budget::MailboxBytes;
use crate::observe::events::RuntimeEvent;
use crate::runtime::handle::Handle;
use crate::scheduler::{Counters, SchedulerShared};

/// Counters of a whole runtime.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Runtime, observe};
///
/// let runtime = Runtime::start(Config::default())?;
/// for _ in 0..2 {
///     runtime.spawn(|_| std::future::pending::<()>())?;
/// }
/// let totals = observe::totals(&runtime);
/// assert_eq!((totals.spawned, totals.exited, totals.live), (2, 0, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of processes ever spawned.
    pub spawned: u64,
    /// Number of processes that have ended.
    pub exited: u64,
    /// Number of processes that have ended abnormally.
    pub crashed: u64,
    /// Of the `crashed` ones, those that an exit signal of another process, or from outside, has ended.
    pub killed: u64,
    /// Of the `crashed` ones, those that a linked process has taken along.
    pub linked: u64,
    /// Number of live processes.
    pub live: u64,
    /// Number of messages ever received.
    pub messages: u64,
}

/// Reads the counters of a runtime. The end of a process is counted shortly after those who wait for it are told.
pub fn totals(runtime: &Handle) -> Totals {
    let shared = &runtime.shared;
    let sum =
        |counter: fn(&Counters) -> u64| shared.schedulers.iter().map(|scheduler| counter(&scheduler.counters)).sum();
    let (spawned, exited) = shared.spawned_and_exited();
    Totals {
        spawned,
        exited,
        crashed: sum(|counters| counters.crashed.load(Relaxed)),
        killed: sum(|counters| counters.killed.load(Relaxed)),
        linked: sum(|counters| counters.linked.load(Relaxed)),
        live: spawned - exited,
        messages: sum(|counters| counters.messages.load(Relaxed)),
    }
}

/// Reads the heap bytes of the messages in all mailboxes of a runtime, and their limit.
pub fn mailbox_bytes(runtime: &Handle) -> MailboxBytes {
    runtime.shared.mailboxes.report()
}

/// Returns the total number of polls, spawns and exits; `None` while any process is running or queued.
///
/// Two equal results mean that no process ran between the two calls.
pub fn idle_progress(runtime: &Handle) -> Option<u64> {
    let shared = &runtime.shared;
    let is_idle = |scheduler: &Arc<SchedulerShared>| {
        scheduler.counters.current.load(Relaxed).is_null() && scheduler.run_queue() == 0
    };
    let polls = |scheduler: &Arc<SchedulerShared>| scheduler.counters.polls.load(Relaxed);
    let (spawned, exited) = shared.spawned_and_exited();
    (shared.injector.is_empty() && shared.schedulers.iter().all(is_idle))
        .then(|| shared.schedulers.iter().map(polls).sum::<u64>().wrapping_add(spawned).wrapping_add(exited))
}

/// Returns the time since the runtime started.
pub fn uptime(runtime: &Handle) -> Duration {
    runtime.shared.started.elapsed()
}

/// Runs code while no process runs, except those that do not return from their poll within `patience`.
/// For scans of the table that must not miss a process. All schedulers are stopped, so the code must be short.
pub fn while_paused<T>(runtime: &Handle, patience: Duration, code: impl FnOnce() -> T) -> T {
    runtime.shared.pause.during(&runtime.shared.schedulers, patience, code)
}

/// Returns the newest events after number `seq`, at most `limit`, oldest first.
///
/// The runtime keeps the newest 1,024 events and drops some if too many come at once; [`event_counts`] counts those.
pub fn events(runtime: &Handle, seq: u64, limit: usize) -> Vec<RuntimeEvent> {
    runtime.shared.events.since(seq, limit)
}

/// Returns the number of events recorded, and the number of events dropped because too many came at once.
pub fn event_counts(runtime: &Handle) -> (u64, u64) {
    let (noted, dropped) = runtime.shared.events.counts();
    let dropped_by = |scheduler: &Arc<SchedulerShared>| scheduler.counters.events_dropped.load(Relaxed);
    (noted, dropped + runtime.shared.schedulers.iter().map(dropped_by).sum::<u64>())
}
