//! Counters of schedulers, and the processes that they run.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use crate::process::pid::Pid;
use crate::runtime::handle::Handle;
use crate::scheduler::{Counters, SchedulerShared};

/// Returns the processes that are inside a poll, at most one for each scheduler.
pub fn polled(runtime: &Handle) -> Vec<Pid> {
    runtime.shared.schedulers.iter().filter_map(|scheduler| scheduler.running()).collect()
}

/// Returns the process that each scheduler polls.
pub fn running_processes(runtime: &Handle) -> Vec<Option<Pid>> {
    runtime.shared.schedulers.iter().map(|scheduler| scheduler.running()).collect()
}

/// Counters of one scheduler; all except `run_queue` only go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerCounters {
    /// Time not asleep, in nanoseconds.
    pub busy_ns: u64,
    /// Time inside polls of processes, in nanoseconds, as far as it was measured. The same sum as in the processes.
    pub poll_ns: u64,
    /// Time of searching and waiting for work while awake, in nanoseconds.
    pub search_ns: u64,
    /// Time in the reactor while there was work, in nanoseconds.
    pub reactor_ns: u64,
    /// Number of runnable processes in its queue.
    pub run_queue: u64,
    /// Number of polls of processes.
    pub polls: u64,
    /// Number of messages received by processes.
    pub messages: u64,
    /// Number of processes stolen from other schedulers.
    pub steals: u64,
    /// Number of times the scheduler went to sleep because it had no work.
    pub parks: u64,
    /// Number of times the scheduler woke up.
    pub wakes: u64,
}

/// Reads the counters of each scheduler.
pub fn schedulers(runtime: &Handle) -> Vec<SchedulerCounters> {
    let shared = &runtime.shared;
    let now_ns = shared.started.elapsed().as_nanos() as u64;
    shared.schedulers.iter().map(|scheduler| read(scheduler, now_ns).0).collect()
}

/// Reads the counters of a scheduler, and the time at which its current slice began; 0 while it sleeps.
fn read(scheduler: &SchedulerShared, now_ns: u64) -> (SchedulerCounters, u64) {
    let counters = &scheduler.counters;
    let (since_ns, busy_ns) = busy(counters);
    let running_ns = if since_ns == 0 { 0 } else { now_ns.saturating_sub(since_ns) };
    let read = SchedulerCounters {
        busy_ns: busy_ns + running_ns,
        poll_ns: counters.poll_ns.load(Relaxed),
        search_ns: counters.search_ns.load(Relaxed),
        reactor_ns: counters.reactor_ns.load(Relaxed),
        run_queue: scheduler.run_queue() as u64,
        polls: counters.polls.load(Relaxed),
        messages: counters.messages.load(Relaxed),
        steals: counters.steals.load(Relaxed),
        parks: counters.parks.load(Relaxed),
        wakes: counters.wakes.load(Relaxed),
    };
    (read, since_ns)
}

/// State of one scheduler: its counters, its queues, and what it does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerReport {
    /// The counters.
    pub counters: SchedulerCounters,
    /// Number of processes in the queue from which other schedulers steal.
    pub queued: u64,
    /// Number of runnable processes that only this scheduler may run.
    pub pinned: u64,
    /// Number of processes that used up their time slice and wait for the others.
    pub preempted: u64,
    /// Number of processes that other threads have taken from its queues. Only goes up.
    pub stolen: u64,
    /// Number of polls that ended because the time slice was used up. Only goes up.
    pub preemptions: u64,
    /// Thread id in the operating system; 0 before the thread has started.
    pub thread_id: u32,
    /// Process inside a poll.
    pub running: Option<Pid>,
    /// Time since the slice began in which it runs processes now: an upper bound of the time of the current poll. `None`
    /// while it sleeps.
    pub slice: Option<Duration>,
    /// Time for which it has slept; `None` while it is awake.
    pub asleep: Option<Duration>,
    /// Age of the oldest process in its queue, exact to a slice; `None` if none waits, and while no
    /// [`SchedulerWatch`] exists.
    pub oldest_ready: Option<Duration>,
}

/// Reads the state of each scheduler. For the age of the oldest ready process, a [`SchedulerWatch`] must exist.
pub fn scheduler_reports(runtime: &Handle) -> Vec<SchedulerReport> {
    let shared = &runtime.shared;
    let report = |scheduler: &Arc<SchedulerShared>| {
        let now_ns = shared.started.elapsed().as_nanos() as u64;
        let since = |at_ns: u64| Duration::from_nanos(now_ns.saturating_sub(at_ns));
        let running = scheduler.running();
        let own = &scheduler.counters;
        let oldest_ns = own.oldest_ready_ns.load(Relaxed);
        let (counters, slice_ns) = read(scheduler, now_ns);
        // Read after the mark of the sleep, which is written after it.
        let slept_at_ns = own.slept_at_ns.load(Relaxed);
        let queued = scheduler.stealer.len() as u64;
        SchedulerReport {
            counters,
            queued,
            pinned: scheduler.pinned.len() as u64,
            preempted: scheduler.preempted.len() as u64,
            stolen: scheduler.stolen.load(Relaxed),
            preemptions: own.preemptions.load(Relaxed),
            thread_id: scheduler.thread_id.load(Relaxed),
            running,
            slice: (slice_ns != 0).then(|| since(slice_ns)),
            asleep: (slice_ns == 0).then(|| since(slept_at_ns)),
            oldest_ready: (queued > 0 && oldest_ns != 0).then(|| since(oldest_ns)),
        }
    };
    shared.schedulers.iter().map(report).collect()
}

/// Returns the number of processes in the queue that all schedulers take from: those that other threads have woken.
pub fn injected(runtime: &Handle) -> u64 {
    runtime.shared.injector.len() as u64
}

/// Lets the schedulers of a runtime publish the age of their queues for as long as it exists. It costs each of them a few
/// nanoseconds for each slice of a quarter of a millisecond.
#[derive(Debug)]
pub struct SchedulerWatch(Handle);

impl SchedulerWatch {
    /// Starts to watch the schedulers.
    pub fn new(runtime: &Handle) -> Self {
        runtime.shared.scheduler_watchers.fetch_add(1, Relaxed);
        Self(runtime.clone())
    }
}

impl Drop for SchedulerWatch {
    fn drop(&mut self) {
        self.0.shared.scheduler_watchers.fetch_sub(1, Relaxed);
    }
}

/// Reads when a scheduler became busy, and its busy time before. Both are of one moment unless the operating system has
/// stopped the scheduler between its two stores: then the last slice counts twice until it goes on.
fn busy(counters: &Counters) -> (u64, u64) {
    let read = || (counters.busy_ns.load(Acquire), counters.busy_since_ns.load(Acquire));
    let mut seen = read();
    loop {
        let again = read();
        if again == seen {
            return (seen.1, seen.0);
        }
        seen = again;
    }
}

/// Returns the processes with a poll that has run for longer than [`Config::stuck_after`](crate::Config::stuck_after).
pub fn stuck(runtime: &Handle) -> Vec<Pid> {
    runtime.shared.stuck.lock().clone()
}

/// Returns the number of schedulers that are inside a poll.
pub fn running(runtime: &Handle) -> u64 {
    let inside = |scheduler: &&Arc<SchedulerShared>| !scheduler.counters.current.load(Relaxed).is_null();
    runtime.shared.schedulers.iter().filter(inside).count() as u64
}
