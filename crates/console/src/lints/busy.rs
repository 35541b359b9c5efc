//! `busy_loop` and `hog`: processes that use a scheduler without long polls.
//!
//! Candidates are the processes found inside a poll at a tick, as for `never_yields`. A candidate is compared once a
//! second. `busy_loop` needs windows in a row in which it was ready at every check and received no message. `hog` needs
//! three windows in a row in which it used most of a scheduler while other processes were ready at most of the checks.
//! A process with long polls is `never_yields` instead of either.

use std::time::Duration;

use rusm_protocol::Lint;
use rusm_text::grouped;

use super::finding::{Finding, HOLD};
use super::never_yields::Observation;
use super::thresholds::LintThresholds;
use rusm_runtime::Pid;

/// Minimum length of a window.
const WINDOW: Duration = Duration::from_secs(1);
/// Minimum number of checks in a window.
const CHECKS_MIN: u32 = 8;
/// Number of windows in a row that make a hog.
const HOG_WINDOWS: u32 = 3;
/// Share of a scheduler below which a process is no candidate any more, in per cent.
const CANDIDATE_PCT: f64 = 25.0;
/// Maximum number of candidates; there are at most 64 schedulers.
const CANDIDATES_MAX: usize = 128;

/// The candidates for `busy_loop` and `hog`.
#[derive(Debug)]
pub(super) struct BusyProcesses {
    candidates: Vec<Candidate>,
    thresholds: LintThresholds,
}

#[derive(Debug)]
struct Candidate {
    pid: Pid,
    /// Start of the window.
    from: Duration,
    first: Observation,
    checks: u32,
    /// Number of checks of the window at which it waited, and at which other processes were ready.
    waited: u32,
    crowded: u32,
    /// Number of windows in a row of each lint.
    loops: u32,
    hogs: u32,
}

impl Candidate {
    fn new(pid: Pid, first: Observation, from: Duration) -> Self {
        Self { pid, from, first, checks: 0, waited: 0, crowded: 0, loops: 0, hogs: 0 }
    }
}

impl BusyProcesses {
    pub(super) fn new(thresholds: LintThresholds) -> Self {
        Self { candidates: Vec::new(), thresholds }
    }

    /// Checks the candidates. `polled` are the processes inside a poll now; `see` observes one, or returns `None` if it
    /// has ended; `queued` is the number of processes in run queues.
    pub(super) fn check(
        &mut self,
        polled: &[Pid],
        see: impl Fn(Pid) -> Option<Observation>,
        queued: u64,
        now: Duration,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        let thresholds = self.thresholds;
        self.candidates.retain_mut(|candidate| {
            see(candidate.pid).is_some_and(|seen| candidate.judge(seen, queued, now, &thresholds, &mut found))
        });
        for pid in polled {
            let known = self.candidates.iter().any(|candidate| candidate.pid == *pid);
            if let Some(first) = see(*pid).filter(|_| !known && self.candidates.len() < CANDIDATES_MAX) {
                self.candidates.push(Candidate::new(*pid, first, now));
            }
        }
        found
    }
}

impl Candidate {
    /// Updates the candidate; returns true if it stays one.
    fn judge(
        &mut self,
        seen: Observation,
        queued: u64,
        now: Duration,
        thresholds: &LintThresholds,
        found: &mut Vec<Finding>,
    ) -> bool {
        self.checks += 1;
        self.waited += u32::from(seen.waits);
        self.crowded += u32::from(queued > 0);
        let span = now.saturating_sub(self.from);
        if span < WINDOW || self.checks < CHECKS_MIN {
            return true;
        }
        let busy_ns = seen.busy_ns.saturating_sub(self.first.busy_ns);
        let polls = seen.polls.saturating_sub(self.first.polls);
        let busy_pct = (busy_ns as f64 / span.as_nanos() as f64 * 100.0).min(100.0);
        let mean = Duration::from_nanos(busy_ns.checked_div(polls).unwrap_or(0));
        if busy_pct < CANDIDATE_PCT || polls == 0 || mean >= thresholds.never_yields_poll {
            return false;
        }
        let loops = self.waited == 0 && seen.messages == self.first.messages;
        self.loops = if loops { self.loops + 1 } else { 0 };
        let is_hog = busy_pct >= f64::from(thresholds.hog_pct) && self.crowded * 2 > self.checks;
        self.hogs = if is_hog { self.hogs + 1 } else { 0 };
        if WINDOW * self.loops >= thresholds.busy_loop_after {
            found.push(self.busy_loop(busy_pct, mean));
        } else if self.hogs >= HOG_WINDOWS {
            found.push(self.hog(busy_pct, queued));
        }
        *self = Self { loops: self.loops, hogs: self.hogs, ..Self::new(self.pid, seen, now) };
        true
    }

