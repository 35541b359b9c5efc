//! Waits of processes for each other: read from the runtime a few times a second while an observer is attached, with
//! the time since which each is known; and `wait_cycle`, the lint about them.
//!
//! ```text
//!   runtime ──▶ waits, budgeted ──▶ same wait as before? its time stays ──▶ graph ──▶ Sample: views, words of states
//!                                                                            └─▶ cycles ──▶ findings
//! ```

pub(crate) mod graph;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusm_protocol::Lint;
use rusm_runtime::observe::{self, Wait, WaitTarget};
use rusm_runtime::{Handle, Pid};

use self::graph::{Cycle, GraphRow, KnownWait};
use crate::budget::{thread_cpu, thread_cpu_since};
use crate::lints::finding::{Finding, HOLD};

/// Minimum interval between two reads.
const INTERVAL: Duration = Duration::from_millis(400);
/// Share of one core that reading may use.
const SHARE: f64 = 0.001;
/// Maximum number of waits that are listed.
const WAITS_MAX: usize = 4_096;
/// Maximum number of cycles of one read that are reported, and of pids that the text of one names.
const CYCLES_MAX: usize = 16;
const CYCLE_PIDS_SHOWN: usize = 6;

/// The waits of a node at one moment.
#[derive(Debug, Default)]
pub(crate) struct WaitGraph {
    pub(crate) rows: Vec<GraphRow>,
    /// Number of processes that wait for something in particular, listed or not.
    pub(crate) total: u64,
    /// Number of cycles.
    pub(crate) cycles: u64,
    /// First wait of each process.
    by_waiter: HashMap<Pid, WaitTarget>,
}

impl WaitGraph {
    /// Returns what a process waited for when the waits were read.
    pub(crate) fn target(&self, pid: Pid) -> Option<&WaitTarget> {
        self.by_waiter.get(&pid)
    }
}

/// Reads the waits and remembers since when they are known.
#[derive(Debug, Default)]
pub(crate) struct WaitTracker {
    known: HashMap<(Pid, u64), Vec<KnownWait>>,
    newest: Arc<WaitGraph>,
    cycles: Vec<Cycle>,
    next: Duration,
}

impl WaitTracker {
    /// Returns the newest waits; reads them again if that is due.
    pub(crate) fn read(&mut self, runtime: &Handle, now: Duration) -> Arc<WaitGraph> {
        if now >= self.next {
            let before = thread_cpu();
            let mut found = Vec::new();
            let parts = 0..observe::table_parts(runtime);
            let total: u64 = parts.map(|part| observe::waits_of_part(runtime, part, WAITS_MAX, &mut found)).sum();
            let total = total + observe::waits_on_buffers(runtime, WAITS_MAX, &mut found);
            self.take(found, total, now);
            self.next = now + INTERVAL.max(thread_cpu_since(before).div_f64(SHARE));
        }
        Arc::clone(&self.newest)
    }

    fn take(&mut self, found: Vec<Wait>, total: u64, now: Duration) {
        let known = |wait: Wait| {
            // The number of polls is unchanged, so the process has waited all the time.
            let before = self.known.get(&(wait.waiter, wait.polls));
            let same = before.into_iter().flatten().find(|known| known.wait.target == wait.target);
            KnownWait { since: same.map_or(now, |known| known.since), wait }
        };
        let waits: Vec<KnownWait> = found.into_iter().map(known).collect();
        let (rows, cycles) = graph::build(&waits);
        let mut by_waiter = HashMap::with_capacity(waits.len());
        for known in &waits {
            by_waiter.entry(known.wait.waiter).or_insert_with(|| known.wait.target.clone());
        }
        self.newest = Arc::new(WaitGraph { rows, total, cycles: cycles.len() as u64, by_waiter });
        self.cycles = cycles;
        self.known.clear();
        for known in waits {
            self.known.entry((known.wait.waiter, known.wait.polls)).or_default().push(known);
        }
    }

    /// Returns a finding for each cycle that has existed for at least `after`.
    pub(super) fn cycles(&self, after: Duration, now: Duration) -> Vec<Finding> {
        let old = |cycle: &&Cycle| now.saturating_sub(cycle.since) >= after;
        self.cycles.iter().filter(old).take(CYCLES_MAX).map(|cycle| finding(cycle, now)).collect()
    }
}

fn finding(cycle: &Cycle, now: Duration) -> Finding {
    let age = now.saturating_sub(cycle.since);
    let mut names: Vec<String> = cycle.pids.iter().take(CYCLE_PIDS_SHOWN).map(ToString::to_string).collect();
    if cycle.pids.len() > CYCLE_PIDS_SHOWN {
        names.push(format!("{} more", cycle.pids.len() - CYCLE_PIDS_SHOWN));
    }
    names.push(cycle.pids[0].to_string());
    let text = format!("cycle of {} for {:.0} s: {}", cycle.pids.len(), age.as_secs_f64(), names.join(" > "));
    Finding { lint: Lint::WaitCycle, pid: cycle.pids[0], value: age.as_secs_f64() * 1e3, text, hold: HOLD }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn call(waiter: u32, callee: u32, polls: u64) -> Wait {
        let target = WaitTarget::Reply(Pid::local(callee, 1));
        Wait { waiter: Pid::local(waiter, 1), target, polls, may_continue: false }
    }

    #[test]
    fn a_wait_keeps_its_time_until_the_process_has_been_polled() {
        let mut tracker = WaitTracker::default();
        let mut since = |polls, at: u32| {
            tracker.take(vec![call(1, 2, polls)], 1, at * SECOND);
            tracker.newest.rows[1].since
        };

        assert_eq!([since(7, 1), since(7, 2), since(8, 3), since(8, 9)], [1, 1, 3, 3].map(|at| Some(at * SECOND)));
    }

    #[test]
    fn a_cycle_is_reported_once_it_is_old_enough_and_a_short_one_is_not() {
        let mut tracker = WaitTracker::default();
        let mut texts = |polls, at: u32| {
            tracker.take(vec![call(1, 2, 5), call(2, 3, polls), call(3, 1, 5)], 3, at * SECOND);
            let found = tracker.cycles(SECOND, at * SECOND);
            found.into_iter().map(|found| found.text).collect::<Vec<_>>()
        };

        assert_eq!(texts(1, 1), [""; 0]);
        assert_eq!(texts(2, 2), [""; 0], "one of them has been polled in between");
        assert_eq!(texts(2, 4), ["cycle of 3 for 2 s: <0.1.1> > <0.2.1> > <0.3.1> > <0.1.1>"]);
    }

    #[test]
    fn what_a_process_waits_for_is_found_by_its_pid() {
        let mut tracker = WaitTracker::default();
        tracker.take(vec![call(1, 2, 5)], 1, SECOND);

        assert_eq!(tracker.newest.target(Pid::local(1, 1)), Some(&WaitTarget::Reply(Pid::local(2, 1))));
        assert_eq!(tracker.newest.target(Pid::local(2, 1)), None);
    }
}
