//! Limits of the rate of requests, of a route or of each client address, by the runtime's limiters.
//!
//! ```text
//!   token bucket:   a burst at once, then the rate; further requests get 429 with Retry-After
//!   leaky bucket:   requests start at the rate; up to a number of them wait, further ones get 429
//! ```

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use rusm_runtime::counter::{AcquireError, KeyedLimiter, Limiter, Quota, QuotaError};

/// Number of client addresses with a limit of their own at a time.
const CLIENTS_MAX: usize = 65_536;
/// Bits of an IPv6 address that belong to the network; a client may choose the others.
const V6_NETWORK_BITS: u32 = 64;

/// A limit of the rate of requests. Requests over it get 429 with `Retry-After`.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_serve as serve; }
/// use rusm::serve::RateLimit;
///
/// let per_client = RateLimit::token_bucket(10.0, 20)?.per_client();
/// # Ok::<(), rusm::counter::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    quota: Quota,
    is_leaky: bool,
    is_per_client: bool,
}

impl RateLimit {
    /// Creates a limit that admits `burst` requests at once, and then `per_sec` requests a second.
    ///
    /// # Errors
    /// [`QuotaError`] if the rate or the burst is out of range.
    pub fn token_bucket(per_sec: f64, burst: u64) -> Result<Self, QuotaError> {
        Ok(Self { quota: Quota::per_sec(per_sec, burst)?, is_leaky: false, is_per_client: false })
    }

    /// Creates a limit that starts requests evenly, at most `per_sec` a second. Up to `waiting` requests wait for their
    /// turn.
    ///
    /// # Errors
    /// [`QuotaError`] if the rate or the number of waiting requests is out of range; its burst is that number and one more.
    pub fn leaky_bucket(per_sec: f64, waiting: u64) -> Result<Self, QuotaError> {
        // The first of them does not wait.
        let quota = Quota::per_sec(per_sec, waiting.saturating_add(1))?;
        Ok(Self { quota, is_leaky: true, is_per_client: false })
    }

    /// Applies the limit to each client address by itself. For IPv6, the 64 bits of the network count.
    pub const fn per_client(mut self) -> Self {
        self.is_per_client = true;
        self
    }
}

/// The state of a [`RateLimit`].
#[derive(Debug)]
pub(crate) struct RateLimiter {
    bucket: Bucket,
    /// Spreads the requests that a leaky bucket has admitted.
    pace: Option<Bucket>,
}

#[derive(Debug)]
enum Bucket {
    Shared(Limiter),
    PerClient(KeyedLimiter<IpAddr>),
}

impl RateLimiter {
    pub(crate) fn new(limit: RateLimit) -> Self {
        let bucket = |quota| {
            if limit.is_per_client {
                Bucket::PerClient(KeyedLimiter::new(quota, CLIENTS_MAX))
            } else {
                Bucket::Shared(Limiter::new(quota))
            }
        };
        // One request at once is always within the range of a quota.
        let single = Quota::per_sec(limit.quota.rate_per_sec(), 1).ok().filter(|_| limit.is_leaky);
        Self { bucket: bucket(limit.quota), pace: single.map(bucket) }
    }

    /// Admits a request of a client, after its turn has come.
    ///
    /// # Errors
    /// The time after which a further request is admitted.
    pub(crate) async fn admit(&self, client: IpAddr) -> Result<(), Duration> {
        let client = network_of(client);
        let admitted = match &self.bucket {
            Bucket::Shared(limiter) => limiter.try_acquire(1),
            Bucket::PerClient(limiter) => limiter.try_acquire(&client, 1),
        };
        admitted.map_err(retry_after)?;
        match &self.pace {
            None => Ok(()),
            Some(Bucket::Shared(limiter)) => limiter.acquire(1).await.map_err(retry_after),
            Some(Bucket::PerClient(limiter)) => limiter.acquire(&client, 1).await.map_err(retry_after),
        }
    }
}

fn retry_after(error: AcquireError) -> Duration {
    match error {
        AcquireError::Later { after } => after,
        // Too many clients at once: a place is free as soon as the bucket of one is full again.
        AcquireError::Keys { .. } | AcquireError::MoreThanBurst { .. } => Duration::from_secs(1),
    }
}

/// Returns the address that a client cannot choose freely.
pub(super) fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - V6_NETWORK_BITS))).into(),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_admitted(limiter: &RateLimiter, client: &str) -> bool {
        limiter.admit(client.parse().unwrap()).now_or_never().is_some_and(|admitted| admitted.is_ok())
    }

    #[test]
    fn each_client_has_its_own_bucket_and_its_network_counts() {
        let limiter = RateLimiter::new(RateLimit::token_bucket(0.001, 2).unwrap().per_client());

        assert!(is_admitted(&limiter, "10.0.0.1") && is_admitted(&limiter, "::ffff:10.0.0.1"));
        assert!(!is_admitted(&limiter, "10.0.0.1"));
        assert!(is_admitted(&limiter, "10.0.0.2"));
        assert!(is_admitted(&limiter, "2001:db8::1") && is_admitted(&limiter, "2001:db8::2"));
        assert!(!is_admitted(&limiter, "2001:db8::3") && is_admitted(&limiter, "2001:db8:0:1::1"));
    }

    #[test]
    fn a_refused_request_is_told_when_to_come_back() {
        let limiter = RateLimiter::new(RateLimit::token_bucket(0.1, 1).unwrap());
        assert!(is_admitted(&limiter, "10.0.0.1"));

        let refused = limiter.admit("10.0.0.2".parse().unwrap()).now_or_never().unwrap();

        let after = refused.unwrap_err().as_secs_f64();
        assert!((9.0..=10.0).contains(&after), "{after}");
    }

    #[test]
    fn a_leaky_bucket_lets_one_request_through_and_the_others_wait() {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = tokio.enter();
        let limiter = RateLimiter::new(RateLimit::leaky_bucket(0.001, 2).unwrap());

        assert!(is_admitted(&limiter, "10.0.0.1"));
        let state = |limiter: &RateLimiter| limiter.admit("10.0.0.1".parse().unwrap()).now_or_never();
        assert_eq!(state(&limiter), None, "it waits");
        assert_eq!(state(&limiter), None, "it waits");
        assert!(state(&limiter).is_some_and(|refused| refused.is_err()), "no more may wait");
    }
}
