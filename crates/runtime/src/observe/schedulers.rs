//! Counters of schedulers, and the processes that they run.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

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
    let read = |scheduler: &Arc<SchedulerShared>| {
        let counters = &scheduler.counters;
        let (since_ns, busy_ns) = busy(counters);
        let running_ns = if since_ns == 0 { 0 } else { now_ns.saturating_sub(since_ns) };
        SchedulerCounters {
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
        }
    };
    shared.schedulers.iter().map(read).collect()
}

/// Reads when a scheduler became busy, and its busy time before. Both are of one moment, or time could count twice.
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
    runtime.shared.stuck.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

/// Returns the number of schedulers that are inside a poll.
pub fn running(runtime: &Handle) -> u64 {
    let inside = |scheduler: &&Arc<SchedulerShared>| !scheduler.counters.current.load(Relaxed).is_null();
    runtime.shared.schedulers.iter().filter(inside).count() as u64
}
