//! Processes that may wait for ever; the watchdog logs them.
//!
//! ```text
//!   selective receive parks beside messages ─▶ noted ─▶ next check ─▶ the one after it
//!   nothing was received in between, or in three notes the oldest message is the same: one line, once for a process
//!
//!   wait for a start, or for room in its own mailbox ─▶ noted in place of its earlier one ─▶ checks
//!   nothing was received in between: one line
//!
//!   start from outside ─▶ the new process is noted ─▶ checks: one line, if it has not acknowledged
//! ```
//!
//! A selective receive is noted at most once between two checks, so it pays next to nothing. Waits for replies are not
//! noted: requests may wait until a server has asked others.

use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::process::header::{WAIT_CALL, WAIT_RECEIVE, WAIT_SEND, WAIT_SLEEP};
use crate::process::pid::Pid;

/// Time between two checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Mark of a process that has its line.
pub(crate) const LOGGED: u16 = u16::MAX;
/// Maximum number of processes that are noted between two checks.
const NOTED_MAX: usize = 256;
/// Number of checks that a message must be the oldest one, before and after them, until its receiver is logged although it
/// receives others.
const CHECKS_MIN: u32 = 2;
/// Number of checks after which a wait for a start is logged, if the mailbox is empty: a start may take its time.
const START_CHECKS: u32 = 4;

/// Object of a wait.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    /// A message of the type with this name.
    Type(fn() -> &'static str),
    /// A message that a function accepts.
    Match,
    /// The start of a process.
    Start(Pid),
    /// Room in its own mailbox.
    Room,
    /// Its own acknowledgement to a thread that has started it from outside.
    Acknowledgement,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(name) => write!(f, "messages of type {}", name()),
            Self::Match => f.write_str("messages that it selects"),
            Self::Start(pid) => write!(f, "the start of {pid}"),
            Self::Room => f.write_str("room in its own mailbox"),
            Self::Acknowledgement => f.write_str("something in its start, which it has not acknowledged for seconds"),
        }
    }
}

/// A process that waits.
pub(crate) struct Wait {
    pub(crate) pid: Pid,
    /// Number of messages that it had received.
    pub(crate) received: u64,
    /// Number at the first note with this oldest message.
    pub(crate) received_before: u64,
    /// Number of these that were the oldest one. If it is the same at two looks, so is the oldest message.
    pub(crate) oldest_number: u32,
    pub(crate) wanted: Wanted,
    /// Type of the oldest message in its mailbox, if that is known.
    pub(crate) oldest: Option<&'static str>,
    /// Number of checks that the oldest message has stayed, from note to note. Without messages, number of checks since the
    /// note.
    pub(crate) checks: u32,
}

impl Wait {
    /// Returns true if the oldest message has stayed at enough checks, whether others were received or not.
    pub(crate) const fn is_left(&self) -> bool {
        self.checks >= CHECKS_MIN && self.is_receive()
    }

    /// Returns true for a selective receive.
    pub(crate) const fn is_receive(&self) -> bool {
        matches!(self.wanted, Wanted::Type(_) | Wanted::Match)
    }

    /// Returns true for a start that may still take its time.
    const fn is_early(&self) -> bool {
        let is_start = matches!(self.wanted, Wanted::Start(_) | Wanted::Acknowledgement);
        is_start && self.oldest.is_none() && self.checks < START_CHECKS
    }

    /// Returns true for a wait that ends before the process begins another one.
    const fn is_single(&self) -> bool {
        matches!(self.wanted, Wanted::Start(_) | Wanted::Room)
    }

    /// Returns true if the process needs its line: after the note it received nothing and waits still, or the oldest message
    /// is left. `received` and `waits` are the counter and the wait of its header.
    pub(crate) const fn is_due(&self, received: u64, waits: u8) -> bool {
        let waits = match self.wanted {
            Wanted::Type(_) | Wanted::Match => waits & WAIT_RECEIVE != 0,
            Wanted::Start(_) => waits & WAIT_CALL != 0,
            // After a send that was given up, the process sleeps or receives.
            Wanted::Room => waits & (WAIT_SEND | WAIT_SLEEP | WAIT_RECEIVE) == WAIT_SEND,
            // It is forgotten when the start ends, whatever the process has received until then.
            Wanted::Acknowledgement => return true,
        };
        self.is_left() || received == self.received && waits
    }
}

