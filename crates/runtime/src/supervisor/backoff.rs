//! How long a supervisor waits before it restarts a child that keeps dying.

use std::time::Duration;

/// Delays that double with each restart in a row, up to a limit.
///
/// A child that has lived for as long as the limit begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Before the first restart; zero restarts at once and delays only those that follow, from a millisecond on.
    pub first: Duration,
    /// The longest delay. A longer one spares what the child depends on, a shorter one is back sooner.
    pub limit: Duration,
}

/// What follows a delay of zero.
const LEAST: Duration = Duration::from_millis(1);

impl Backoff {
    /// The delay before the restart of this number in a row, counted from 1.
    pub fn delay(&self, restart: u32) -> Duration {
        let (from, doublings) = match (self.first.is_zero(), restart) {
            (true, 0 | 1) => return Duration::ZERO,
            (true, _) => (LEAST, restart - 2),
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
