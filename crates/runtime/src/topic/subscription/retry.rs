//! Delays before a message is delivered again.

use std::time::Duration;

/// Exponential back-off with jitter: the delay doubles with each attempt up to a limit; half of it is fixed, the rest
/// random.
///
/// Without jitter, messages that failed together would always be retried together. If `first` or `longest` is zero,
/// messages are retried immediately.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use std::time::{Duration, Instant};
///
/// use rusm::topic::{Message, Retry, SubscriptionConfig};
///
/// let retry = Retry { first: Duration::from_millis(20), longest: Duration::from_secs(1) };
/// let orders = runtime.topics().create("orders")?;
/// let billing = orders.create_subscription("billing", SubscriptionConfig { retry, ..Default::default() })?;
/// orders.blocking_publish(Message::new("tea"))?;
///
/// let mut consumer = billing.consumer();
/// let failed = consumer.blocking_next()?;
/// let returned = Instant::now();
/// consumer.nack(failed.id);
/// assert_eq!(consumer.blocking_next()?.attempt, 2);
/// assert!(returned.elapsed() >= Duration::from_millis(10), "at least half of the delay");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// Longest delay after the first attempt.
    pub first: Duration,
    /// Longest delay.
    pub longest: Duration,
}

impl Retry {
    /// Returns the delay after an attempt, counted from 1; `random` is any random number.
    pub(crate) fn delay(&self, attempt: u32, random: u64) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        let longest = self.first.saturating_mul(factor).min(self.longest);
        let longest_ns = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX - 1);
        let half_ns = longest_ns / 2;
        Duration::from_nanos(longest_ns - half_ns + random % (half_ns + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::splitmix64;

    #[test]
    fn delays_double_up_to_the_limit_and_are_never_shorter_than_their_half() {
        let retry = Retry { first: Duration::from_millis(100), longest: Duration::from_secs(1) };

        for (attempt, longest_ms) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (u32::MAX, 1000)] {
            let mut state = 7;
            for _ in 0..100 {
                let delay = retry.delay(attempt, splitmix64(&mut state));
                let longest = Duration::from_millis(longest_ms);
                assert!(longest / 2 <= delay && delay <= longest, "{delay:?} after attempt {attempt}");
            }
        }
        assert_eq!(Retry::default().delay(3, 99), Duration::ZERO);
        let at_once = Retry { first: Duration::ZERO, ..retry };
        assert!([1, 32, 33, u32::MAX].iter().all(|attempt| at_once.delay(*attempt, 99).is_zero()));
        let slowly = Retry { first: Duration::from_nanos(1), longest: Duration::from_mins(10) };
        assert!(slowly.delay(u32::MAX, 0) >= Duration::from_secs(2), "2³² of the first");
    }
}
