//! CPU time outside of processes: the work of the schedulers between polls, and the other threads of the program.
//!
//! ```text
//!   CPU time of a scheduler's thread (kernel)
//!   ├── in polls       sampled                          the rows
//!   ├── search         measured
//!   ├── reactor        measured, while there is work
//!   ├── dispatch       the rest of its time awake
//!   └── park           the rest of its CPU time: falling asleep and waking up
//! ```
//!
//! A scheduler that is awake without a core, because other programs use it, has less CPU time than time awake. The
//! difference counts nowhere.

use std::collections::BTreeMap;

use super::group::{GroupId, Growth};
use crate::sampler::os_cpu::ThreadTime;
use rusm_runtime::observe::SchedulerCounters;

/// Prefix of the names of the schedulers' threads, before their number.
const SCHEDULER: &str = "rusm-sched-";
/// Prefix of the names of the other threads of a node.
const NODE: &str = "rusm-";

/// Times of one scheduler, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SchedulerTime {
    pub(crate) polls: u64,
    pub(crate) poll_ns: u64,
    search_ns: u64,
    reactor_ns: u64,
    awake_ns: u64,
    run_queue: u64,
    /// CPU time of its thread.
    cpu_ns: u64,
}

impl From<SchedulerCounters> for SchedulerTime {
    fn from(counters: SchedulerCounters) -> Self {
        Self {
            polls: counters.polls,
            poll_ns: counters.poll_ns,
            search_ns: counters.search_ns,
            reactor_ns: counters.reactor_ns,
            awake_ns: counters.busy_ns,
            run_queue: counters.run_queue,
            cpu_ns: 0,
        }
    }
}

/// Times of all threads of the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    schedulers: Vec<SchedulerTime>,
    /// CPU time of the other threads, by name.
    others: BTreeMap<String, u64>,
}

impl Threads {
    /// Assigns threads to schedulers by their names.
    pub(crate) fn new(threads: Vec<ThreadTime>, mut schedulers: Vec<SchedulerTime>) -> Self {
        let mut others = BTreeMap::new();
        for ThreadTime { name, cpu_ns } in threads {
            let number = name.strip_prefix(SCHEDULER).and_then(|number| number.parse::<usize>().ok());
            match number.and_then(|number| schedulers.get_mut(number)) {
                Some(scheduler) => scheduler.cpu_ns += cpu_ns,
                None => *others.entry(part_of(&name).to_owned()).or_default() += cpu_ns,
            }
        }
        Self { schedulers, others }
    }

    /// Returns the growth of each part, in nanoseconds; those of the schedulers only if they are not rows themselves.
    pub(crate) fn parts_since(&self, then: &Self, by_scheduler: bool) -> impl Iterator<Item = (String, u64)> {
        let mut parts = [("dispatch", 0), ("search", 0), ("reactor", 0), ("park", 0)];
        if !by_scheduler {
            for (now, then) in self.schedulers.iter().zip(&then.schedulers) {
                for (part, ns) in parts.iter_mut().zip(outside_polls(now, then)) {
                    part.1 += ns;
                }
            }
        }
        let others: Vec<(String, u64)> = self
            .others
            .iter()
            .map(|(name, ns)| (name.clone(), ns.saturating_sub(then.others.get(name).copied().unwrap_or(0))))
            .collect();
        parts.into_iter().map(|(name, ns)| (name.to_owned(), ns)).chain(others)
    }

    /// Returns a row for each scheduler, with the CPU time of its thread.
    pub(crate) fn scheduler_rows(&self, then: &Self) -> Vec<(GroupId, Growth)> {
        let row = |(number, (now, then)): (usize, (&SchedulerTime, &SchedulerTime))| {
            let busy_ns = now.cpu_ns.saturating_sub(then.cpu_ns);
            (GroupId::Scheduler(number), Growth { busy_ns, live: now.run_queue, ..Growth::default() })
        };
        self.schedulers.iter().zip(&then.schedulers).enumerate().map(row).collect()
    }
}

/// Returns the CPU time of a scheduler outside of polls: dispatch, search, reactor, park.
fn outside_polls(now: &SchedulerTime, then: &SchedulerTime) -> [u64; 4] {
    let grown = |of: fn(&SchedulerTime) -> u64| of(now).saturating_sub(of(then));
    let (cpu, awake) = (grown(|time| time.cpu_ns), grown(|time| time.awake_ns));
    let (polls, search, reactor) =
        (grown(|time| time.poll_ns), grown(|time| time.search_ns), grown(|time| time.reactor_ns));
    let without_core = awake.saturating_sub(cpu);
    let between = awake.saturating_sub(polls + search + reactor);
    // Search and reactor are measured in time awake, so they may include time without a core.
    let dispatch = between.saturating_sub(without_core);
    let left = without_core - (between - dispatch);
    let waiting = search + reactor;
    let kept = |part: u64| part - part.min(left) * part / waiting.max(1);
    [dispatch, kept(search), kept(reactor), cpu.saturating_sub(awake)]
}

/// Returns the part that a thread belongs to.
fn part_of(thread: &str) -> &str {
    match thread.strip_prefix(NODE).unwrap_or(thread) {
        "console" => "observer",
        "watch" => "watchdog",
        "rusm" => "main",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(poll_ns: u64, search_ns: u64, reactor_ns: u64, awake_ns: u64, cpu_ns: u64) -> SchedulerTime {
        SchedulerTime { poll_ns, search_ns, reactor_ns, awake_ns, cpu_ns, ..SchedulerTime::default() }
    }

    #[test]
    fn polls_and_parts_add_up_to_the_time_of_the_thread() {
        let then = time(5, 5, 5, 20, 100);
        for (poll, search, reactor, awake, cpu) in
            [(600, 50, 20, 900, 900), (600, 50, 20, 900, 950), (600, 50, 20, 900, 700), (0, 0, 0, 0, 30)]
        {
            let now = time(5 + poll, 5 + search, 5 + reactor, 20 + awake, 100 + cpu);

            let parts: u64 = outside_polls(&now, &then).iter().sum();

            assert!((poll + parts).abs_diff(cpu) <= 2, "{poll} + {parts} of {cpu}");
        }
    }

    #[test]
    fn a_row_that_claims_more_than_its_thread_used_is_not_hidden() {
        let (then, now) = (time(0, 0, 0, 0, 0), time(1_700, 0, 0, 1_000, 1_000));

        assert_eq!(outside_polls(&now, &then), [0, 0, 0, 0], "the sum shows 170 %");
    }

    #[test]
    fn threads_are_parts_by_their_names() {
        let threads = [("rusm-sched-1", 7), ("rusm-console", 2), ("rusm-sched-9", 1), ("tokio-rt", 3), ("tokio-rt", 4)];
        let threads = threads.map(|(name, cpu_ns)| ThreadTime { name: name.to_owned(), cpu_ns }).to_vec();

        let threads = Threads::new(threads, vec![SchedulerTime::default(); 2]);

        assert_eq!(threads.schedulers.iter().map(|scheduler| scheduler.cpu_ns).collect::<Vec<_>>(), [0, 7]);
        let others = [("observer", 2), ("sched-9", 1), ("tokio-rt", 7)].map(|(name, ns)| (name.to_owned(), ns));
        assert_eq!(threads.others, others.into());
    }
}
