//! Pipelines: stages of workers that take items from a subscription on demand, and acknowledge each item at its end.
//!
//! ```text
//!   subscription ─▶ source ─▶ worker, worker ─▶ batch ─▶ worker ─▶ end: ack
//!        ▲            │ waits while each worker of the next stage has as many items as it asked for
//!        └─ nack ◀────┴── an item is dropped anywhere: by an error, by a crash, with a mailbox
//! ```
//!
//! An item carries a receipt for each message that it came from. The end of the pipeline acknowledges them. A receipt
//! that is dropped before that returns its message to the subscription, whoever dropped it: so no item is lost, and
//! each is handled at least once. Stages start from the end, so that a source never sends to a stage that does not
//! exist.

mod batch;
mod receipt;
mod worker;

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;

use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::exit::ExitReason;
use crate::runtime::handle::Handle;
use crate::supervision::actor::without_messages;
use crate::supervision::supervisor::{ChildSpec, Restart, Strategy, Supervisor, SupervisorRef};
use crate::topic::{Lease, Subscription};
use receipt::{Receipt, Receipts};
use worker::{Item, Output};

/// Default of [`Stage::demand`].
pub const DEMAND: u32 = 16;

/// Workers of a stage, and the number of items that each of them takes at a time.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::pipeline::Stage;
///
/// let stage = Stage { demand: 4, ..Stage::workers(8) };
/// assert_eq!((stage.workers, stage.demand), (8, 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Number of workers, at least 1. Default: 1.
    pub workers: usize,
    /// Number of items that a worker asks for before it needs them, at least 1. Default: [`DEMAND`]. The stage before it
    /// waits while none is asked for. More keeps workers busy, fewer divides the items more evenly.
    pub demand: u32,
}

impl Default for Stage {
    fn default() -> Self {
        Self { workers: 1, demand: DEMAND }
    }
}

impl Stage {
    /// Returns a stage with this number of workers and the usual demand.
    pub fn workers(workers: usize) -> Self {
        Self { workers, ..Self::default() }
    }
}

/// Creates the stages up to one, from the last to the source; the argument takes what the last one produces.
type Connect<T> = Box<dyn FnOnce(Output<T>) -> Vec<ChildSpec> + Send>;

/// A pipeline whose last stage produces items of type `T`. It starts with [`start_link`](Self::start_link), or as a
/// [`child`](Self::child) of a supervisor.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::pipeline::{Pipeline, Stage};
/// use rusm::topic::{Message, SubscriptionConfig};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let orders = runtime.topics().create("orders")?;
/// let billing = orders.create_subscription("billing", SubscriptionConfig::default())?;
///
/// let pipeline = Pipeline::from_subscription("billing", &billing)
///     .stage("parse", Stage::workers(4), |lease| async move {
///         Ok::<u64, ExitReason>(std::str::from_utf8(lease.message.payload())?.parse()?)
///     })
///     .batches("collect", 100, Duration::from_millis(5))
///     .stage("write", Stage::default(), |amounts: Vec<u64>| async move {
///         println!("{} orders, {} in all", amounts.len(), amounts.iter().sum::<u64>());
///         Ok::<(), ExitReason>(())
///     });
/// runtime.block_on(|ctx| async move {
///     pipeline.start_link(&ctx).await.expect("the stages start");
///     for amount in 0..1_000 {
///         orders.publish(Message::new(amount.to_string())).await.expect("the topic is open");
///     }
///     while billing.account().acked < 1_000 {
///         ctx.yield_now().await;
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Acknowledgement.** A message is acknowledged when the last stage has returned `Ok` for its item.
/// If a stage returns an error, or its worker crashes, the messages of the item come again, as the
/// [`SubscriptionConfig`](crate::topic::SubscriptionConfig) says: after its `retry` delay, and until they are dead
/// letters. Items that only waited for the worker come again too, without an attempt being counted. The `ack_deadline`
/// must be longer than an item needs for all stages.
///
/// **Demand.** At most `workers * (demand + 1)` items are in a stage, and its `size` and [`DEMAND`] in one of batches. The stage before it waits for the others, and in the
/// end the source does: messages then stay in the topic, where they can be seen. Several workers change the
/// order of items; with an [`ordered`](crate::topic::SubscriptionConfig::ordered) subscription, the items of a key stay
/// in order nevertheless.
///
/// **Crashes.** Workers are supervised: each stage is a supervisor that allows [`RESTARTS`] in [`RESTART_PERIOD`].
pub struct Pipeline<T> {
    connect: Connect<T>,
}

