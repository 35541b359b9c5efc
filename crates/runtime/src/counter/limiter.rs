//! Rate limiters for whoever has something to limit: one, or one for each key.
//!
//! ```text
//!   try_acquire ──▶ admitted, or how long until it would be
//!   acquire     ──▶ takes its place in the schedule, waits until it is due ──▶ gate ──▶ admitted
//! ```
//!
//! Who gives up gives its place back, and whoever comes next may be due at the same instant as somebody behind it: the gate, which
//! nobody gives anything back to, lets them through one after the other. Until somebody has waited there is no gate.

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
use crate::ticker;

/// A longer wait than this sleeps by the reactor's timer first, which is cheap and right to the millisecond.
const COARSE_WAIT: Duration = Duration::from_millis(5);
/// How much of a long wait is left to the precise timer.
const PRECISE_WAIT: Duration = Duration::from_millis(2);

/// Why units were not acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AcquireError {
    /// Try again after this time, at which they will be there if nobody else takes them.
    #[error("the rate is used up for {after:?}")]
    Later {
        /// The time to wait.
        after: Duration,
    },
    /// Ask for less: so many will never be there at once.
    #[error("{units} at once are more than the burst of {burst}")]
    MoreThanBurst {
        /// The units asked for.
        units: u64,
        /// The most that is there at once.
        burst: u64,
    },
    /// Wait until keys are idle, or allow more of them.
    #[error(
        "no room for another key: this limiter keeps {keys} in {SHARDS} parts, and the part of this key has only keys in use"
    )]
    Keys {
        /// The most keys of all parts.
        keys: usize,
    },
}

/// A rate limiter; clones are the same one. It needs neither a runtime nor a thread.
///
/// ```
/// use rusm_runtime::counter::{AcquireError, Limiter, Quota};
///
/// let limiter = Limiter::new(Quota::per_sec(10.0, 2)?);
/// assert!(limiter.try_acquire(1).is_ok() && limiter.try_acquire(1).is_ok());
/// assert!(matches!(limiter.try_acquire(1), Err(AcquireError::Later { after }) if after.as_millis() <= 100));
/// # Ok::<(), rusm_runtime::counter::QuotaError>(())
/// ```
#[derive(Clone)]
pub struct Limiter {
    lanes: Arc<Lanes>,
    clock: CoarseClock,
}

struct Lanes {
    /// Who waits has a place in it, and may give it back.
    gcra: Gcra,
    is_gated: AtomicBool,
    gate: OnceLock<Gcra>,
}

impl Lanes {
    /// Who was admitted, whatever others gave back.
    ///
    /// Whoever took units before looks at the mark after, and whoever makes the gate sets the mark before it looks at what was
    /// taken: so one of both sees the other, and if both do, the gate lets somebody wait for nothing.
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
    /// A limiter whose burst is there.
    pub fn new(quota: Quota) -> Self {
        Self::with_clock(quota, CoarseClock::new())
    }

    fn with_clock(quota: Quota, clock: CoarseClock) -> Self {
        let gcra = Gcra::new(quota, now_ns(&clock));
        Self { lanes: Arc::new(Lanes { gcra, is_gated: AtomicBool::new(false), gate: OnceLock::new() }), clock }
    }

    /// What it limits to.
    pub fn quota(&self) -> Quota {
        self.lanes.gcra.quota()
    }

    /// Takes units now or not at all.
    ///
    /// # Errors
    /// [`AcquireError::Later`] with the time after which they will be there; [`AcquireError::MoreThanBurst`].
    #[inline]
    pub fn try_acquire(&self, units: u64) -> Result<(), AcquireError> {
        let (now_ns, lanes) = (now_ns(&self.clock), &*self.lanes);
        let taken = lanes.gcra.take(units, now_ns).and_then(|()| {
            if lanes.is_gated.load(Ordering::SeqCst) { Self::pass(lanes, units, now_ns) } else { Ok(()) }
        });
        taken.map_err(|after| self.refusal(units, after))
    }

    fn pass(lanes: &Lanes, units: u64, now_ns: u64) -> Result<(), Option<Duration>> {
        lanes.gate().take(units, now_ns).inspect_err(|_| lanes.gcra.give_back(units))
    }

