//! A set of counters, one per key, and the keeper: the process that stores due changes.
//!
//! ```text
//!   counter(key) ──▶ shards: read lock, found ──▶ Arc<C>
//!                       └─ not found: created and added to the keeper's list
//!   keeper ── every interval ──▶ C::tend(all counters)
//!          ◀── flush, stop, exit ──▶ C::tend(all counters, last) ──▶ answer
//! ```
//!
//! Invariant: when `stop` returns `Ok`, everything done before the call is stored.

use std::any::type_name;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use parking_lot::{Mutex, RwLock};
use rustc_hash::{FxBuildHasher, FxHashMap};
use thiserror::Error;
use tokio::sync::oneshot;

use super::Counter;
use super::ground::Ground;
use super::store::{CounterStore, StoreError};
use crate::context::Context;
use crate::error::SpawnError;
use crate::exit::ExitReason;
use crate::handle::Handle;
use crate::message::Message;
use crate::pid::Pid;
use crate::signal::Exit;
use crate::ticker::{Frequency, TickerOptions};

const SHARDS: usize = 32;

/// Counters by key.
///
/// Dropping it stores everything as [`stop`](Self::stop) does, but does not report the outcome.
pub struct Counters<C: Counter<S>, S: CounterStore> {
    set: Arc<Set<C, S>>,
    handle: Handle,
    keeper: Pid,
}

struct Set<C: Counter<S>, S: CounterStore> {
    ground: Ground<S>,
    options: C::Options,
    shards: [RwLock<FxHashMap<Box<str>, Arc<C>>>; SHARDS],
    hasher: FxBuildHasher,
    /// Counters that the keeper has not collected yet.
    added: Mutex<Vec<Arc<C>>>,
    looks: AtomicU64,
    failures: AtomicU64,
}

/// Error returned when a set of counters cannot be started.
#[derive(Debug, Error)]
pub enum CountersError {
    /// Use consistent options; the text names the invalid one.
    #[error("{0}")]
    Options(Box<dyn std::error::Error + Send + Sync>),
    /// The process that stores the counters could not be spawned.
    #[error("cannot start the process that stores the counters: {0}")]
    Spawn(#[from] SpawnError),
}

/// A request to the keeper to store everything, and to exit if `last` is true.
struct Order {
    last: bool,
    answer: oneshot::Sender<Result<(), StoreError>>,
}

impl<C: Counter<S>, S: CounterStore> fmt::Debug for Counters<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").field("store", self.store()).field("keeper", &self.keeper).finish_non_exhaustive()
    }
}

impl<C: Counter<S>, S: CounterStore> Counters<C, S> {
    /// Starts a set of counters over a store, and its keeper process.
    ///
    /// # Errors
    /// [`CountersError`] if the options are inconsistent, or at the process limit.
    pub fn start(handle: &Handle, store: S, options: C::Options) -> Result<Self, CountersError> {
        Self::over(handle, Arc::new(store), options)
    }

