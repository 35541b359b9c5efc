//! `idle_scheduler`: a scheduler sleeps while processes wait to run on another one.
//!
//! A scheduler that is woken at all meanwhile is not asleep, so the check compares its count of wake-ups. Processes
//! that are pinned to a busy scheduler are the usual cause; the finding names their number.

use std::time::Duration;

use rusm_protocol::Lint;
use rusm_text::grouped;

use super::finding::{Finding, HOLD};
use rusm_runtime::Pid;
use rusm_runtime::observe::SchedulerQueue;

/// Minimum number of processes that wait on one scheduler.
const WAITING_MIN: u64 = 2;

/// Time since which each scheduler has slept while another had work.
#[derive(Debug)]
pub(super) struct IdleSchedulers {
    after: Duration,
    /// Start of the sleep beside work, and number of wake-ups then.
    since: Vec<Option<(Duration, u64)>>,
}

impl IdleSchedulers {
    pub(super) fn new(after: Duration) -> Self {
        Self { after, since: Vec::new() }
    }

    /// Checks all schedulers.
    pub(super) fn check(&mut self, queues: &[SchedulerQueue], now: Duration) -> Option<Finding> {
        self.since.resize(queues.len(), None);
        let (busiest, queue) = queues.iter().enumerate().max_by_key(|(_, queue)| queue.waiting)?;
        let mut longest: Option<(usize, Duration)> = None;
        for (at, (known, seen)) in self.since.iter_mut().zip(queues).enumerate() {
            if !seen.is_asleep || queue.waiting < WAITING_MIN {
                *known = None;
                continue;
            }
            let (since, wakes) = *known.get_or_insert((now, seen.wakes));
            if wakes != seen.wakes {
                *known = Some((now, seen.wakes));
                continue;
            }
            let slept = now.saturating_sub(since);
            if longest.is_none_or(|(_, longest)| slept > longest) {
                longest = Some((at, slept));
            }
        }
        let (idle, slept) = longest.filter(|(_, slept)| *slept >= self.after)?;
        let text = format!(
            "scheduler {idle} has slept for {:.1} s while {} processes wait on scheduler {busiest}, {} of them pinned",
            slept.as_secs_f64(),
            grouped(queue.waiting),
            grouped(queue.pinned)
        );
        let value = slept.as_secs_f64() * 1e3;
        Some(Finding { lint: Lint::IdleScheduler, pid: Pid::NONE, value, text, hold: HOLD })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn asleep(wakes: u64) -> SchedulerQueue {
        SchedulerQueue { waiting: 0, pinned: 0, is_asleep: true, wakes }
    }

    fn busy(waiting: u64, pinned: u64) -> SchedulerQueue {
        SchedulerQueue { waiting, pinned, is_asleep: false, wakes: 0 }
    }

    fn texts(of: impl Fn(u32) -> [SchedulerQueue; 2]) -> Vec<String> {
        let mut idle = IdleSchedulers::new(1_000 * MS);
        (0..60).filter_map(|tick| idle.check(&of(tick), tick * 50 * MS)).map(|found| found.text).collect()
    }

    #[test]
    fn a_scheduler_that_sleeps_beside_work_is_found_after_a_second() {
        let found = texts(|_| [busy(46, 40), asleep(7)]);

        assert_eq!(found.len(), 40);
        assert_eq!(
            found[0],
            "scheduler 1 has slept for 1.0 s while 46 processes wait on scheduler 0, 40 of them pinned"
        );
    }

    #[test]
    fn short_sleeps_wake_ups_and_empty_queues_are_healthy() {
        assert_eq!(texts(|tick| [busy(46, 0), asleep(tick.into())]), [""; 0], "it wakes again and again");
        assert_eq!(texts(|_| [busy(1, 0), asleep(7)]), [""; 0], "one process was just queued");
        assert_eq!(texts(|tick| [busy(if tick % 10 == 0 { 0 } else { 9 }, 0), asleep(7)]), [""; 0]);
        assert_eq!(texts(|_| [busy(9, 0), busy(9, 0)]), [""; 0]);
    }
}