/// Processes of a runtime that may wait for ever.
#[derive(Default)]
pub(crate) struct Unreceived {
    /// Number of checks, modulo the numbers that mark no process.
    checks: AtomicU16,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// Since the last check.
    new: Vec<Wait>,
    /// Before the last check.
    old: Vec<Wait>,
}

impl Noted {
    fn add(&mut self, wait: Wait) {
        if self.new.len() < NOTED_MAX {
            self.new.push(wait);
        }
    }
}

impl Unreceived {
    /// Notes a process that has been started from outside, until [`forget_acknowledgement`](Self::forget_acknowledgement).
    pub(crate) fn note_start(&self, pid: Pid) {
        let (received, wanted) = (0, Wanted::Acknowledgement);
        let wait = Wait { pid, received, received_before: received, oldest_number: 0, wanted, oldest: None, checks: 0 };
        self.noted.lock().add(wait);
    }

    /// Notes a wait for a start or for room, in place of an earlier one of the process since the last check.
    pub(crate) fn note_wait(&self, wait: Wait) {
        let mut noted = self.noted.lock();
        if let Some(earlier) = noted.new.iter_mut().find(|noted| noted.pid == wait.pid && noted.is_single()) {
            *earlier = wait;
        } else {
            noted.add(wait);
        }
    }

    /// Forgets the wait of a process for a start, which it has given up.
    pub(crate) fn forget_start(&self, pid: Pid) {
        self.forget(pid, |wanted| matches!(wanted, Wanted::Start(_)));
    }

    /// Forgets a process that has acknowledged its start, or that is no longer waited for.
    pub(crate) fn forget_acknowledgement(&self, pid: Pid) {
        self.forget(pid, |wanted| matches!(wanted, Wanted::Acknowledgement));
    }

    fn forget(&self, pid: Pid, is_over: impl Fn(&Wanted) -> bool) {
        let mut noted = self.noted.lock();
        let is_other = |wait: &Wait| wait.pid != pid || !is_over(&wait.wanted);
        noted.new.retain(is_other);
        noted.old.retain(is_other);
    }

    /// Notes a process, unless it was noted since the last check or has its line.
    pub(crate) fn note(&self, noted_at: &AtomicU16, wait: impl FnOnce() -> Wait) {
        let check = self.checks.load(Ordering::Relaxed) + 1;
        let before = noted_at.load(Ordering::Relaxed);
        if before == LOGGED || before == check {
            return;
        }
        noted_at.store(check, Ordering::Relaxed);
        let mut noted = self.noted.lock();
        if noted.new.len() >= NOTED_MAX {
            return;
        }
        let mut wait = wait();
        let is_same = |old: &&Wait| old.pid == wait.pid && old.oldest_number == wait.oldest_number && old.is_receive();
        if let Some(old) = noted.old.iter().find(is_same) {
            (wait.checks, wait.received_before) = (old.checks + 1, old.received_before);
        }
        noted.new.push(wait);
    }