    /// Starts a set of counters over a store that other code uses too.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub fn over(handle: &Handle, store: Arc<S>, options: C::Options) -> Result<Self, CountersError> {
        C::check(&options).map_err(|error| CountersError::Options(Box::new(error)))?;
        let set = Arc::new(Set {
            ground: Ground::new(handle.clone(), store),
            options,
            shards: std::array::from_fn(|_| RwLock::default()),
            hasher: FxBuildHasher,
            added: Mutex::default(),
            looks: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        });
        let kept = Arc::clone(&set);
        let keeper = handle.spawn_trapping(move |ctx| async move { keep(&ctx, &kept).await })?;
        Ok(Self { set, handle: handle.clone(), keeper })
    }

    /// Returns the counter of a key. A key that is new to the store starts with `initial`.
    ///
    /// # Errors
    /// Same as [`CounterStore::slot`]; [`StoreError::InUse`] while another set over this store uses the key.
    pub fn counter(&self, key: &str, initial: i64) -> Result<Arc<C>, StoreError> {
        // Uses the upper half of the hash: the maps use the lower bits.
        let shard = &self.set.shards[(self.set.hasher.hash_one(key) >> 32) as usize % SHARDS];
        if let Some(counter) = shard.read().get(key) {
            return Ok(Arc::clone(counter));
        }
        let mut shard = shard.write();
        if let Some(counter) = shard.get(key) {
            return Ok(Arc::clone(counter));
        }
        let slot = self.set.ground.store().slot(key, initial)?.claim()?;
        let counter = Arc::new(C::open(&self.set.ground, &self.set.options, slot));
        shard.insert(key.into(), Arc::clone(&counter));
        self.set.added.lock().push(Arc::clone(&counter));
        Ok(counter)
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<S> {
        self.set.ground.store()
    }

    /// Returns how often the keeper has checked all counters: less often than its interval on an overloaded machine.
    pub fn looks(&self) -> u64 {
        self.set.looks.load(Ordering::Relaxed)
    }

    /// Returns the number of failed attempts to store.
    pub fn failures(&self) -> u64 {
        self.set.failures.load(Ordering::Relaxed)
    }

    /// Returns the pid of the keeper, which stores due changes.
    pub const fn keeper(&self) -> Pid {
        self.keeper
    }

    /// Stores everything that was done before the call.
    ///
    /// # Errors
    /// The error of the store; [`StoreError::Closed`] if the keeper has exited.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.order(false).await
    }

    /// Stores everything that was done before the call, and ends the keeper.
    ///
    /// # Errors
    /// Same as [`flush`](Self::flush).
    pub async fn stop(self) -> Result<(), StoreError> {
        let ended = self.handle.watch(self.keeper);
        let stored = self.order(true).await;
        ended.await;
        stored
    }

    async fn order(&self, last: bool) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.handle.send(self.keeper, Order { last, answer }).await;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }
}

impl<C: Counter<S>, S: CounterStore> Drop for Counters<C, S> {
    fn drop(&mut self) {
        self.handle.exit(self.keeper, ExitReason::Shutdown);
    }
}

async fn keep<C: Counter<S>, S: CounterStore>(ctx: &Context, set: &Set<C, S>) -> ExitReason {
    ctx.set_label(format!("keeper of {}", type_name::<C>().split('<').next().unwrap_or_default()));
    let interval = C::interval(&set.options).and_then(|interval| Frequency::of_period(interval).ok());
    // If the node cannot start the ticker driver, the keeper still works, and stores on request only.
    let mut ticker = interval.and_then(|frequency| ctx.ticker(frequency, TickerOptions::default()).ok());
    let mut counters = Vec::new();
    loop {
        let message = match &mut ticker {
            None => Some(ctx.receive().await),
            Some(ticker) => {
                let mut tick = pin!(ticker.next());
                let mut receive = pin!(ctx.receive());
                poll_fn(|cx| match receive.as_mut().poll(cx) {
                    Poll::Ready(message) => Poll::Ready(Some(message)),
                    Poll::Pending => tick.as_mut().poll(cx).map(|_| None),
                })
                .await
            }
        };
        counters.append(&mut set.added.lock());
        let order = message.map(Asked::of);
        set.looks.fetch_add(1, Ordering::Relaxed);
        let stored = C::tend(&set.ground, &set.options, &counters, order.is_some()).await;
        if stored.is_err() {
            set.failures.fetch_add(1, Ordering::Relaxed);
        }
        match order {
            None | Some(Asked::Nothing) => {}
            Some(Asked::Exit(reason)) => return reason,
            Some(Asked::Order(order)) => {
                // The caller may have been dropped.
                drop(order.answer.send(stored));
                if order.last {
                    return ExitReason::Normal;
                }
            }
        }
    }
}

/// Meaning of a message to the keeper.
enum Asked {
    Order(Order),
    Exit(ExitReason),
    Nothing,
}

impl Asked {
    fn of(message: Message) -> Self {
        match message.downcast::<Order>() {
            Ok(order) => Self::Order(order),
            Err(message) => match message.downcast::<Exit>() {
                Ok(exit) => Self::Exit(exit.reason),
                Err(_) => Self::Nothing,
            },
        }
    }
}