    /// Takes units and waits until they are there: for its turn, not for luck. Those who came before are served before.
    ///
    /// A future that is dropped gives back what it has not waited for. Outside of a process it needs a tokio runtime.
    ///
    /// # Errors
    /// [`AcquireError::MoreThanBurst`].
    pub async fn acquire(&self, units: u64) -> Result<(), AcquireError> {
        let burst = self.quota().burst();
        if units > burst {
            return Err(AcquireError::MoreThanBurst { units, burst });
        }
        let (begun_ns, gate) = (now_ns(&self.clock), self.lanes.gate());
        let wait = self.lanes.gcra.reserve(units, begun_ns);
        let place = Place { gcra: &self.lanes.gcra, units };
        let mut due_ns = begun_ns.saturating_add(super::cadence::nanos(wait));
        loop {
            let left = due_ns.saturating_sub(now_ns(&self.clock));
            if left > 0 {
                sleep(Duration::from_nanos(left)).await;
                continue;
            }
            // By its instant in the schedule, not by the clock: who wakes late takes nothing of the rate.
            match gate.take(units, due_ns) {
                Err(Some(after)) => due_ns = due_ns.saturating_add(super::cadence::nanos(after)),
                Ok(()) | Err(None) => break,
            }
        }
        std::mem::forget(place);
        Ok(())
    }

    /// Units that are there.
    pub fn available(&self) -> u64 {
        self.available_at(now_ns(&self.clock))
    }

    fn available_at(&self, now_ns: u64) -> u64 {
        let gate = self.lanes.gate.get().map_or(u64::MAX, |gate| gate.available(now_ns));
        self.lanes.gcra.available(now_ns).min(gate)
    }

    #[cold]
    fn refusal(&self, units: u64, after: Option<Duration>) -> AcquireError {
        let burst = self.quota().burst();
        after.map_or(AcquireError::MoreThanBurst { units, burst }, |after| AcquireError::Later { after })
    }
}

/// A place in the schedule, given back unless its time came.
struct Place<'a> {
    gcra: &'a Gcra,
    units: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gcra.give_back(self.units);
    }
}

/// The time that limiters follow: in a process whose time is virtual, that.
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
        Some(tickers) => ticker::sleep_by(tickers, left).await,
        None => false,
    };
    if !slept {
        tokio::time::sleep(left).await;
    }
}

const SHARDS: usize = 32;

/// A limiter for each key, all with the same quota; clones are the same one.
///
/// ```
/// use rusm_runtime::counter::{KeyedLimiter, Quota};
///
/// let limiter = KeyedLimiter::new(Quota::per_sec(5.0, 1)?, 100_000);
/// assert!(limiter.try_acquire("10.0.0.1", 1).is_ok());
/// assert!(limiter.try_acquire("10.0.0.1", 1).is_err());
/// assert!(limiter.try_acquire("10.0.0.2", 1).is_ok());
/// # Ok::<(), rusm_runtime::counter::QuotaError>(())
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
    /// A limiter for so many keys at a time, at the most: they fall into 32 parts by chance, each for one in 32 of `keys_max`,
    /// rounded up. A part may be full before the others are, so give a fifth more than you need. Keys whose burst is there again are forgotten when others need the room,
    /// which changes nothing for them.
    pub fn new(quota: Quota, keys_max: usize) -> Self {
        let shards = Shards {
            limiters: std::array::from_fn(|_| RwLock::default()),
            hasher: FxBuildHasher,
            keys_max: keys_max.div_ceil(SHARDS).max(1),
        };
        Self { shared: Arc::new(shards), quota, clock: CoarseClock::new() }
    }

    /// Takes units of a key now or not at all.
    ///
    /// # Errors
    /// As [`Limiter::try_acquire`], and [`AcquireError::Keys`] when too many keys of its part are in use.
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

    /// Takes units of a key and waits until they are there.
    ///
    /// # Errors
    /// As [`Limiter::acquire`], and [`AcquireError::Keys`] when too many keys of its part are in use.
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

    /// Keys that are remembered.
    pub fn keys(&self) -> usize {
        self.shared.limiters.iter().map(|shard| shard.read().len()).sum()
    }

    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> &RwLock<FxHashMap<K, Limiter>> {
        // The upper half: the maps use the lower bits themselves.
        &self.shared.limiters[(self.shared.hasher.hash_one(key) >> 32) as usize % SHARDS]
    }

    /// The limiter of a key, made when there is none.
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
            let is_held = |limiter: &Limiter| Arc::strong_count(&limiter.lanes) > 1;
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
