//! Processes that wait for a type while their mailbox has only messages of other types; the watchdog logs them.
//!
//! ```text
//!   receive of a type parks beside messages ─▶ noted ─▶ next check of the watchdog ─▶ the one after it
//!   nothing was received in between: one line, once for a process
//! ```
//!
//! A process is noted at most once between two checks, so a selective receive pays next to nothing.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::process::pid::Pid;

/// Time between two checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Mark of a process that has its line.
pub(crate) const LOGGED: u16 = u16::MAX;
/// Maximum number of processes that are noted between two checks.
const NOTED_MAX: usize = 256;

/// A process that waits.
pub(crate) struct Wait {
    pub(crate) pid: Pid,
    /// Number of messages that it had received.
    pub(crate) received: u64,
    pub(crate) wanted: fn() -> &'static str,
    /// Type of the oldest message in its mailbox.
    pub(crate) oldest: &'static str,
}

/// Processes of a runtime that wait beside messages of other types.
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

impl Unreceived {
    /// Notes a process, unless it was noted since the last check or has its line.
    pub(crate) fn note(&self, noted_at: &AtomicU16, wait: impl FnOnce() -> Wait) {
        let check = self.checks.load(Ordering::Relaxed) + 1;
        let before = noted_at.load(Ordering::Relaxed);
        if before == LOGGED || before == check {
            return;
        }
        noted_at.store(check, Ordering::Relaxed);
        let mut noted = self.noted.lock();
        if noted.new.len() < NOTED_MAX {
            noted.new.push(wait());
        }
    }

    /// Begins the next check: returns the processes that were noted before the last one.
    pub(crate) fn check(&self) -> Vec<Wait> {
        let checks = self.checks.load(Ordering::Relaxed) + 1;
        self.checks.store(checks % (LOGGED - 1), Ordering::Relaxed);
        let mut noted = self.noted.lock();
        let new = std::mem::take(&mut noted.new);
        std::mem::replace(&mut noted.old, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait() -> Wait {
        Wait { pid: Pid::NONE, received: 0, wanted: std::any::type_name::<u8>, oldest: "" }
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

        noted_at.store(LOGGED, Ordering::Relaxed);
        note();
        for _ in 0..2 * usize::from(LOGGED) {
            assert_eq!(unreceived.check().len(), 0);
        }
        (0..2 * NOTED_MAX).for_each(|_| unreceived.note(&AtomicU16::new(0), wait));
        unreceived.check();
        assert_eq!(unreceived.check().len(), NOTED_MAX);
    }
}
