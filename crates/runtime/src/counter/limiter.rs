//! Rate limiters: one limit, or one limit per key.
//!
//! ```text
//!   try_acquire ──▶ admitted, or the time until it would be
//!   acquire     ──▶ reserves a place in the schedule, waits until it is due ──▶ gate ──▶ admitted
//! ```
//!
//! A dropped `acquire` gives its place back, so the next caller may be due at the same instant as a caller already
//! behind it. The gate, to which nothing is given back, lets them through one after the other. The first `acquire`
//! creates it.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use rustc_hash::{FxBuildHasher, FxHashMap};
use thiserror::Error;

use super::coarse_clock::CoarseClock;
use super::gcra::{Gcra, Quota};
use crate::scheduler;
use crate::time::ticker;

/// Waits longer than this first use the reactor's timer, which is cheap and accurate to the millisecond.
const COARSE_WAIT: Duration = Duration::from_millis(5);
/// Part of a long wait that is left to the precise timer.
const PRECISE_WAIT: Duration = Duration::from_millis(2);

/// Error returned when units were not acquired.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::{AcquireError, Limiter, Quota};
///
/// let limiter = Limiter::new(Quota::per_sec(10.0, 5)?);
/// assert_eq!(limiter.try_acquire(5), Ok(()));
/// match limiter.try_acquire(1) {
///     Err(AcquireError::Later { after }) => assert!(after.as_millis() <= 100),
///     other => unreachable!("the burst is used up: {other:?}"),
/// }
/// assert_eq!(limiter.try_acquire(6), Err(AcquireError::MoreThanBurst { units: 6, burst: 5 }));
/// # Ok::<(), rusm::counter::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AcquireError {
    /// Retry after this time: the units will then be available unless another caller takes them.
    #[error("rate limit reached: retry after {after:?}")]
    Later {
        /// Time to wait.
        after: Duration,
    },
    /// Request fewer units: more than the burst is never available at once.
    #[error("{units} units at once are more than the burst of {burst}")]
    MoreThanBurst {
        /// Number of units requested.
        units: u64,
        /// Largest number of units available at once.
        burst: u64,
    },
    /// Wait until keys are idle, or allow more keys.
    #[error("no room for another key: all keys in its shard are in use ({keys} keys in {SHARDS} shards)")]
    Keys {
        /// Largest number of keys in all shards.
        keys: usize,
    },
}

/// A rate limiter. Clones share the same limit. It needs neither a runtime nor a thread.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::{AcquireError, Limiter, Quota};
///
/// let limiter = Limiter::new(Quota::per_sec(10.0, 2)?);
/// assert!(limiter.try_acquire(1).is_ok() && limiter.try_acquire(1).is_ok());
/// assert!(matches!(limiter.try_acquire(1), Err(AcquireError::Later { after }) if after.as_millis() <= 100));
/// # Ok::<(), rusm::counter::QuotaError>(())
/// ```
#[derive(Clone)]
pub struct Limiter {
    state: Arc<LimiterState>,
    clock: CoarseClock,
}

struct LimiterState {
    /// Schedule of all units taken. A waiting `acquire` has a place in it and may give it back.
    gcra: Gcra,
    is_gated: AtomicBool,
    gate: OnceLock<Gcra>,
}

impl LimiterState {
    /// Returns the gate, which counts admissions regardless of what callers gave back to the schedule.
    ///
    /// `try_acquire` takes units and then reads `is_gated`; creating the gate sets `is_gated` and then copies the units
    /// taken. Both sides are sequentially consistent, so at least one sees the other. If both do, the units count twice
    /// in the gate and a caller may wait needlessly, but never too many are admitted.
    fn gate(&self) -> &Gcra {
        self.gate.get_or_init(|| {
            self.is_gated.store(true, Ordering::SeqCst);
            self.gcra.copy()
        })
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("quota", &self.quota()).finish_non_exhaustive()
    }
}

impl Limiter {
    /// Creates a limiter with its full burst available.
    pub fn new(quota: Quota) -> Self {
        Self::with_clock(quota, CoarseClock::new())
    }

    fn with_clock(quota: Quota, clock: CoarseClock) -> Self {
        let gcra = Gcra::new(quota, now_ns(&clock));
        Self { state: Arc::new(LimiterState { gcra, is_gated: AtomicBool::new(false), gate: OnceLock::new() }), clock }
    }

