//! Group commit: how long a commit stays open for writes that are about to arrive.
//!
//! ```text
//!   commit of 40 ends, 24 arrived meanwhile ──▶ 40 are notified ──▶ the next begins with 24, and expects 64
//! ```
//!
//! Callers that write again as soon as they are notified would otherwise split into two halves that alternate, each
//! with its own sync. An expected write may never arrive, so the wait is a small part of a commit's duration, and after
//! a wait in vain the next commits do not wait.
//!
//! Never reads a clock: `now` is an argument.

use std::time::{Duration, Instant};

/// A commit stays open for this fraction of the average commit time: one over `OPEN_FRACTION`.
const OPEN_FRACTION: u32 = 4;
/// Maximum time for which a commit stays open.
const OPEN_MAX: Duration = Duration::from_millis(5);
/// Minimum commit time for waiting, because sleeping itself takes time.
const COMMIT_TIME_MIN: Duration = Duration::from_micros(100);
/// Number of requests to wait for at once while a commit is open, so that applying them overlaps with arrivals.
const WAIT_CHUNK: usize = 8;
/// Number of requests from which spinning briefly, and waking schedulers early, is worthwhile.
pub(crate) const MANY_REQUESTS: usize = 16;
/// Time to spin for callers that were just notified: longer than a sleeping thread takes to wake up.
const SPIN_MAX: Duration = Duration::from_micros(60);
/// Maximum number of commits that do not wait after waits in vain.
const SKIPPED_MAX: u32 = 64;

/// Statistics of commits that decide about waiting.
#[derive(Debug, Default)]
pub(crate) struct Batching {
    expected: usize,
    commit_time: Duration,
    /// Number of commits that still skip the wait after one in vain; `penalty` is its value after the last wait in
    /// vain, and doubles each time.
    skipped: u32,
    penalty: u32,
    /// True if the open commit waits.
    waits: bool,
}

impl Batching {
    /// Records that a commit of `notified` requests has ended while `waiting` others are in the queue.
    pub(crate) const fn notified(&mut self, notified: usize, waiting: usize) {
        self.expected = notified + waiting;
    }

    /// Records the duration of a commit.
    pub(crate) fn committed(&mut self, took: Duration) {
        // A moving average, so that one slow commit does not delay those after it.
        self.commit_time = if self.commit_time.is_zero() { took } else { (self.commit_time * 7 + took) / 8 };
    }

    /// Returns the time until which a commit that begins now stays open.
    pub(crate) fn until(&mut self, now: Instant) -> Instant {
        self.waits = self.commit_time >= COMMIT_TIME_MIN && self.skipped == 0;
        if !self.waits {
            self.skipped = self.skipped.saturating_sub(1);
            return now;
        }
        now + (self.commit_time / OPEN_FRACTION).min(OPEN_MAX)
    }

    /// Returns the number of requests to wait for before a commit of `has` requests looks at the queue again; 0 if it
    /// should end.
    pub(crate) fn missing(&self, has: usize, most: usize) -> usize {
        self.expected.min(most).saturating_sub(has).min(WAIT_CHUNK)
    }

    /// Returns the time to spin for the next requests before the writer sleeps; zero after waits in vain.
    pub(crate) fn spin_time(&self) -> Duration {
        let worth_it = self.expected >= MANY_REQUESTS && self.commit_time >= COMMIT_TIME_MIN && self.skipped == 0;
        if worth_it { SPIN_MAX.min(self.commit_time / OPEN_FRACTION) } else { Duration::ZERO }
    }

    /// Returns the time to spin while a commit is open.
    pub(crate) fn open_spin_time(&self) -> Duration {
        if self.waits { self.spin_time() } else { Duration::ZERO }
    }

    /// Records that a commit was closed with `has` requests.
    pub(crate) const fn closed(&mut self, has: usize) {
        // Nearly all is enough: some callers always stop writing.
        if has >= self.expected - self.expected / 8 {
            self.penalty = 0;
            self.skipped = 0;
        } else if self.waits {
            self.penalty = if self.penalty == 0 { 1 } else { self.penalty * 2 };
            if self.penalty > SKIPPED_MAX {
                self.penalty = SKIPPED_MAX;
            }
            self.skipped = self.penalty;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batching(notified: usize, waiting: usize) -> Batching {
        let mut batching = Batching::default();
        batching.committed(Duration::from_millis(8));
        batching.notified(notified, waiting);
        batching
    }

    #[test]
    fn those_that_were_told_are_waited_for_a_part_of_what_a_commit_takes() {
        let (mut batching, now) = (batching(40, 24), Instant::now());

        assert_eq!(batching.until(now), now + Duration::from_millis(2));
        assert_eq!((batching.missing(24, 1000), batching.missing(60, 1000), batching.missing(64, 1000)), (8, 4, 0));
        assert_eq!(batching.missing(24, 24), 0, "no more than a commit holds");
    }

    #[test]
    fn one_writer_alone_is_not_waited_for() {
        assert_eq!(batching(1, 0).missing(1, 1000), 0);
        assert_eq!((batching(1, 0).spin_time(), batching(64, 0).spin_time()), (Duration::ZERO, SPIN_MAX));
    }

    #[test]
    fn after_waits_in_vain_more_and_more_commits_do_not_wait() {
        let (mut batching, now) = (batching(40, 0), Instant::now());
        let mut waits = |has: usize| {
            let waits = batching.until(now) > now;
            batching.closed(has);
            waits
        };

        let seen: Vec<bool> = (0..12).map(|_| waits(1)).collect();
        assert_eq!(seen.iter().filter(|waits| **waits).count(), 4, "{seen:?}");

        assert!((0..64).any(|_| waits(40)));
        assert!(waits(40) && waits(39), "they arrived, so they are waited for again");
    }

    #[test]
    fn commits_that_take_no_time_do_not_wait() {
        let (mut batching, now) = (Batching::default(), Instant::now());
        batching.committed(Duration::from_micros(50));
        batching.notified(64, 0);

        assert_eq!(batching.until(now), now);
    }
}
