//! `stuck`: a poll takes longer than the node's threshold. The watchdog finds such polls; this module times them.

use std::collections::HashMap;
use std::time::Duration;

use rusm_protocol::Lint;

use super::finding::{Finding, HOLD};
use rusm_runtime::Pid;

/// Time since which each process is stuck.
#[derive(Debug, Default)]
pub(super) struct StuckPolls(HashMap<Pid, Duration>);

impl StuckPolls {
    /// Times the polls. `stuck` are the processes inside such a poll, at most as many as there are schedulers.
    pub(super) fn check(&mut self, stuck: &[Pid], threshold: Duration, now: Duration) -> Vec<Finding> {
        self.0.retain(|pid, _| stuck.contains(pid));
        let finding = |&pid: &Pid| {
            let since = *self.0.entry(pid).or_insert(now);
            let so_far = (now.saturating_sub(since) + threshold).as_secs_f64();
            let text = format!("in one poll for {so_far:.1} s");
            Finding { lint: Lint::Stuck, pid, value: so_far * 1e3, text, hold: HOLD }
        };
        stuck.iter().map(finding).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_is_timed_from_its_threshold_on_and_the_next_one_anew() {
        let mut polls = StuckPolls::default();
        let (pid, threshold) = (Pid::local(7, 1), Duration::from_millis(200));
        let mut text = |stuck: &[Pid], at_ms| {
            let found = polls.check(stuck, threshold, Duration::from_millis(at_ms));
            found.first().map(|found| found.text.clone())
        };

        assert_eq!(text(&[pid], 1_000).as_deref(), Some("in one poll for 0.2 s"));
        assert_eq!(text(&[pid], 4_000).as_deref(), Some("in one poll for 3.2 s"));
        assert_eq!(text(&[], 5_000), None);
        assert_eq!(text(&[pid], 6_000).as_deref(), Some("in one poll for 0.2 s"));
    }
}
