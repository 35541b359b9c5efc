//! The board of active warnings: raised by the first finding, held for a while after the last, cleared with the
//! process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rusm_protocol::Lint;

use super::finding::Finding;
use rusm_runtime::Pid;

/// Maximum number of active warnings of one lint; further ones are not raised.
const EACH_MAX: usize = 64;

/// An active warning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Warning {
    pub(crate) lint: Lint,
    pub(crate) pid: Pid,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) value: f64,
    pub(crate) text: String,
    /// Time at which it was raised.
    pub(crate) since: Duration,
    /// Time at which it is cleared, unless it is found again.
    until: Duration,
}

/// The active warnings.
#[derive(Debug, Default)]
pub(super) struct ActiveWarnings(BTreeMap<(Lint, Pid), Warning>);

impl ActiveWarnings {
    /// Raises a warning, or extends an active one.
    pub(super) fn raise(&mut self, found: Finding, now: Duration, name: impl FnOnce() -> Option<Arc<str>>) {
        let Finding { lint, pid, value, text, hold } = found;
        let until = now + hold;
        if let Some(known) = self.0.get_mut(&(lint, pid)) {
            known.value = value;
            known.text = text;
            known.until = until;
        } else if self.0.keys().filter(|(other, _)| *other == lint).count() < EACH_MAX {
            self.0.insert((lint, pid), Warning { lint, pid, name: name(), value, text, since: now, until });
        }
    }

    /// Clears warnings that were not found again in time, and those about processes that have ended.
    pub(super) fn sweep(&mut self, now: Duration, lives: impl Fn(Pid) -> bool) {
        self.0.retain(|(_, pid), warning| now < warning.until && (*pid == Pid::NONE || lives(*pid)));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the first `most` warnings by urgency, and within one lint the oldest first.
    pub(super) fn most_urgent(&self, most: usize) -> Vec<Warning> {
        let mut all: Vec<&Warning> = self.0.values().collect();
        all.sort_by_key(|warning| (warning.lint, warning.since, warning.pid));
        all.into_iter().take(most).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn finding(lint: Lint, slot: u32) -> Finding {
        Finding { lint, pid: Pid::local(slot, 1), value: 1.0, text: "so it is".to_owned(), hold: 5 * SECOND }
    }

    #[test]
    fn a_warning_stands_from_its_first_finding_until_a_while_after_the_last() {
        let mut active = ActiveWarnings::default();

        active.raise(finding(Lint::Stuck, 1), SECOND, || Some("kv".into()));
        active.raise(finding(Lint::Stuck, 1), 4 * SECOND, || unreachable!("its name is known"));
        active.sweep(8 * SECOND, |_| true);
        let [warning] = active.most_urgent(9).try_into().unwrap();
        active.sweep(9 * SECOND, |_| true);

        assert_eq!((warning.since, warning.name.as_deref()), (SECOND, Some("kv")));
        assert_eq!(active.len(), 0);
    }

    #[test]
    fn warnings_end_with_their_process_and_those_of_the_node_do_not() {
        let mut active = ActiveWarnings::default();
        for slot in 0..3 {
            active.raise(finding(Lint::MailboxGrowing, slot), SECOND, || None);
        }
        active.raise(Finding { pid: Pid::NONE, ..finding(Lint::RestartStorm, 0) }, SECOND, || None);

        active.sweep(SECOND, |pid| pid.slot() == 2);

        let left: Vec<_> = active.most_urgent(9).into_iter().map(|warning| warning.pid).collect();
        assert_eq!(left, [Pid::NONE, Pid::local(2, 1)]);
    }

    #[test]
    fn a_hundred_thousand_warnings_of_one_kind_hide_none_of_another() {
        let mut active = ActiveWarnings::default();
        for slot in 1..=100_000 {
            active.raise(finding(Lint::MailboxGrowing, slot), SECOND, || None);
        }
        active.raise(finding(Lint::Stuck, 7), 2 * SECOND, || None);

        assert_eq!(active.len(), EACH_MAX + 1);
        let shown = active.most_urgent(16);
        assert_eq!(shown.len(), 16);
        assert_eq!((shown[0].lint, shown[1].pid), (Lint::Stuck, Pid::local(1, 1)));
    }
}