    /// Returns the quota of the limiter.
    pub fn quota(&self) -> Quota {
        self.state.gcra.quota()
    }

    /// Takes units immediately or fails.
    ///
    /// # Errors
    /// [`AcquireError::Later`] with the time after which the units will be available; [`AcquireError::MoreThanBurst`].
    #[inline]
    pub fn try_acquire(&self, units: u64) -> Result<(), AcquireError> {
        let (now_ns, state) = (now_ns(&self.clock), &*self.state);
        let taken = state.gcra.take(units, now_ns).and_then(|()| {
            if state.is_gated.load(Ordering::SeqCst) { Self::pass_gate(state, units, now_ns) } else { Ok(()) }
        });
        taken.map_err(|after| self.acquire_error(units, after))
    }

    fn pass_gate(state: &LimiterState, units: u64, now_ns: u64) -> Result<(), Option<Duration>> {
        state.gate().take(units, now_ns).inspect_err(|_| state.gcra.refund(units))
    }

    /// Takes units and waits until they are available. Each call reserves its place in the schedule on arrival, so
    /// calls are served in order of arrival.
    ///
    /// Dropping the future gives the place back unless its time has come. Needs a tokio runtime outside of processes.
    ///
    /// # Errors
    /// [`AcquireError::MoreThanBurst`].
    pub async fn acquire(&self, units: u64) -> Result<(), AcquireError> {
        let burst = self.quota().burst();
        if units > burst {
            return Err(AcquireError::MoreThanBurst { units, burst });
        }
        let (started_ns, gate) = (now_ns(&self.clock), self.state.gate());
        let wait = self.state.gcra.reserve(units, started_ns);
        let reservation = Reservation { gcra: &self.state.gcra, units };
        let mut due_ns = started_ns.saturating_add(crate::time::nanos(wait));
        loop {
            let left = due_ns.saturating_sub(now_ns(&self.clock));
            if left > 0 {
                sleep(Duration::from_nanos(left)).await;
                continue;
            }
            // Uses the scheduled instant, not the clock: a late wake-up must not reduce the rate.
            match gate.take(units, due_ns) {
                Err(Some(after)) => due_ns = due_ns.saturating_add(crate::time::nanos(after)),
                Ok(()) | Err(None) => break,
            }
        }
        std::mem::forget(reservation);
        Ok(())
    }

    /// Returns the number of units available now.
    pub fn available(&self) -> u64 {
        self.available_at(now_ns(&self.clock))
    }

    fn available_at(&self, now_ns: u64) -> u64 {
        let gate = self.state.gate.get().map_or(u64::MAX, |gate| gate.available(now_ns));
        self.state.gcra.available(now_ns).min(gate)
    }

    #[cold]
    fn acquire_error(&self, units: u64, after: Option<Duration>) -> AcquireError {
        let burst = self.quota().burst();
        after.map_or(AcquireError::MoreThanBurst { units, burst }, |after| AcquireError::Later { after })
    }
}

/// A place in the schedule. Dropping it gives the units back; it is forgotten once its time has come.
struct Reservation<'a> {
    gcra: &'a Gcra,
    units: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.gcra.refund(self.units);
    }
}

/// Returns the time that limiters use: the virtual time in a process that has one.
#[inline]
fn now_ns(clock: &CoarseClock) -> u64 {
    #[cfg(feature = "test")]
    if let Some(ns) = scheduler::local().and_then(|local| local.shared.tickers.virtual_ns()) {
        return ns;
    }
    clock.now_ns()
}

async fn sleep(left: Duration) {
    if left > COARSE_WAIT {
        return tokio::time::sleep(left.saturating_sub(PRECISE_WAIT)).await;
    }
    let tickers = scheduler::local().map(|local| Arc::clone(&local.shared.tickers));
    let slept = match tickers {
        Some(tickers) => ticker::sleep_through_driver(tickers, left).await,
        None => false,
    };
    if !slept {
        tokio::time::sleep(left).await;
    }
}

const SHARDS: usize = 32;

