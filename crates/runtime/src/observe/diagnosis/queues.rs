//! Run queues of the schedulers, with those processes that no other scheduler may take.

use std::sync::atomic::Ordering::Relaxed;

use crate::runtime::handle::Handle;

/// The run queue of one scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerQueue {
    /// Number of processes that wait to run on it.
    pub waiting: u64,
    /// Number of them that may run only on it.
    pub pinned: u64,
    /// True if the scheduler sleeps.
    pub is_asleep: bool,
    /// Number of times that it woke up.
    pub wakes: u64,
}

/// Reads the run queue of each scheduler.
pub fn queues(runtime: &Handle) -> Vec<SchedulerQueue> {
    let schedulers = runtime.shared.schedulers.iter();
    schedulers
        .map(|scheduler| SchedulerQueue {
            waiting: scheduler.run_queue() as u64,
            pinned: scheduler.pinned.len() as u64,
            is_asleep: scheduler.counters.busy_since_ns.load(Relaxed) == 0,
            wakes: scheduler.counters.wakes.load(Relaxed),
        })
        .collect()
}
