//! Decides when the net change of a counter is due to be stored.
//!
//! ```text
//!   every interval: is_due(now, operations, net)
//!     |net| ≥ threshold, armed                    ──▶ commit ──▶ armed again
//!     |net| ≥ 2 × threshold, armed or not         ──▶ commit
//!     no operation for max_age                    ──▶ commit
//!     oldest unstored operation: oldest_max ago   ──▶ commit
//!   a failed commit disarms; |net| ≤ low threshold or ≥ 2 × threshold arms again
//! ```
//!
//! Never reads a clock: `now` is an argument.

use std::time::Duration;

use thiserror::Error;

use crate::time::nanos;

/// Options that decide when the net change of a counter is stored.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::CommitOptions;
///
/// assert_eq!(CommitOptions::balanced().threshold, 192);
/// let wrong = CommitOptions { low_threshold: 200, ..CommitOptions::balanced() };
/// assert_eq!(wrong.check().unwrap_err().to_string(), "low threshold of 200 is not below the threshold of 192");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitOptions {
    /// Net change at which it is stored, in units of either sign. Default 64; a higher threshold means fewer commits,
    /// and a larger loss in a crash.
    pub threshold: u64,
    /// After a failed commit, the net change at which the threshold is armed again. Default half the threshold.
    pub low_threshold: u64,
    /// Time between two checks of all counters. Default 10 ms.
    pub interval: Duration,
    /// Time without operations after which a counter is stored whatever its net change; zero is never. Default 15 ms.
    pub max_age: Duration,
    /// Longest time that an operation is not stored, however busy its counter: it is stored at the next check. Zero is
    /// never, and the default. Bounds the loss in a crash by time.
    pub oldest_max: Duration,
}

/// Error returned for invalid options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommitOptionsError {
    /// Use a threshold of 1 or more.
    #[error("threshold of 0 is too low: use 1 or more")]
    NoThreshold,
    /// Use a lower low threshold.
    #[error("low threshold of {low_threshold} is not below the threshold of {threshold}")]
    LowThreshold {
        /// Low threshold given.
        low_threshold: u64,
        /// Threshold given.
        threshold: u64,
    },
    /// Use an interval within the range.
    #[error("commit interval of {interval:?} is not between 100µs and 60s")]
    Interval {
        /// Interval given.
        interval: Duration,
    },
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            threshold: 64,
            low_threshold: 32,
            interval: Duration::from_millis(10),
            max_age: Duration::from_millis(15),
            oldest_max: Duration::ZERO,
        }
    }
}

impl CommitOptions {
    const fn of(interval_ms: u64, threshold: u64, max_age_ms: u64) -> Self {
        Self {
            threshold,
            low_threshold: threshold / 2,
            interval: Duration::from_millis(interval_ms),
            max_age: Duration::from_millis(max_age_ms),
            oldest_max: Duration::ZERO,
        }
    }

    /// Options for fresh stored values at a modest cost.
    pub const fn balanced() -> Self {
        Self::of(1, 192, 20)
    }

    /// Options for fewer commits; stored values are older.
    pub const fn low_pressure() -> Self {
        Self::of(5, 256, 20)
    }

    /// Options for more commits; stored values are fresher.
    pub const fn fresh() -> Self {
        Self::of(1, 128, 15)
    }

    /// Checks that the options are consistent.
    ///
    /// # Errors
    /// [`CommitOptionsError`] for the first invalid option.
    pub fn check(&self) -> Result<(), CommitOptionsError> {
        let Self { threshold, low_threshold, interval, .. } = *self;
        if threshold == 0 {
            return Err(CommitOptionsError::NoThreshold);
        }
        if low_threshold >= threshold {
            return Err(CommitOptionsError::LowThreshold { low_threshold, threshold });
        }
        if !(Duration::from_micros(100)..=Duration::from_mins(1)).contains(&interval) {
            return Err(CommitOptionsError::Interval { interval });
        }
        Ok(())
    }
}

/// State of one counter between two checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitSchedule {
    armed: bool,
    operations: u64,
    /// Time since which no operation was seen.
    quiet_since_ns: u64,
    /// A time before the oldest operation that is not stored.
    dirty_since_ns: Option<u64>,
    checked_at_ns: u64,
}

impl CommitSchedule {
    pub(crate) const fn new(now_ns: u64) -> Self {
        Self { armed: true, operations: 0, quiet_since_ns: now_ns, dirty_since_ns: None, checked_at_ns: now_ns }
    }

