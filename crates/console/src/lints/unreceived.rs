//! `unreceived`: a process waits for a message while others wait in its mailbox, because it receives none of their types.
//!
//! The census visits every process anyway. A process that waits for a message at each look, with messages in its mailbox,
//! and that has received none since the first look, raises the lint after a while.

use std::collections::HashMap;
use std::time::Duration;

use rusm_protocol::Lint;
use rusm_runtime::Pid;
use rusm_runtime::observe::{ProcessRef, ProcessState};
use rusm_text::grouped;

use super::finding::{FOUND_MAX, Finding, HOLD, KEPT};

/// A process at one look.
#[derive(Clone, Copy, Debug)]
struct Look {
    generation: u32,
    /// Number of messages received.
    messages: u64,
    /// Number of messages in the mailbox.
    len: u64,
}

#[derive(Debug)]
struct Kept {
    look: Look,
    census: u64,
    /// End of the census in which it was first seen like this.
    since: Option<Duration>,
}

/// The processes of earlier censuses that wait beside messages.
#[derive(Debug)]
pub(super) struct Unreceived {
    after: Duration,
    kept: HashMap<u32, Kept>,
    census: u64,
    /// Time at which the last census ended.
    ended: Duration,
}

impl Unreceived {
    pub(super) fn new(after: Duration) -> Self {
        Self { after, kept: HashMap::new(), census: 0, ended: Duration::ZERO }
    }

    /// Records a process that the census visits.
    #[inline]
    pub(super) fn meet(&mut self, seen: &ProcessRef<'_>) {
        let len = seen.mailbox_len();
        if len > 0 && seen.state() == ProcessState::Waiting && !seen.waits_to_send() {
            self.look(seen.slot(), Look { generation: seen.generation(), messages: seen.messages(), len });
        }
    }

    #[inline(never)]
    fn look(&mut self, slot: u32, look: Look) {
        let has_room = self.kept.len() < KEPT;
        let census = self.census;
        match self.kept.get_mut(&slot) {
            Some(kept) if (kept.look.generation, kept.look.messages) == (look.generation, look.messages) => {
                (kept.look, kept.census) = (look, census);
            }
            Some(kept) => *kept = Kept { look, census, since: None },
            None if has_room => {
                self.kept.insert(slot, Kept { look, census, since: None });
            }
            None => {}
        }
    }

    /// Ends a census in which all processes were visited; returns its findings.
    pub(super) fn end_census(&mut self, now: Duration) -> Vec<Finding> {
        let window = now.saturating_sub(std::mem::replace(&mut self.ended, now));
        let census = self.census;
        self.census += 1;
        self.kept.retain(|_, kept| kept.census == census);
        let mut found = Vec::new();
        for (slot, kept) in &mut self.kept {
            let age = now.saturating_sub(*kept.since.get_or_insert(now));
            if age >= self.after && found.len() < FOUND_MAX {
                found.push(finding(Pid::local(*slot, kept.look.generation), kept.look.len, age, window));
            }
        }
        found
    }
}

fn finding(pid: Pid, len: u64, age: Duration, window: Duration) -> Finding {
    let plural = if len == 1 { "" } else { "s" };
    let (len_text, seconds) = (grouped(len), age.as_secs_f64());
    let text = format!("waits beside {len_text} message{plural} that it does not receive, for {seconds:.0} s");
    // On a large node, censuses are rare.
    Finding { lint: Lint::Unreceived, pid, value: len as f64, text, hold: HOLD.max(window * 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a census each second, in which the process is seen with these (messages received, messages waiting).
    fn found(looks: &[Option<(u64, u64)>]) -> Vec<Option<String>> {
        let mut unreceived = Unreceived::new(Duration::from_secs(2));
        let mut at = Duration::ZERO;
        let census = |look: &Option<(u64, u64)>| {
            at += Duration::from_secs(1);
            if let Some((messages, len)) = *look {
                unreceived.look(7, Look { generation: 1, messages, len });
            }
            let mut found = unreceived.end_census(at);
            found.pop().map(|finding| finding.text)
        };
        looks.iter().map(census).collect()
    }

    #[test]
    fn a_process_that_receives_nothing_beside_its_messages_is_found_after_a_while() {
        let texts = found(&[Some((5, 1)), Some((5, 1)), Some((5, 1)), Some((5, 3)), None, Some((5, 3))]);

        assert_eq!(texts[..2], [None, None]);
        assert_eq!(texts[2].as_deref(), Some("waits beside 1 message that it does not receive, for 2 s"));
        assert_eq!(texts[3].as_deref(), Some("waits beside 3 messages that it does not receive, for 3 s"));
        assert_eq!(texts[4..], [None, None]);
    }

    #[test]
    fn a_process_that_goes_on_to_receive_is_not_found() {
        assert_eq!(found(&[1, 2, 3, 4, 5, 6].map(|messages| Some((messages, 9)))), [const { None }; 6]);
    }

    #[test]
    fn the_number_of_remembered_processes_is_bounded() {
        let mut unreceived = Unreceived::new(Duration::ZERO);
        for slot in 0..10_000 {
            unreceived.look(slot, Look { generation: 1, messages: 0, len: 1 });
        }

        assert_eq!(unreceived.kept.len(), KEPT);
        assert_eq!(unreceived.end_census(Duration::from_secs(1)).len(), FOUND_MAX);
        unreceived.end_census(Duration::from_secs(2));
        assert!(unreceived.kept.is_empty());
    }
}