    /// Begins the next check: returns the processes that were noted before the last one, and those with a message that
    /// [is left](Wait::is_left).
    pub(crate) fn check(&self) -> Vec<Wait> {
        let checks = self.checks.load(Ordering::Relaxed) + 1;
        self.checks.store(checks % (LOGGED - 1), Ordering::Relaxed);
        let mut noted = self.noted.lock();
        let (left, new) = std::mem::take(&mut noted.new).into_iter().partition::<Vec<_>, _>(Wait::is_left);
        let old = std::mem::replace(&mut noted.old, new);
        let (early, mut waits) = old.into_iter().partition::<Vec<_>, _>(Wait::is_early);
        noted.old.extend(early.into_iter().map(|wait| Wait { checks: wait.checks + 1, ..wait }));
        waits.extend(left);
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait() -> Wait {
        let (received, received_before) = (0, 0);
        Wait {
            pid: Pid::NONE,
            received,
            received_before,
            oldest_number: 0,
            wanted: Wanted::Match,
            oldest: Some(""),
            checks: 0,
        }
    }

    #[test]
    fn a_process_is_noted_once_between_two_checks_and_returned_by_the_second_one() {
        let (unreceived, noted_at) = (Unreceived::default(), AtomicU16::new(0));
        let note = || unreceived.note(&noted_at, wait);

        note();
        note();
        assert_eq!(unreceived.check().len(), 0);
        note();
        assert_eq!((unreceived.check().len(), unreceived.check().len()), (1, 1));
        assert_eq!(unreceived.check().len(), 0);

        noted_at.store(LOGGED, Ordering::Relaxed);
        note();
        for _ in 0..2 * usize::from(LOGGED) {
            assert_eq!(unreceived.check().len(), 0);
        }
        (0..2 * NOTED_MAX).for_each(|_| unreceived.note(&AtomicU16::new(0), wait));
        unreceived.check();
        assert_eq!(unreceived.check().len(), NOTED_MAX);
    }

    #[test]
    fn a_process_that_waits_for_something_else_by_now_needs_no_line() {
        let receives = Wait { received: 3, ..wait() };
        let starts = Wait { wanted: Wanted::Start(Pid::NONE), ..receives };
        let sends = Wait { wanted: Wanted::Room, ..receives };

        let waits = [WAIT_RECEIVE, WAIT_CALL, WAIT_SEND, 0];
        assert_eq!(waits.map(|waits| receives.is_due(3, waits)), [true, false, false, false]);
        assert_eq!(waits.map(|waits| starts.is_due(3, waits)), [false, true, false, false]);
        assert_eq!(waits.map(|waits| sends.is_due(3, waits)), [false, false, true, false]);
        assert!(!receives.is_due(4, WAIT_RECEIVE));
        assert!(Wait { checks: CHECKS_MIN, ..receives }.is_due(4, 0));
    }

    #[test]
    fn a_wait_for_a_start_without_messages_is_returned_after_more_checks() {
        let unreceived = Unreceived::default();
        let start = || Wait { wanted: Wanted::Start(Pid::NONE), oldest: None, ..wait() };
        unreceived.note_wait(start());
        unreceived.forget_start(Pid::NONE);
        assert_eq!((0..12).map(|_| unreceived.check().len()).sum::<usize>(), 0);
        // A later wait of the process takes the place of an earlier one, but not of a receive.
        unreceived.note(&AtomicU16::new(0), wait);
        unreceived.note_wait(start());
        unreceived.note_wait(Wait { received: 7, ..start() });
        assert_eq!(unreceived.check().len(), 0);
        assert_eq!(unreceived.check().len(), 1, "the receive");

        let returned = (0..12).map(|_| unreceived.check().len()).collect::<Vec<_>>();

        assert_eq!(returned.iter().position(|count| *count > 0), Some(START_CHECKS as usize - 1));
        assert_eq!(returned.iter().sum::<usize>(), 1);
    }

    #[test]
    fn a_start_from_outside_is_noted_beside_the_waits_of_its_process() {
        let unreceived = Unreceived::default();
        let start = || Wait { wanted: Wanted::Start(Pid::NONE), oldest: None, ..wait() };
        unreceived.note_wait(start());
        unreceived.note_start(Pid::NONE);
        unreceived.note_wait(start());
        unreceived.forget_start(Pid::NONE);
        let mut returned = (0..12).flat_map(|_| unreceived.check());
        assert!(returned.next().is_some_and(|wait| wait.is_due(7, 0)));
        assert!(returned.next().is_none());

        unreceived.note_start(Pid::NONE);
        unreceived.forget_acknowledgement(Pid::NONE);
        assert_eq!((0..12).flat_map(|_| unreceived.check()).count(), 0);
    }

    #[test]
    fn an_oldest_message_that_stays_at_three_notes_is_returned_as_left() {
        let (unreceived, noted_at) = (Unreceived::default(), AtomicU16::new(0));
        let check = |oldest_number, received| {
            unreceived.note(&noted_at, || Wait { received, received_before: received, oldest_number, ..wait() });
            let left = unreceived.check().into_iter().filter(Wait::is_left);
            left.map(|wait| (wait.received_before, wait.received)).collect::<Vec<_>>()
        };

        assert_eq!([check(1, 1), check(2, 2), check(2, 3)], [[], [], []]);
        assert_eq!(check(2, 4), [(2, 4)]);
        // Without a line, the process is noted from the start.
        assert_eq!([check(2, 5), check(2, 6)], [[], []]);
        assert_eq!(check(2, 7), [(5, 7)]);
    }
}
