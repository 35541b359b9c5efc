//! `never_yields`: a process that is always ready to run and has long polls.
//!
//! Candidates are the processes found inside a poll at a tick, at most one for each scheduler: a process that
//! monopolises a scheduler is found sooner or later. Each later tick checks every candidate, and drops it if it waits
//! for anything. A candidate gets the lint if it was never seen waiting in two windows in a row and its polls used 10
//! ms or more of CPU time on average. A process that yields often is not reported however busy it is, nor is one with long polls
//! that waits between them. Two such processes on one scheduler are both reported, though neither has it for itself. A
//! poll that does not end is `stuck` instead.

use std::time::Duration;

use rusm_protocol::Lint;

use super::finding::{Finding, HOLD};
use rusm_runtime::Pid;

/// Minimum length of a window.
const WINDOW: Duration = Duration::from_secs(1);
/// Minimum number of checks in a window.
const CHECKS_MIN: u32 = 8;
/// Number of windows in a row that raise the lint.
const WINDOWS: u32 = 2;
/// Maximum number of candidates; there are at most 64 schedulers.
const CANDIDATES_MAX: usize = 128;

/// One observation of a candidate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Observation {
    /// True if it is neither inside a poll nor in a run queue.
    pub(super) waits: bool,
    pub(super) busy_ns: u64,
    pub(super) polls: u64,
    /// Number of messages received.
    pub(super) messages: u64,
}

/// The candidates for `never_yields`.
#[derive(Debug)]
pub(super) struct NeverYields {
    candidates: Vec<Candidate>,
    /// Mean length from which polls count as long.
    long_poll: Duration,
}

#[derive(Debug)]
struct Candidate {
    pid: Pid,
    /// Start of the window.
    from: Duration,
    first: Observation,
    checks: u32,
    /// Number of windows in a row in which it was a hog.
    windows: u32,
}

impl NeverYields {
    pub(super) fn new(long_poll: Duration) -> Self {
        Self { candidates: Vec::new(), long_poll }
    }

    /// Checks the candidates. `polled` are the processes inside a poll now; `see` observes one, or returns `None` if it
    /// has ended.
    pub(super) fn check(
        &mut self,
        polled: &[Pid],
        see: impl Fn(Pid) -> Option<Observation>,
        now: Duration,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        let long_poll = self.long_poll;
        self.candidates.retain_mut(|candidate| match see(candidate.pid) {
            Some(observation) if !observation.waits => candidate.judge(observation, long_poll, now, &mut found),
            _ => false,
        });
        for pid in polled {
            let known = self.candidates.iter().any(|candidate| candidate.pid == *pid);
            if let Some(first) = see(*pid).filter(|_| !known && self.candidates.len() < CANDIDATES_MAX) {
                self.candidates.push(Candidate { pid: *pid, from: now, first, checks: 0, windows: 0 });
            }
        }
        found
    }
}

impl Candidate {
    /// Updates the candidate; returns true if it stays one.
    fn judge(
        &mut self,
        observation: Observation,
        long_poll: Duration,
        now: Duration,
        found: &mut Vec<Finding>,
    ) -> bool {
        self.checks += 1;
        let span = now.saturating_sub(self.from);
        if span < WINDOW || self.checks < CHECKS_MIN {
            return true;
        }
        let busy_ns = observation.busy_ns.saturating_sub(self.first.busy_ns);
        let polls = observation.polls.saturating_sub(self.first.polls);
        let mean_ns = busy_ns.checked_div(polls).unwrap_or(0);
        if u128::from(mean_ns) < long_poll.as_nanos() {
            return false;
        }
        self.windows += 1;
        if self.windows >= WINDOWS {
            let busy_pct = (busy_ns as f64 / span.as_nanos() as f64 * 100.0).min(100.0);
            let text = format!("busy {busy_pct:.0} % of the time, in polls of {} ms on average", mean_ns / 1_000_000);
            found.push(Finding { lint: Lint::NeverYields, pid: self.pid, value: busy_pct, text, hold: HOLD });
        }
        (self.from, self.first, self.checks) = (now, observation, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_MS: u64 = 50;
    const HOG: u32 = 1;

    /// Returns the findings in `seconds` of ticks for processes that behave as `of` says: waits now, busy share, poll
    /// in ms.
    fn found(seconds: u64, of: impl Fn(u32, u64) -> (bool, f64, f64)) -> Vec<Finding> {
        let mut detector = NeverYields::new(Duration::from_millis(10));
        let mut found = Vec::new();
        for tick in 0..seconds * 1000 / TICK_MS {
            let now_ms = tick * TICK_MS;
            let see = |pid: Pid| {
                let (waits, share, poll_ms) = of(pid.slot(), tick);
                let busy_ms = now_ms as f64 * share;
                Some(Observation {
                    waits,
                    busy_ns: (busy_ms * 1e6) as u64,
                    polls: (busy_ms / poll_ms) as u64,
                    messages: 0,
                })
            };
            let polled = [1, 2, 3].map(|slot| Pid::local(slot, 1));
            found.extend(detector.check(&polled, see, Duration::from_millis(now_ms)));
        }
        found
    }

    #[test]
    fn a_process_with_long_polls_that_never_waits_is_found_and_its_neighbours_are_not() {
        let found = found(5, |slot, tick| match slot {
            HOG => (false, 0.99, 24.0),
            2 => (false, 0.99, 0.05),
            _ => (tick % 7 == 0, 0.86, 24.0),
        });

        assert_eq!(found.len(), 3, "after the second window, and after each further one: {found:?}");
        assert!(found.iter().all(|found| found.pid.slot() == HOG && found.lint == Lint::NeverYields));
        assert_eq!(found[0].text, "busy 99 % of the time, in polls of 24 ms on average");
    }

    #[test]
    fn one_window_is_not_enough_and_a_wait_begins_anew() {
        assert_eq!(found(2, |_, _| (false, 1.0, 20.0)), []);
        assert_eq!(found(60, |_, tick| (tick % 30 == 0, 1.0, 20.0)), []);
    }

    #[test]
    fn two_that_share_a_scheduler_are_both_found() {
        let found = found(3, |slot, _| if slot == 3 { (true, 0.0, 1.0) } else { (false, 0.5, 15.0) });

        assert_eq!(found.iter().map(|found| found.pid.slot()).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_process_without_polls_and_one_that_has_ended_are_no_hogs() {
        let mut detector = NeverYields::new(Duration::from_millis(10));
        let unchanged = |_| Some(Observation { busy_ns: 7, polls: 7, ..Observation::default() });

        for tick in 0..100 {
            let now = Duration::from_millis(tick * TICK_MS);
            assert_eq!(detector.check(&[Pid::local(1, 1)], unchanged, now), []);
        }
        detector.check(&[], |_| None, Duration::from_secs(9));
        assert!(detector.candidates.is_empty());
    }

    #[test]
    fn candidates_are_bounded() {
        let mut detector = NeverYields::new(Duration::from_millis(10));
        let many: Vec<Pid> = (1..=100_000).map(|slot| Pid::local(slot, 1)).collect();

        detector.check(&many, |_| Some(Observation::default()), Duration::ZERO);

        assert_eq!(detector.candidates.len(), CANDIDATES_MAX);
    }
}