    /// Returns true if the net change is due; `operations` is the total number of operations.
    pub(crate) fn is_due(&mut self, options: &CommitOptions, now_ns: u64, operations: u64, net: i64) -> bool {
        let checked_at_ns = std::mem::replace(&mut self.checked_at_ns, now_ns);
        if operations != self.operations {
            self.operations = operations;
            self.quiet_since_ns = now_ns;
            self.dirty_since_ns = self.dirty_since_ns.or(Some(checked_at_ns));
        }
        let distance = net.unsigned_abs();
        if distance <= options.low_threshold || distance / 2 >= options.threshold {
            self.armed = true;
        }
        if net == 0 {
            // The operations cancelled out: there is nothing to store.
            self.dirty_since_ns = None;
            return false;
        }
        let is_old = |since_ns: u64, age: Duration| !age.is_zero() && now_ns - since_ns >= nanos(age);
        self.armed && distance >= options.threshold
            || is_old(self.quiet_since_ns, options.max_age)
            || self.dirty_since_ns.is_some_and(|since_ns| is_old(since_ns, options.oldest_max))
    }

    /// Records that the due change is stored, with all operations up to `as_of_ns`.
    pub(crate) fn committed(&mut self, as_of_ns: u64, is_clean: bool) {
        self.armed = true;
        self.dirty_since_ns = (!is_clean).then_some(as_of_ns);
    }

    /// Records that the due change could not be stored.
    pub(crate) fn failed(&mut self, now_ns: u64) {
        self.armed = false;
        // Otherwise an old change would be retried at every check.
        self.quiet_since_ns = now_ns;
        self.dirty_since_ns = self.dirty_since_ns.map(|_| now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn options() -> CommitOptions {
        CommitOptions { oldest_max: Duration::from_millis(100), ..CommitOptions::of(1, 100, 20) }
    }

    #[test]
    fn the_threshold_counts_for_either_sign_and_again_after_a_commit() {
        let mut schedule = CommitSchedule::new(0);

        assert!(!schedule.is_due(&options(), MS, 99, 99));
        assert!(schedule.is_due(&options(), 2 * MS, 100, 100));
        schedule.committed(2 * MS, false);
        // The seed never armed again after it found more than the threshold at once, and stored nothing afterwards.
        assert!(schedule.is_due(&options(), 3 * MS, 250, -150));
    }

    #[test]
    fn after_a_failure_it_waits_for_the_low_threshold_or_for_twice_the_threshold() {
        let mut schedule = CommitSchedule::new(0);
        assert!(schedule.is_due(&options(), MS, 1, 120));

        schedule.failed(MS);

        assert!(!schedule.is_due(&options(), 2 * MS, 2, 199));
        assert!(schedule.is_due(&options(), 3 * MS, 3, 200));
        schedule.failed(3 * MS);
        assert!(!schedule.is_due(&options(), 4 * MS, 4, 50));
        assert!(schedule.is_due(&options(), 5 * MS, 5, 120));
    }

    #[test]
    fn a_counter_that_nobody_touches_is_stored_after_its_age_and_a_busy_one_is_not() {
        let mut schedule = CommitSchedule::new(0);

        let busy: Vec<bool> = (1..60).map(|ms| schedule.is_due(&options(), ms * MS, ms, 5)).collect();
        let quiet: Vec<bool> = (60..=79).map(|ms| schedule.is_due(&options(), ms * MS, 59, 5)).collect();

        assert!(!busy.contains(&true));
        assert_eq!(quiet.iter().position(|due| *due), Some(19));
    }

    #[test]
    fn the_oldest_operation_of_a_busy_counter_is_stored_within_its_bound_and_one_look() {
        let mut schedule = CommitSchedule::new(0);

        let first = (1..1_000).find(|ms| schedule.is_due(&options(), ms * MS, *ms, 5));
        assert_eq!(first, Some(100));
        schedule.committed(100 * MS, true);
        let second = (101..1_000).find(|ms| schedule.is_due(&options(), ms * MS, *ms, 5));

        assert_eq!(second, Some(200));
    }

    #[test]
    fn what_cancels_out_is_never_stored() {
        let mut schedule = CommitSchedule::new(0);

        assert!((1..1_000).all(|ms| !schedule.is_due(&options(), ms * MS, 2 * ms, 0)));
    }

    #[test]
    fn presets_are_right_and_mistakes_are_named() {
        for options in
            [CommitOptions::default(), CommitOptions::balanced(), CommitOptions::low_pressure(), CommitOptions::fresh()]
        {
            assert_eq!(options.check(), Ok(()));
        }
        let error = |options: CommitOptions| options.check().unwrap_err().to_string();
        let right = CommitOptions::default();

        assert!(error(CommitOptions { threshold: 0, ..right }).starts_with("threshold of 0"));
        assert_eq!(
            error(CommitOptions { low_threshold: 64, ..right }),
            "low threshold of 64 is not below the threshold of 64"
        );
        assert_eq!(
            error(CommitOptions { interval: Duration::ZERO, ..right }),
            "commit interval of 0ns is not between 100µs and 60s"
        );
    }
}
