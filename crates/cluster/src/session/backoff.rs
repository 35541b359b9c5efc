//! The wait before a new session with a peer that breaks the protocol, or restarts again and again.
//!
//! ```text
//!   fault ──▶ wait 250 ms ──▶ session ──▶ fault soon after ──▶ wait 500 ms … 30 s
//!                                └── calm for longer than that: the next fault is a first one
//! ```

use std::time::Duration;

use super::event::DownReason;

/// Wait after the first fault.
const FIRST: Duration = Duration::from_millis(250);
/// Maximum wait.
const MAX: Duration = Duration::from_secs(30);
/// Minimum duration of a session after which its end is not a repetition.
const CALM: Duration = Duration::from_secs(2);
/// Number of restarts and new sessions in quick succession that need no wait. An update of a node has two or three.
const FREE: u32 = 4;

/// Faults of a peer in quick succession.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    faults: u32,
    wait: Duration,
    until: Duration,
}

impl Backoff {
    /// Notes the end of a session, and how long it lasted.
    pub(super) fn on_end(&mut self, now: Duration, reason: DownReason, lasted: Duration) {
        let is_free = match reason {
            DownReason::Protocol => false,
            DownReason::Restarted | DownReason::OtherEpoch => true,
            _ => return,
        };
        if lasted >= CALM.max(self.wait) {
            (self.faults, self.wait) = (0, Duration::ZERO);
        }
        self.faults += 1;
        if !is_free || self.faults > FREE {
            self.wait = (self.wait * 2).clamp(FIRST, MAX);
            self.until = now + self.wait;
        }
    }

    /// Returns the time from which on the next session may begin.
    pub(super) const fn until(&self) -> Duration {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_with_each_fault_and_begins_anew_after_a_calm_session() {
        let (mut backoff, mut now) = (Backoff::default(), Duration::from_secs(100));
        let mut waits = Vec::new();
        for _ in 0..9 {
            backoff.on_end(now, DownReason::Protocol, Duration::from_millis(1));
            waits.push(backoff.until().saturating_sub(now).as_millis());
            now = backoff.until();
        }

        assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        backoff.on_end(now, DownReason::Protocol, Duration::from_secs(29));
        assert_eq!(backoff.until(), now + MAX);
        now += MAX;
        backoff.on_end(now, DownReason::Protocol, Duration::from_secs(30));
        assert_eq!(backoff.until(), now + FIRST);
    }

    #[test]
    fn a_few_restarts_need_no_wait_and_a_lost_link_never_does() {
        let (mut backoff, now) = (Backoff::default(), Duration::from_secs(1));
        for _ in 0..100 {
            backoff.on_end(now, DownReason::LinkLost, Duration::ZERO);
        }
        for _ in 0..FREE {
            backoff.on_end(now, DownReason::Restarted, Duration::ZERO);
        }
        assert_eq!(backoff.until(), Duration::ZERO);

        backoff.on_end(now, DownReason::OtherEpoch, Duration::ZERO);
        assert_eq!(backoff.until(), now + FIRST);
    }
}