/// One limiter per key, all with the same quota. Clones share the same limiters.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::{KeyedLimiter, Quota};
///
/// let limiter = KeyedLimiter::new(Quota::per_sec(5.0, 1)?, 100_000);
/// assert!(limiter.try_acquire("10.0.0.1", 1).is_ok());
/// assert!(limiter.try_acquire("10.0.0.1", 1).is_err());
/// assert!(limiter.try_acquire("10.0.0.2", 1).is_ok());
/// # Ok::<(), rusm::counter::QuotaError>(())
/// ```
#[derive(Clone)]
pub struct KeyedLimiter<K = String> {
    shared: Arc<Shards<K>>,
    quota: Quota,
    clock: CoarseClock,
}

struct Shards<K> {
    limiters: [RwLock<FxHashMap<K, Limiter>>; SHARDS],
    hasher: FxBuildHasher,
    keys_max: usize,
}

impl<K> fmt::Debug for KeyedLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter").field("quota", &self.quota).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq> KeyedLimiter<K> {
    /// Creates a limiter for at most `keys_max` keys at a time. Keys are hashed into 32 shards, each with room for
    /// `keys_max / 32` keys, rounded up. One shard may be full before the others, so allow a fifth more keys than
    /// needed. A full shard removes keys with a fully available burst, which does not change their limit.
    pub fn new(quota: Quota, keys_max: usize) -> Self {
        let shards = Shards {
            limiters: std::array::from_fn(|_| RwLock::default()),
            hasher: FxBuildHasher,
            keys_max: keys_max.div_ceil(SHARDS).max(1),
        };
        Self { shared: Arc::new(shards), quota, clock: CoarseClock::new() }
    }

    /// Takes units of a key immediately or fails.
    ///
    /// # Errors
    /// Same as [`Limiter::try_acquire`], and [`AcquireError::Keys`] if too many keys of the shard are in use.
    pub fn try_acquire<Q: Hash + Eq + ToOwned<Owned = K> + ?Sized>(
        &self,
        key: &Q,
        units: u64,
    ) -> Result<(), AcquireError>
    where
        K: std::borrow::Borrow<Q>,
    {
        if let Some(limiter) = self.shard(key).read().get(key) {
            return limiter.try_acquire(units);
        }
        self.limiter(key)?.try_acquire(units)
    }

    /// Takes units of a key and waits until they are available.
    ///
    /// # Errors
    /// Same as [`Limiter::acquire`], and [`AcquireError::Keys`] if too many keys of the shard are in use.
    pub async fn acquire<Q: Hash + Eq + ToOwned<Owned = K> + ?Sized + Sync>(
        &self,
        key: &Q,
        units: u64,
    ) -> Result<(), AcquireError>
    where
        K: std::borrow::Borrow<Q>,
    {
        let limiter = self.limiter(key)?;
        limiter.acquire(units).await
    }

    /// Returns the number of keys that have a limiter.
    pub fn keys(&self) -> usize {
        self.shared.limiters.iter().map(|shard| shard.read().len()).sum()
    }

    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> &RwLock<FxHashMap<K, Limiter>> {
        // Uses the upper half of the hash: the maps use the lower bits.
        &self.shared.limiters[(self.shared.hasher.hash_one(key) >> 32) as usize % SHARDS]
    }

    /// Returns the limiter of a key; creates it if it does not exist.
    fn limiter<Q: Hash + Eq + ToOwned<Owned = K> + ?Sized>(&self, key: &Q) -> Result<Limiter, AcquireError>
    where
        K: std::borrow::Borrow<Q>,
    {
        let mut shard = self.shard(key).write();
        if let Some(limiter) = shard.get(key) {
            return Ok(limiter.clone());
        }
        if shard.len() >= self.shared.keys_max {
            let now_ns = now_ns(&self.clock);
            let is_held = |limiter: &Limiter| Arc::strong_count(&limiter.state) > 1;
            shard.retain(|_, limiter| is_held(limiter) || limiter.available_at(now_ns) < self.quota.burst());
            if shard.len() >= self.shared.keys_max {
                return Err(AcquireError::Keys { keys: self.shared.keys_max * SHARDS });
            }
        }
        let limiter = Limiter::with_clock(self.quota, self.clock.clone());
        shard.insert(key.to_owned(), limiter.clone());
        Ok(limiter)
    }
}
