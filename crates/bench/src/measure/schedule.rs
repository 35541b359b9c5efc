//! Open-loop arrivals: the intended start of each operation, whatever the system under test does.
//!
//! ```text
//!   intended start of arrival n = start + n / rate          (n-th of this worker; workers are staggered)
//!   due at `now`                = number of intended starts that have passed
//! ```
//!
//! Latency counts from the intended start. If the system delays the generator, the wait is thus charged to the system:
//! no coordinated omission. Never reads a clock.

use std::time::{Duration, Instant};

use thiserror::Error;

/// Rate that an open loop offers, in operations per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

/// Error returned when a number is not a valid rate.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("rate of {per_sec} is not between {} and {} operations a second", Rate::MIN_PER_SEC, Rate::MAX_PER_SEC)]
pub struct RateError {
    /// The number.
    pub per_sec: f64,
}

impl Rate {
    /// The lowest rate.
    pub const MIN_PER_SEC: f64 = 0.1;
    /// The highest rate.
    pub const MAX_PER_SEC: f64 = 1e9;

    /// Creates a rate in operations per second.
    ///
    /// # Errors
    /// [`RateError`] outside 0.1 to 10⁹.
    pub fn from_per_sec(per_sec: f64) -> Result<Self, RateError> {
        if (Self::MIN_PER_SEC..=Self::MAX_PER_SEC).contains(&per_sec) {
            Ok(Self(per_sec))
        } else {
            Err(RateError { per_sec })
        }
    }

    /// Returns the operations per second.
    pub const fn per_sec(self) -> f64 {
        self.0
    }

    /// Returns the rate of groups of `ops` operations.
    pub(crate) fn of_groups(self, ops: u64) -> Self {
        Self(self.0 / ops as f64)
    }
}

/// Arrivals of one worker.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    start: Instant,
    /// Time between two arrivals, in nanoseconds.
    gap_ns: f64,
}

impl Schedule {
    /// Creates the arrivals of worker `index` of `workers`, which share `rate` and start at different points of a gap.
    pub fn new(rate: Rate, start: Instant, index: u64, workers: u64) -> Self {
        let gap_ns = 1e9 * workers as f64 / rate.per_sec();
        let offset_ns = gap_ns * index as f64 / workers as f64;
        Self { start: start + Duration::from_nanos(offset_ns as u64), gap_ns }
    }

    /// Moves all arrivals by the length of a pause.
    pub(crate) fn delay(&mut self, pause: Duration) {
        self.start += pause;
    }

    /// Returns the intended start of arrival `number`, counted from 0.
    pub fn intended(&self, number: u64) -> Instant {
        self.start + Duration::from_nanos((number as f64 * self.gap_ns) as u64)
    }

    /// Returns the number of arrivals with an intended start at or before `now`.
    pub fn due(&self, now: Instant) -> u64 {
        let Some(elapsed) = now.checked_duration_since(self.start) else {
            return 0;
        };
        let guess = (elapsed.as_nanos() as f64 / self.gap_ns) as u64 + 1;
        // The two roundings may differ by one arrival: compare with the intended starts, which decide.
        if self.intended(guess - 1) > now { guess - 1 } else { guess + u64::from(self.intended(guess) <= now) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn per_sec(rate: f64) -> Rate {
        Rate::from_per_sec(rate).unwrap()
    }

    #[test]
    fn workers_share_the_rate_and_take_turns() {
        let start = Instant::now();
        let schedules = [0, 1, 2, 3].map(|index| Schedule::new(per_sec(4_000.0), start, index, 4));

        let firsts = schedules.map(|schedule| (schedule.intended(0) - start).as_micros());
        let due: u64 = schedules.iter().map(|schedule| schedule.due(start + Duration::from_secs(1))).sum();

        assert_eq!(firsts, [0, 250, 500, 750]);
        assert_eq!(due, 4_001);
    }

    #[test]
    fn a_server_that_freezes_for_a_second_is_charged_for_every_arrival_in_it() {
        // 1,000/s for 10 s; the server answers at once except for a freeze of 1 s after 5 s. One worker, one in flight.
        let start = Instant::now();
        let schedule = Schedule::new(per_sec(1_000.0), start, 0, 1);
        let (freeze, thaw) = (start + Duration::from_secs(5), start + Duration::from_secs(6));
        let mut now = start;
        let mut latencies: Vec<Duration> = Vec::new();

        for number in 0..10_000 {
            let intended = schedule.intended(number);
            now = now.max(intended);
            if (freeze..thaw).contains(&now) {
                now = thaw;
            }
            latencies.push(now - intended);
        }

        latencies.sort();
        let p99 = latencies[9_900];
        assert!(p99 > Duration::from_millis(890) && p99 < Duration::from_millis(910), "{p99:?}");
    }

    #[test]
    fn rates_out_of_range_are_refused_by_number() {
        let error = Rate::from_per_sec(0.0).unwrap_err();

        assert_eq!(error.to_string(), "rate of 0 is not between 0.1 and 1000000000 operations a second");
        assert!(Rate::from_per_sec(f64::NAN).is_err());
    }

    proptest! {
        #[test]
        fn an_arrival_is_due_exactly_from_its_intended_start(
            rate in 0.1_f64..1e8, index in 0_u64..64, number in 0_u64..1_000_000,
        ) {
            let schedule = Schedule::new(per_sec(rate), Instant::now(), index, 64);
            let intended = schedule.intended(number);

            prop_assert!(schedule.due(intended) > number);
            prop_assert!(intended.checked_sub(Duration::from_nanos(1)).is_none_or(|before| schedule.due(before) <= number));
        }
    }
}
