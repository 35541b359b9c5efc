//! Delays before a supervisor restarts a child that keeps dying.

use std::time::Duration;

/// Delays that double with each consecutive restart, up to a limit.
///
/// For a child that has lived at least as long as the limit, the delays start again.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::supervisor::{Backoff, Strategy, Supervisor};
///
/// let backoff = Backoff { first: Duration::from_millis(100), limit: Duration::from_secs(1) };
/// let delays: Vec<_> = (1..=5).map(|restart| backoff.delay(restart).as_millis()).collect();
/// assert_eq!(delays, [100, 200, 400, 800, 1_000]);
/// let patient = Supervisor::new(Strategy::OneForOne).backoff(backoff);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay before the first restart. Zero restarts at once, and delays the following restarts from a millisecond on.
    pub first: Duration,
    /// Longest delay. A longer limit spares what the child depends on, a shorter limit restarts it sooner.
    pub limit: Duration,
}

/// Delay that follows a delay of zero.
const DELAY_MIN: Duration = Duration::from_millis(1);

impl Backoff {
    /// Returns the delay before a restart; `restart` is its number among the consecutive restarts, counted from 1.
    pub fn delay(&self, restart: u32) -> Duration {
        let (from, doublings) = match (self.first.is_zero(), restart) {
            (true, 0 | 1) => return Duration::ZERO,
            (true, _) => (DELAY_MIN, restart - 2),
            (false, _) => (self.first, restart.saturating_sub(1)),
        };
        2_u32.checked_pow(doublings).and_then(|factor| from.checked_mul(factor)).unwrap_or(self.limit).min(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit() {
        let backoff = Backoff { first: Duration::from_millis(100), limit: Duration::from_secs(1) };

        let delays = [1, 2, 3, 4, 5, u32::MAX].map(|restart| backoff.delay(restart).as_millis());

        assert_eq!(delays, [100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn the_first_restart_may_be_at_once() {
        let backoff = Backoff { first: Duration::ZERO, limit: Duration::from_secs(1) };

        assert_eq!([1, 2, 3].map(|restart| backoff.delay(restart).as_millis()), [0, 1, 2]);
    }
}