    fn busy_loop(&self, busy_pct: f64, mean: Duration) -> Finding {
        let text = format!(
            "ready for {} s without a pause, no message received, busy {busy_pct:.0} %, polls of {} us",
            self.loops,
            mean.as_micros()
        );
        Finding { lint: Lint::BusyLoop, pid: self.pid, value: busy_pct, text, hold: HOLD }
    }

    fn hog(&self, busy_pct: f64, queued: u64) -> Finding {
        let text = format!("uses {busy_pct:.0} % of a scheduler while {} others are ready", grouped(queued.max(1)));
        Finding { lint: Lint::Hog, pid: self.pid, value: busy_pct, text, hold: HOLD }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_MS: u64 = 50;

    /// A process as `of` describes it at a tick: waits now, busy share, poll in us, messages per second.
    type Behaviour = (bool, f64, f64, f64);

    fn found(seconds: u64, queued: u64, of: impl Fn(u32, u64) -> Behaviour) -> Vec<(u32, Lint)> {
        let mut detector = BusyProcesses::new(LintThresholds::default());
        let mut found = Vec::new();
        for tick in 0..seconds * 1000 / TICK_MS {
            let now_ms = tick * TICK_MS;
            let see = |pid: Pid| {
                let (waits, share, poll_us, messages) = of(pid.slot(), tick);
                let busy_us = now_ms as f64 * 1e3 * share;
                Some(Observation {
                    waits,
                    busy_ns: (busy_us * 1e3) as u64,
                    polls: (busy_us / poll_us) as u64,
                    messages: (now_ms as f64 * messages / 1e3) as u64,
                })
            };
            let polled = [1, 2, 3].map(|slot| Pid::local(slot, 1));
            let new = detector.check(&polled, see, queued, Duration::from_millis(now_ms));
            found.extend(new.iter().map(|found| (found.pid.slot(), found.lint)));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn a_process_that_polls_in_a_loop_is_found_and_a_busy_server_is_not() {
        let of = |slot, tick| match slot {
            1 => (false, 0.99, 20.0, 0.0),
            2 => (false, 0.99, 20.0, 50_000.0),
            _ => (tick % 9 == 0, 0.60, 20.0, 0.0),
        };

        assert_eq!(found(8, 0, of), [(1, Lint::BusyLoop)]);
        assert_eq!(found(4, 0, of), [], "five seconds have not passed");
    }

    #[test]
    fn a_hog_is_found_only_while_others_are_ready() {
        let of = |slot, tick| match slot {
            1 => (tick % 9 == 0, 0.97, 40.0, 9_000.0),
            2 => (tick % 9 == 0, 0.50, 40.0, 9_000.0),
            _ => (true, 0.01, 40.0, 9_000.0),
        };

        assert_eq!(found(6, 3, of), [(1, Lint::Hog)]);
        assert_eq!(found(6, 0, of), []);
        assert_eq!(found(2, 3, of), [], "three windows are needed");
    }

    #[test]
    fn long_polls_are_left_to_never_yields_and_candidates_are_bounded() {
        assert_eq!(found(9, 3, |_, _| (false, 0.99, 24_000.0, 0.0)), []);

        let mut detector = BusyProcesses::new(LintThresholds::default());
        let many: Vec<Pid> = (1..=100_000).map(|slot| Pid::local(slot, 1)).collect();
        detector.check(&many, |_| Some(Observation::default()), 0, Duration::ZERO);
        assert_eq!(detector.candidates.len(), CANDIDATES_MAX);
        detector.check(&[], |_| None, 0, Duration::from_secs(9));
        assert!(detector.candidates.is_empty());
    }
}
