//! A rate limiter in a single number: the instant at which the full burst is available again.
//!
//! ```text
//!     full_at ≤ now            the full burst is available
//!     now < full_at            (full_at − now) / interval units are taken
//!     full_at − now ≤ burst · interval  always true after an admission
//! ```
//!
//! Implements the generic cell rate algorithm (GCRA), which is equivalent to a token bucket: it admits `burst` units at
//! once and then `rate` units per second. An admission is one compare-and-swap, a denial one load. Never reads a clock:
//! `now` is an argument.

use std::time::Duration;

use thiserror::Error;

use crate::sync::atomic::{AtomicU64, Ordering};

const SECOND_NS: f64 = 1e9;
/// Resolution of times, in parts per nanosecond: the highest rate is accurate to a thousandth, and nine years fit.
const PARTS: u64 = 1 << 6;
/// Longest time for a burst to refill: 52 days.
const REFILL_MAX: u64 = 1 << 58;
/// Lowest rate per second: one unit in about a day.
const RATE_MIN: f64 = 1e-5;
/// Highest rate per second.
const RATE_MAX: f64 = 1e8;

/// Rate per second and burst of a limiter.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::{Limiter, Quota};
///
/// let limiter = Limiter::new(Quota::per_sec(10.0, 3)?);
///
/// assert!((0..3).all(|_| limiter.try_acquire(1).is_ok()));
/// assert!(limiter.try_acquire(1).is_err(), "the burst is used up");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    interval: u64,
    burst: u64,
    rate_per_sec: f64,
}

/// Error returned for an invalid quota.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum QuotaError {
    /// Use a rate within the range.
    #[error("rate of {rate_per_sec} a second is not between 0.00001 and 100000000")]
    Rate {
        /// Rate given.
        rate_per_sec: f64,
    },
    /// Use a burst that refills within 52 days.
    #[error("burst of {burst} is not between 1 and {most}, which refills in 52 days at {rate_per_sec} a second")]
    Burst {
        /// Burst given.
        burst: u64,
        /// Largest burst at this rate.
        most: u64,
        /// Rate given.
        rate_per_sec: f64,
    },
}

impl Quota {
    /// Creates a quota of `rate_per_sec` units per second, of which `burst` may be taken at once.
    ///
    /// # Errors
    /// [`QuotaError`] if the rate or the burst is out of range.
    pub fn per_sec(rate_per_sec: f64, burst: u64) -> Result<Self, QuotaError> {
        if !(RATE_MIN..=RATE_MAX).contains(&rate_per_sec) {
            return Err(QuotaError::Rate { rate_per_sec });
        }
        let interval = (SECOND_NS * PARTS as f64 / rate_per_sec).round() as u64;
        let most = REFILL_MAX / interval;
        if !(1..=most).contains(&burst) {
            return Err(QuotaError::Burst { burst, most, rate_per_sec });
        }
        Ok(Self { interval, burst, rate_per_sec })
    }

    /// Returns the rate, in units per second.
    pub const fn rate_per_sec(&self) -> f64 {
        self.rate_per_sec
    }

    /// Returns the number of units that may be taken at once.
    pub const fn burst(&self) -> u64 {
        self.burst
    }
}

/// A rate limiter in one atomic word. Times are parts of nanoseconds since `origin_ns`.
#[derive(Debug)]
pub(crate) struct Gcra {
    quota: Quota,
    /// Origin of all times, in nanoseconds: keeps parts of nanoseconds within 64 bits.
    origin_ns: u64,
    full_at: AtomicU64,
}

impl Gcra {
    pub(crate) const fn quota(&self) -> Quota {
        self.quota
    }

    pub(crate) const fn new(quota: Quota, now_ns: u64) -> Self {
        Self { quota, origin_ns: now_ns, full_at: AtomicU64::new(0) }
    }

    /// Returns a copy that has the same units taken.
    pub(crate) fn copy(&self) -> Self {
        Self { full_at: AtomicU64::new(self.full_at.load(Ordering::SeqCst)), ..*self }
    }

