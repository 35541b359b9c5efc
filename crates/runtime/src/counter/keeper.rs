//! A set of counters, one for each key, and the process that stores what is due.
//!
//! ```text
//!   counter(key) ──▶ shards: read lock, found ──▶ Arc<C>
//!                       └─ not found: made, and told to the keeper
//!   keeper ── every interval ──▶ C::tend(all counters)
//!          ◀── flush, stop, exit ──▶ C::tend(all counters, last) ──▶ answer
//! ```
//!
//! Invariant: everything that was done before `stop` was called is stored when it returns without an error.

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
/// Its drop has everything stored, as [`stop`](Self::stop) does, and tells nobody how that ended.
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
    /// Counters that the keeper does not know yet.
    added: Mutex<Vec<Arc<C>>>,
    looks: AtomicU64,
    failures: AtomicU64,
}

/// Why counters did not start.
#[derive(Debug, Error)]
pub enum CountersError {
    /// Use options that go together; the text says which do not.
    #[error("{0}")]
    Options(Box<dyn std::error::Error + Send + Sync>),
    /// There is no room for the process that stores them.
    #[error("cannot start the keeper of counters: {0}")]
    Spawn(#[from] SpawnError),
}

/// Asks the keeper to store everything, and to end if it is the last time.
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
    /// Counters over a store, and the process that keeps them.
    ///
    /// # Errors
    /// [`CountersError`] for options that do not go together, and at the process limit.
    pub fn start(handle: &Handle, store: S, options: C::Options) -> Result<Self, CountersError> {
        Self::over(handle, Arc::new(store), options)
    }

    /// The same over a store that others use too.
    ///
    /// # Errors
    /// As [`start`](Self::start).
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

    /// The counter of a key; one that the store does not know either begins with `initial`.
    ///
    /// # Errors
    /// As [`CounterStore::slot`]; [`StoreError::InUse`] while another set over this store has the key.
    pub fn counter(&self, key: &str, initial: i64) -> Result<Arc<C>, StoreError> {
        // The upper half: the maps use the lower bits themselves.
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

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        self.set.ground.store()
    }

    /// Times that the keeper has looked at all counters: fewer than its interval says on a machine that has no time for it.
    pub fn looks(&self) -> u64 {
        self.set.looks.load(Ordering::Relaxed)
    }

    /// Times that the store failed.
    pub fn failures(&self) -> u64 {
        self.set.failures.load(Ordering::Relaxed)
    }

    /// The process that stores what is due.
    pub const fn keeper(&self) -> Pid {
        self.keeper
    }

    /// Stores everything that was done before.
    ///
    /// # Errors
    /// As the store says; [`StoreError::Closed`] when the keeper has ended.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.order(false).await
    }

    /// Stores everything that was done before, and ends the keeper.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
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
    // A node that refuses the driver of tickers keeps counters all the same, and stores them when asked.
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
                // Who asked may have gone away.
                drop(order.answer.send(stored));
                if order.last {
                    return ExitReason::Normal;
                }
            }
        }
    }
}

/// What a message asks of the keeper.
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
