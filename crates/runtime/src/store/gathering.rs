//! How long a commit stays open for those that are about to come.
//!
//! ```text
//!   commit of 40 ends, 24 came meanwhile ──▶ 40 are told ──▶ the next begins with 24, and expects 64
//! ```
//!
//! Writers that write again as soon as they are told would otherwise fall apart into two halves that take turns, each with
//! its own sync. Who is waited for may never come, so the wait is a small part of what a commit takes, and after one in vain
//! the next commits do not wait.
//!
//! Never reads a clock: `now` is an argument.

use std::time::{Duration, Instant};

/// A commit stays open for one part of so many of what commits take.
const PART: u32 = 4;
/// The longest that a commit stays open.
const OPEN_MAX: Duration = Duration::from_millis(5);
/// What commits must take at least, because to sleep takes its time too.
const WORTH_IT: Duration = Duration::from_micros(100);
/// So many requests are taken at once while a commit is open, so that applying and coming overlap.
const HANDFUL: usize = 8;
/// For so many it is worth to stay awake, and to have others woken, for a little.
pub(super) const MANY: usize = 16;
/// How long to stay awake for those that were told just now: longer than a sleeping thread takes to come.
const AWAKE: Duration = Duration::from_micros(60);
/// The most commits that do not wait after waits in vain.
const PATIENCE_MAX: u32 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    expected: usize,
    commit_time: Duration,
    /// Commits that do not wait any more because of the last one in vain, and how many those will be after the next.
    skipped: u32,
    penalty: u32,
    /// Whether the commit that is open waits.
    waits: bool,
}

impl Gathering {
    /// A commit of so many has ended, and so many wait already that are not of it.
    pub(super) const fn told(&mut self, told: usize, waiting: usize) {
        self.expected = told + waiting;
    }

    /// A commit has taken so long.
    pub(super) fn committed(&mut self, took: Duration) {
        // A slow one now and then must not hold up those after it.
        self.commit_time = if self.commit_time.is_zero() { took } else { (self.commit_time * 7 + took) / 8 };
    }

    /// Until when a commit stays open that begins now.
    pub(super) fn until(&mut self, now: Instant) -> Instant {
        self.waits = self.commit_time >= WORTH_IT && self.skipped == 0;
        if !self.waits {
            self.skipped = self.skipped.saturating_sub(1);
            return now;
        }
        now + (self.commit_time / PART).min(OPEN_MAX)
    }

    /// Of how many more a commit with so many should hear before it looks at the queue again; 0 if it should end.
    pub(super) fn missing(&self, has: usize, most: usize) -> usize {
        self.expected.min(most).saturating_sub(has).min(HANDFUL)
    }

    /// How long to look out for the next to come before the writer sleeps: not after waits in vain.
    pub(super) fn awake(&self) -> Duration {
        let worth_it = self.expected >= MANY && self.commit_time >= WORTH_IT && self.skipped == 0;
        if worth_it { AWAKE.min(self.commit_time / PART) } else { Duration::ZERO }
    }

    /// The same while a commit is open.
    pub(super) fn awake_within(&self) -> Duration {
        if self.waits { self.awake() } else { Duration::ZERO }
    }

    /// A commit was closed with so many.
    pub(super) const fn gathered(&mut self, has: usize) {
        // Nearly all is as good: somebody always stops.
        if has >= self.expected - self.expected / 8 {
            self.penalty = 0;
            self.skipped = 0;
        } else if self.waits {
            self.penalty = if self.penalty == 0 { 1 } else { self.penalty * 2 };
            if self.penalty > PATIENCE_MAX {
                self.penalty = PATIENCE_MAX;
            }
            self.skipped = self.penalty;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathering(told: usize, waiting: usize) -> Gathering {
        let mut gathering = Gathering::default();
        gathering.committed(Duration::from_millis(8));
        gathering.told(told, waiting);
        gathering
    }

    #[test]
    fn those_that_were_told_are_waited_for_a_part_of_what_a_commit_takes() {
        let (mut gathering, now) = (gathering(40, 24), Instant::now());

        assert_eq!(gathering.until(now), now + Duration::from_millis(2));
        assert_eq!((gathering.missing(24, 1000), gathering.missing(60, 1000), gathering.missing(64, 1000)), (8, 4, 0));
        assert_eq!(gathering.missing(24, 24), 0, "no more than a commit holds");
    }

    #[test]
    fn one_writer_alone_is_not_waited_for() {
        assert_eq!(gathering(1, 0).missing(1, 1000), 0);
        assert_eq!((gathering(1, 0).awake(), gathering(64, 0).awake()), (Duration::ZERO, AWAKE));
    }

    #[test]
    fn after_waits_in_vain_more_and_more_commits_do_not_wait() {
        let (mut gathering, now) = (gathering(40, 0), Instant::now());
        let mut waits = |has: usize| {
            let waits = gathering.until(now) > now;
            gathering.gathered(has);
            waits
        };

        let seen: Vec<bool> = (0..12).map(|_| waits(1)).collect();
        assert_eq!(seen.iter().filter(|waits| **waits).count(), 4, "{seen:?}");

        assert!((0..64).any(|_| waits(40)));
        assert!(waits(40) && waits(39), "they came, so they are waited for again");
    }

    #[test]
    fn commits_that_take_no_time_do_not_wait() {
        let (mut gathering, now) = (Gathering::default(), Instant::now());
        gathering.committed(Duration::from_micros(50));
        gathering.told(64, 0);

        assert_eq!(gathering.until(now), now);
    }
}
