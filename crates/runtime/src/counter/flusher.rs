//! A set of counters, one per key, and the flusher: the process that stores due changes.
//!
//! ```text
//!   counter(key) ──▶ shards: read lock, found ──▶ Arc<C>
//!                       └─ not found: created and added to the flusher's list
//!   flusher ── every interval ──▶ C::maintain(all counters)
//!          ◀── flush, stop, exit ──▶ C::maintain(all counters, last) ──▶ reply
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

use super::backend::Backend;
use super::store::{CounterStore, CounterStoreError};
use super::variant::Counter;
use crate::links::signal::Exit;
use crate::mailbox::message::Message;
use crate::process::context::Context;
use crate::process::error::SpawnError;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;
use crate::time::ticker::{Frequency, TickerOptions};

const SHARDS: usize = 32;

/// Counters by key.
///
/// Dropping it stores everything as [`stop`](Self::stop) does, but does not report the outcome.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::counter::{AtomicCounter, Counter, Counters, MemoryStore, NoOptions};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let stock = Counters::<AtomicCounter<MemoryStore>, _>::start(&runtime, MemoryStore::new(), NoOptions)?;
/// let apples = stock.counter("apples", 100)?;
/// runtime.block_on(move |_| async move {
///     apples.update(30).await.expect("the memory stores it");
///     assert_eq!(apples.value(), 70);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Counters<C: Counter<S>, S: CounterStore> {
    set: Arc<CounterSet<C, S>>,
    handle: Handle,
    flusher: Pid,
}

struct CounterSet<C: Counter<S>, S: CounterStore> {
    backend: Backend<S>,
    options: C::Options,
    shards: [RwLock<FxHashMap<Box<str>, Arc<C>>>; SHARDS],
    hasher: FxBuildHasher,
    /// Counters that the flusher has not collected yet.
    added: Mutex<Vec<Arc<C>>>,
    checks: AtomicU64,
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

/// A request to the flusher to store everything, and to exit if `last` is true.
struct FlushRequest {
    last: bool,
    reply: oneshot::Sender<Result<(), CounterStoreError>>,
}

impl<C: Counter<S>, S: CounterStore> fmt::Debug for Counters<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").field("store", self.store()).field("flusher", &self.flusher).finish_non_exhaustive()
    }
}

impl<C: Counter<S>, S: CounterStore> Counters<C, S> {
    /// Starts a set of counters over a store, and its flusher process.
    ///
    /// # Errors
    /// [`CountersError`] if the options are inconsistent, or at the process limit.
    pub fn start(handle: &Handle, store: S, options: C::Options) -> Result<Self, CountersError> {
        Self::with_store(handle, Arc::new(store), options)
    }

    /// Starts a set of counters over a store that other code uses too.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub fn with_store(handle: &Handle, store: Arc<S>, options: C::Options) -> Result<Self, CountersError> {
        C::check(&options).map_err(|error| CountersError::Options(Box::new(error)))?;
        let set = Arc::new(CounterSet {
            backend: Backend::new(handle.clone(), store),
            options,
            shards: std::array::from_fn(|_| RwLock::default()),
            hasher: FxBuildHasher,
            added: Mutex::default(),
            checks: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        });
        let flusher_set = Arc::clone(&set);
        let flusher = handle.spawn_trapping(move |ctx| async move { run_flusher(&ctx, &flusher_set).await })?;
        Ok(Self { set, handle: handle.clone(), flusher })
    }

    /// Returns the counter of a key. A key that is new to the store starts with `initial`.
    ///
    /// # Errors
    /// Same as [`CounterStore::slot`]; [`CounterStoreError::InUse`] while another set over this store uses the key.
    pub fn counter(&self, key: &str, initial: i64) -> Result<Arc<C>, CounterStoreError> {
        // Uses the upper half of the hash: the maps use the lower bits.
        let shard = &self.set.shards[(self.set.hasher.hash_one(key) >> 32) as usize % SHARDS];
        if let Some(counter) = shard.read().get(key) {
            return Ok(Arc::clone(counter));
        }
        let mut shard = shard.write();
        if let Some(counter) = shard.get(key) {
            return Ok(Arc::clone(counter));
        }
        let slot = self.set.backend.store().slot(key, initial)?.claim()?;
        let counter = Arc::new(C::open(&self.set.backend, &self.set.options, slot));
        shard.insert(key.into(), Arc::clone(&counter));
        self.set.added.lock().push(Arc::clone(&counter));
        Ok(counter)
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<S> {
        self.set.backend.store()
    }

    /// Returns how often the flusher has checked all counters: less often than its interval on an overloaded machine.
    pub fn checks(&self) -> u64 {
        self.set.checks.load(Ordering::Relaxed)
    }

    /// Returns the number of failed attempts to store.
    pub fn failures(&self) -> u64 {
        self.set.failures.load(Ordering::Relaxed)
    }

    /// Returns the pid of the flusher, which stores due changes.
    pub const fn flusher(&self) -> Pid {
        self.flusher
    }

    /// Stores everything that was done before the call.
    ///
    /// # Errors
    /// The error of the store; [`CounterStoreError::Closed`] if the flusher has exited.
    pub async fn flush(&self) -> Result<(), CounterStoreError> {
        self.request_flush(false).await
    }

    /// Stores everything that was done before the call, and ends the flusher.
    ///
    /// # Errors
    /// Same as [`flush`](Self::flush).
    pub async fn stop(self) -> Result<(), CounterStoreError> {
        let ended = self.handle.watch(self.flusher);
        let stored = self.request_flush(true).await;
        ended.await;
        stored
    }

    async fn request_flush(&self, last: bool) -> Result<(), CounterStoreError> {
        let (reply, replied) = oneshot::channel();
        self.handle.send(self.flusher, FlushRequest { last, reply }).await;
        replied.await.unwrap_or(Err(CounterStoreError::Closed))
    }
}

impl<C: Counter<S>, S: CounterStore> Drop for Counters<C, S> {
    fn drop(&mut self) {
        self.handle.exit(self.flusher, ExitReason::Shutdown);
    }
}

async fn run_flusher<C: Counter<S>, S: CounterStore>(ctx: &Context, set: &CounterSet<C, S>) -> ExitReason {
    ctx.set_label(format!("flusher of {}", type_name::<C>().split('<').next().unwrap_or_default()));
    let interval = C::interval(&set.options).and_then(|interval| Frequency::of_period(interval).ok());
    // If the node cannot start the ticker driver, the flusher still works, and stores on request only.
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
        let request = message.map(Command::of);
        set.checks.fetch_add(1, Ordering::Relaxed);
        let stored = C::maintain(&set.backend, &set.options, &counters, request.is_some()).await;
        if stored.is_err() {
            set.failures.fetch_add(1, Ordering::Relaxed);
        }
        match request {
            None | Some(Command::Other) => {}
            Some(Command::Exit(reason)) => return reason,
            Some(Command::Flush(request)) => {
                // The caller may have been dropped.
                drop(request.reply.send(stored));
                if request.last {
                    return ExitReason::Normal;
                }
            }
        }
    }
}

/// Meaning of a message to the flusher.
enum Command {
    Flush(FlushRequest),
    Exit(ExitReason),
    Other,
}

impl Command {
    fn of(message: Message) -> Self {
        match message.downcast::<FlushRequest>() {
            Ok(request) => Self::Flush(request),
            Err(message) => match message.downcast::<Exit>() {
                Ok(exit) => Self::Exit(exit.reason),
                Err(_) => Self::Other,
            },
        }
    }
}