    #[inline]
    const fn now(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.origin_ns).saturating_mul(PARTS)
    }

    /// Takes units if they are available. Otherwise returns the time until they are, or `None` if they exceed the
    /// burst.
    #[inline]
    pub(crate) fn take(&self, units: u64, now_ns: u64) -> Result<(), Option<Duration>> {
        if units > self.quota.burst {
            return Err(None);
        }
        let (now, cost) = (self.now(now_ns), units * self.quota.interval);
        let latest = now.saturating_add(self.quota.burst * self.quota.interval);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = full_at.max(now).saturating_add(cost);
            if next > latest {
                return Err(Some(Duration::from_nanos((next - latest).div_ceil(PARTS))));
            }
            // SeqCst orders this with the limiter's check of `is_gated` (see `LimiterState::gate`). Otherwise Relaxed
            // would be enough: this word is all the state.
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => full_at = other,
            }
        }
    }

    /// Takes units, now or from the future, and returns the time until they are available. Later calls wait longer.
    pub(crate) fn reserve(&self, units: u64, now_ns: u64) -> Duration {
        let (now, cost) = (self.now(now_ns), units.saturating_mul(self.quota.interval));
        let latest = now.saturating_add(self.quota.burst * self.quota.interval);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = full_at.max(now).saturating_add(cost);
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Duration::from_nanos(next.saturating_sub(latest).div_ceil(PARTS)),
                Err(other) => full_at = other,
            }
        }
    }

    /// Gives back units that were reserved and not used.
    pub(crate) fn refund(&self, units: u64) {
        let cost = units.saturating_mul(self.quota.interval);
        let back = |full_at: u64| Some(full_at.saturating_sub(cost));
        // Never fails: `back` always returns a value.
        self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, back).ok();
    }

    /// Returns the number of units available.
    pub(crate) fn available(&self, now_ns: u64) -> u64 {
        let taken = self.full_at.load(Ordering::Relaxed).saturating_sub(self.now(now_ns));
        self.quota.burst.saturating_sub(taken.div_ceil(self.quota.interval))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_burst_comes_at_once_and_then_the_rate() {
        let gcra = Gcra::new(Quota::per_sec(1_000.0, 3).unwrap(), 5 * MS);

        assert!((0..3).all(|_| gcra.take(1, 5 * MS).is_ok()));
        assert_eq!(gcra.take(1, 5 * MS), Err(Some(Duration::from_millis(1))));
        assert_eq!(gcra.take(2, 5 * MS + MS / 2), Err(Some(Duration::from_micros(1_500))));
        assert_eq!(gcra.take(1, 6 * MS), Ok(()));
        assert_eq!((gcra.available(6 * MS), gcra.available(8 * MS), gcra.available(100 * MS)), (0, 2, 3));
        assert_eq!(gcra.take(4, 100 * MS), Err(None));
    }

    #[test]
    fn reservations_queue_up_and_what_is_given_back_serves_the_next() {
        let gcra = Gcra::new(Quota::per_sec(1_000.0, 1).unwrap(), 0);

        let waits = [0; 3].map(|_| gcra.reserve(1, 0).as_millis());
        gcra.refund(1);

        assert_eq!(waits, [0, 1, 2]);
        assert_eq!(gcra.reserve(1, 0).as_millis(), 2);
    }

    #[test]
    fn what_makes_no_quota_is_said_with_the_number() {
        let error = |rate, burst| Quota::per_sec(rate, burst).unwrap_err().to_string();

        assert_eq!(error(-5.0, 1), "rate of -5 a second is not between 0.00001 and 100000000");
        assert_eq!(error(f64::NAN, 1), "rate of NaN a second is not between 0.00001 and 100000000");
        assert!(error(10.0, 0).starts_with("burst of 0 is not between 1 and "));
        assert!(error(1.0, u64::MAX).contains("52 days"));
    }

    proptest! {
        #[test]
        fn no_span_admits_more_than_its_burst_and_its_rate(
            rate in 1.0_f64..1e7,
            burst in 1_u64..1_000,
            steps in prop::collection::vec((0_u64..50_000, 1_u64..5), 1..200),
        ) {
            let gcra = Gcra::new(Quota::per_sec(rate, burst).unwrap(), 7);
            let (mut now, mut admitted) = (7_u64, Vec::new());
            for (step, units) in steps {
                now += step;
                if gcra.take(units, now).is_ok() {
                    admitted.push((now, units));
                }
            }

            for from in 0..admitted.len() {
                let mut units = 0;
                for (at, count) in &admitted[from..] {
                    units += count;
                    let span = (at - admitted[from].0) as f64 / 1e9;
                    prop_assert!(units as f64 <= burst as f64 + rate * span * 1.001 + 1e-6);
                }
            }
        }

        #[test]
        fn what_is_refused_is_admitted_after_the_wait_it_was_told(rate in 1.0_f64..1e7, burst in 1_u64..100) {
            let gcra = Gcra::new(Quota::per_sec(rate, burst).unwrap(), 0);
            while gcra.take(1, 0).is_ok() {}

            let wait = gcra.take(1, 0).unwrap_err().expect("it is not more than the burst");

            prop_assert!(gcra.take(1, wait.as_nanos() as u64 - 1).is_err());
            prop_assert!(gcra.take(1, wait.as_nanos() as u64).is_ok());
        }
    }
}
