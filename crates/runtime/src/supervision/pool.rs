//! Pools: equal workers under one supervisor, and the choice of a worker for each message, without a process in between.
//!
//! ```text
//!   send ─▶ Routing: the next, the least loaded, or the worker of a key ─▶ slot ─▶ pid of the worker that runs now
//!                                                                           ▲
//!                            supervisor: starts and restarts the workers ───┘
//! ```

mod partitions;
mod workers;

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

pub use partitions::PartitionSupervisor;
pub(crate) use workers::WorkerSlot;

use crate::mailbox::call::{CallError, Caller};
use crate::mailbox::request::ReplyTo;
use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::exit::Outcome;
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;
use crate::supervision::actor::{Actor, Address, Inbox};
use crate::supervision::supervisor::{ChildSpec, SupervisorRef};

/// The way in which a [`Pool`] chooses the worker for a message without a key.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::pool::{Pool, Routing};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let printers = Pool::new("printer", 2, |ctx, mut inbox| async move {
///         loop {
///             let line: String = inbox.receive(&ctx).await;
///             println!("{line}");
///         }
///     });
///     let printers = printers.routing(Routing::LeastLoaded);
///     printers.start_link(&ctx).await.expect("the workers start");
///     printers.send(&ctx, "to the shorter mailbox".to_owned()).await;
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Each worker in its turn. Senders on several threads may choose the same worker at the same time.
    #[default]
    RoundRobin,
    /// The worker with the shortest mailbox, and of several the one that handles no message; in a pool of more than 8
    /// workers, the better one of two in turn.
    LeastLoaded,
}

/// Equal workers that share messages of type `M`; cheap to clone.
///
/// A pool is a reference to its workers, and stays valid when they are restarted. A message that is sent while its
/// worker restarts is lost, like one to a process that has ended.
///
/// One supervisor at a time runs the workers: those of a second start take the places of the first ones.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::pool::Pool;
/// use rusm::{Config, ReplyTo, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let squares = Pool::new("square", 4, |ctx, mut inbox| async move {
///         loop {
///             let (number, reply): (u64, ReplyTo<u64>) = inbox.receive(&ctx).await;
///             reply.send(&ctx, number * number);
///         }
///     });
///     squares.start_link(&ctx).await.expect("the workers start");
///     assert_eq!(squares.call(&ctx, |reply| (6, reply)).await, Ok(36));
///     assert_eq!(squares.call_by_key(&ctx, "Ada", |reply| (7, reply)).await, Ok(49));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<M> {
    partitions: PartitionSupervisor,
    routing: Routing,
    kind: PhantomData<fn(M)>,
}

impl<M> Clone for Pool<M> {
    fn clone(&self) -> Self {
        Self { partitions: self.partitions.clone(), routing: self.routing, kind: PhantomData }
    }
}

impl<M> fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("partitions", &self.partitions).field("routing", &self.routing).finish()
    }
}

impl<M: Send + 'static> Pool<M> {
    /// Creates a pool of workers that run this function; `id` and a number are the ids of the workers. They start with
    /// [`start_link`](Self::start_link), or as a [`child`](Self::child) of a supervisor.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn new<B, F>(id: impl Into<Arc<str>>, size: usize, body: B) -> Self
    where
        B: Fn(Context, Inbox<M>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let id = id.into();
        Self::of(PartitionSupervisor::new(size, |_| {
            let body = body.clone();
            ChildSpec::new(Arc::clone(&id), move |ctx| body(ctx, Inbox::new()))
        }))
    }

    /// Creates a pool of actors, each of which is started with a copy of the same arguments.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn of_actors<A>(id: impl Into<Arc<str>>, size: usize, args: &A::Args) -> Self
    where
        A: Actor<Message = M, Args: Clone + Sync>,
    {
        let id = id.into();
        Self::of(PartitionSupervisor::new(size, |_| A::child(Arc::clone(&id), args.clone())))
    }

    const fn of(partitions: PartitionSupervisor) -> Self {
        Self { partitions, routing: Routing::RoundRobin, kind: PhantomData }
    }

    /// Sets the maximum number of messages in the mailbox of each worker, at least 1. Default: that of the
    /// [`Config`](crate::Config).
    ///
    /// With [`Routing::LeastLoaded`], a message then goes to a worker that has room, and senders wait while none has.
    pub fn mailbox_capacity(self, messages: u32) -> Self {
        Self { partitions: self.partitions.mailbox_capacity(messages), ..self }
    }

    /// Sets how a worker is chosen for a message without a key. Default: each in its turn.
    pub fn routing(self, routing: Routing) -> Self {
        Self { routing, ..self }
    }

    /// Allows up to `restarts` restarts of all workers together within `period`; see
    /// [`Supervisor::intensity`](crate::supervisor::Supervisor::intensity).
    pub fn intensity(self, restarts: u32, period: Duration) -> Self {
        Self { partitions: self.partitions.intensity(restarts, period), ..self }
    }

    /// Starts the workers under a supervisor that is linked to this process.
    ///
    /// # Errors
    /// [`InitError`] if a worker does not start.
    pub async fn start_link(&self, ctx: &Context) -> Result<SupervisorRef, InitError> {
        self.partitions.start_link(ctx).await
    }

    /// Starts the workers from outside.
    ///
    /// # Errors
    /// [`InitError`] if a worker does not start.
    pub async fn start(&self, runtime: &Handle) -> Result<SupervisorRef, InitError> {
        self.partitions.start(runtime).await
    }

    /// Returns the specification by which a supervisor starts the workers.
    pub fn child(&self, id: impl Into<Arc<str>>) -> ChildSpec {
        self.partitions.child(id)
    }

    /// Returns the number of workers.
    pub fn size(&self) -> usize {
        self.partitions.count()
    }

    /// Returns the workers that have started.
    pub fn workers(&self) -> Vec<Address<M>> {
        self.partitions.pids().into_iter().map(Address::of).collect()
    }

    /// Chooses a worker. Before the workers have started, the address is that of no process.
    #[inline]
    pub fn next(&self, by: &impl Caller) -> Address<M> {
        Address::of(match self.routing {
            Routing::RoundRobin => self.partitions.workers().next(),
            Routing::LeastLoaded => by.with_shared(|shared| self.partitions.workers().least_loaded(shared)),
        })
    }

    /// Returns the worker of a key, which is always the same one.
    #[inline]
    pub fn of_key<K: Hash + ?Sized>(&self, key: &K) -> Address<M> {
        Address::of(self.partitions.pid_of(key).unwrap_or(Pid::NONE))
    }

    /// Sends a message to a worker, and waits while its mailbox is full.
    #[inline]
    pub fn send(&self, by: &impl Caller, message: M) -> impl Future<Output = ()> + Send {
        self.next(by).send(by, message)
    }

    /// Sends a message to the worker of a key.
    pub async fn send_by_key<K: Hash + Sync + ?Sized>(&self, by: &impl Caller, key: &K, message: M) {
        self.of_key(key).send(by, message).await;
    }

    /// Calls a worker; see [`Address::call`].
    ///
    /// # Errors
    /// [`CallError`] as of [`Context::call`].
    pub async fn call<R: Send + 'static>(
        &self,
        by: &impl Caller,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> Result<R, CallError> {
        self.next(by).call(by, make).await
    }

    /// Calls the worker of a key.
    ///
    /// # Errors
    /// [`CallError`] as of [`Context::call`].
    pub async fn call_by_key<K: Hash + Sync + ?Sized, R: Send + 'static>(
        &self,
        by: &impl Caller,
        key: &K,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> Result<R, CallError> {
        self.of_key(key).call(by, make).await
    }
}