/// Number of crashes of the workers of a stage that are allowed in [`RESTART_PERIOD`].
pub const RESTARTS: u32 = 100;
/// Period in which crashes of a stage are counted.
pub const RESTART_PERIOD: Duration = Duration::from_secs(5);

impl<T> fmt::Debug for Pipeline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").finish_non_exhaustive()
    }
}

impl Pipeline<Lease> {
    /// Creates a pipeline with a source that takes messages from a subscription. The source ends when the topic is closed and all
    /// messages are acknowledged; the stages wait until the supervisor is stopped.
    pub fn from_subscription(id: impl Into<Arc<str>>, subscription: &Subscription) -> Self {
        let subscription = subscription.clone();
        Self::new(id, move |ctx, output| {
            let subscription = subscription.clone();
            async move {
                let mut consumer = subscription.consumer();
                let place = consumer.place();
                let source = async {
                    while let Ok(lease) = consumer.next().await {
                        let receipts = Receipts::of(Receipt::new(&place, lease.id));
                        output.pass(&ctx, Item { value: lease, receipts }).await;
                    }
                };
                without_messages(&ctx, source).await;
            }
        })
    }
}

impl<T: Send + 'static> Pipeline<T> {
    /// Creates a pipeline whose source takes items from a stream, which `open` creates at each start of the source.
    /// Nothing is acknowledged: an item that fails is lost. The source ends with the stream; the stages wait until the supervisor
    /// is stopped.
    pub fn from_stream<S>(id: impl Into<Arc<str>>, open: impl Fn() -> S + Send + Sync + 'static) -> Self
    where
        S: Stream<Item = T> + Send + 'static,
    {
        Self::new(id, move |ctx, output| {
            let items = open();
            async move {
                let mut items = Box::pin(items);
                let source = async {
                    while let Some(value) = poll_fn(|cx| items.as_mut().poll_next(cx)).await {
                        output.pass(&ctx, Item { value, receipts: Receipts::default() }).await;
                    }
                };
                without_messages(&ctx, source).await;
            }
        })
    }

    fn new<F>(id: impl Into<Arc<str>>, run: impl Fn(Context, Output<T>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = id.into();
        let connect = move |output: Output<T>| {
            vec![ChildSpec::new(id, move |ctx| run(ctx, output.clone())).restart(Restart::Transient)]
        };
        Self { connect: Box::new(connect) }
    }

    /// Adds a stage whose workers call `handle` for each item, and pass on what it returns.
    pub fn stage<U, E, H, F>(self, id: impl Into<Arc<str>>, stage: Stage, handle: H) -> Pipeline<U>
    where
        U: Send + 'static,
        E: Into<ExitReason> + Send + 'static,
        H: Fn(T) -> F + Send + Sync + 'static,
        F: Future<Output = Result<U, E>> + Send + 'static,
    {
        let id = id.into();
        self.then(move |output| worker::start(id, stage, handle, output))
    }

    /// Adds a stage that collects items, and passes on up to `size` of them together, at the latest `delay` after the
    /// first one. Their messages are acknowledged together.
    pub fn batches(self, id: impl Into<Arc<str>>, size: usize, delay: Duration) -> Pipeline<Vec<T>> {
        let id = id.into();
        self.then(move |output| batch::start(id, size.max(1), delay, output))
    }

    /// Adds a stage; `start` creates its child and what takes its items.
    fn then<U>(self, start: impl FnOnce(Output<U>) -> (ChildSpec, Output<T>) + Send + 'static) -> Pipeline<U> {
        let connect = move |output| {
            let (child, input) = start(output);
            let mut children = vec![child];
            children.extend((self.connect)(input));
            children
        };
        Pipeline { connect: Box::new(connect) }
    }

    /// Starts the stages under a supervisor that is linked to this process.
    ///
    /// # Errors
    /// [`InitError`] if a stage does not start.
    pub async fn start_link(self, ctx: &Context) -> Result<SupervisorRef, InitError> {
        self.supervisor().start_link(ctx).await
    }

    /// Starts the stages from outside.
    ///
    /// # Errors
    /// [`InitError`] if a stage does not start.
    pub async fn start(self, runtime: &Handle) -> Result<SupervisorRef, InitError> {
        self.supervisor().start(runtime).await
    }

    /// Returns the specification by which a supervisor starts the stages.
    pub fn child(self, id: impl Into<Arc<str>>) -> ChildSpec {
        ChildSpec::supervisor(id, self.supervisor())
    }

    fn supervisor(self) -> Supervisor {
        // A stage that is started anew takes those along that send to it.
        (self.connect)(Output::Finish).into_iter().fold(Supervisor::new(Strategy::RestForOne), Supervisor::child)
    }
}
