//! The workers of a stage, and the passing of items to the next stage.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::receipt::Receipts;
use super::{RESTART_PERIOD, RESTARTS, Stage};
use crate::process::context::Context;
use crate::process::exit::ExitReason;
use crate::runtime::crashes;
use crate::supervision::actor::Inbox;
use crate::supervision::pool::{Pool, Routing};
use crate::supervision::supervisor::ChildSpec;

/// Time between two looks for a worker that has been restarted.
const RESTART_WAIT: Duration = Duration::from_millis(1);
/// Shortest time between two lines of one worker about items that failed.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// An item on its way, with what it owes.
pub(super) struct Item<T> {
    pub(super) value: T,
    pub(super) receipts: Receipts,
}

/// An item that waits for a worker, which had asked for it.
pub(super) struct Waiting<T> {
    item: Item<T>,
    /// Given back when the worker takes the item, or with its mailbox.
    demand: OwnedSemaphorePermit,
}

impl<T> Waiting<T> {
    /// Takes the item, so that the worker asks for another one.
    pub(super) fn take(self) -> Item<T> {
        drop(self.demand);
        self.item
    }
}

/// The place where the items of a stage go.
pub(super) enum Output<T> {
    /// The end: messages are acknowledged.
    Finish,
    /// The workers of the next stage, and the number of items that they ask for.
    Workers(Pool<Waiting<T>>, Arc<Semaphore>),
}

impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Finish => Self::Finish,
            Self::Workers(pool, demand) => Self::Workers(pool.clone(), Arc::clone(demand)),
        }
    }
}

impl<T: Send + 'static> Output<T> {
    /// Passes an item to a worker, and waits while all workers have as many as they asked for.
    pub(super) async fn pass(&self, ctx: &Context, mut item: Item<T>) {
        item.receipts.set_begun(false);
        let Self::Workers(pool, demand) = self else { return item.receipts.ack() };
        let Ok(demand) = Arc::clone(demand).acquire_owned().await else { unreachable!("demand is never closed") };
        let worker = loop {
            let worker = pool.next(ctx);
            if ctx.runtime().is_alive(worker.pid()) {
                break worker;
            }
            // All workers are being restarted. An item sent to one of them would come again at once, in a loop.
            ctx.sleep(RESTART_WAIT).await;
        };
        worker.send(ctx, Waiting { item, demand }).await;
    }
}

/// Creates a stage, and what takes its items.
pub(super) fn start<T, U, E, H, F>(id: Arc<str>, stage: Stage, handle: H, output: Output<U>) -> (ChildSpec, Output<T>)
where
    T: Send + 'static,
    U: Send + 'static,
    E: Into<ExitReason> + Send + 'static,
    H: Fn(T) -> F + Send + Sync + 'static,
    F: Future<Output = Result<U, E>> + Send + 'static,
{
    let handle = Arc::new(handle);
    let body = move |ctx, inbox| work(ctx, inbox, Arc::clone(&handle), output.clone());
    stage_of(id, stage, body)
}

/// Creates a stage of workers that run `body`.
pub(super) fn stage_of<T, B, F>(id: Arc<str>, stage: Stage, body: B) -> (ChildSpec, Output<T>)
where
    T: Send + 'static,
    B: Fn(Context, Inbox<Waiting<T>>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let workers = stage.workers.max(1);
    let demand = workers.saturating_mul(stage.demand.max(1) as usize).min(Semaphore::MAX_PERMITS);
    // Demand belongs to the stage: a sender must not wait for one busy worker while others are idle. So no mailbox is
    // full before the demand is used up.
    let pool = Pool::new(Arc::clone(&id), workers, body)
        .mailbox_capacity(u32::try_from(demand).unwrap_or(u32::MAX))
        .routing(Routing::LeastLoaded)
        .intensity(RESTARTS, RESTART_PERIOD);
    (pool.child(id), Output::Workers(pool, Arc::new(Semaphore::new(demand))))
}

async fn work<T, U, E, H, F>(ctx: Context, mut inbox: Inbox<Waiting<T>>, handle: Arc<H>, output: Output<U>)
where
    T: Send + 'static,
    U: Send + 'static,
    E: Into<ExitReason> + Send + 'static,
    H: Fn(T) -> F + Send + Sync + 'static,
    F: Future<Output = Result<U, E>> + Send + 'static,
{
    let mut failures = Failures::default();
    loop {
        let Item { value, mut receipts } = inbox.receive(&ctx).await.take();
        receipts.set_begun(true);
        match handle(value).await {
            Ok(value) => output.pass(&ctx, Item { value, receipts }).await,
            Err(error) => failures.log(&ctx, &error.into()),
        }
    }
}

/// Items of one worker that failed, of which one in a second is logged.
#[derive(Default)]
struct Failures {
    total: u64,
    logged: Option<Instant>,
}

impl Failures {
    #[cold]
    fn log(&mut self, ctx: &Context, reason: &ExitReason) {
        self.total += 1;
        let now = Instant::now();
        if self.logged.is_none_or(|logged| now - logged >= LOG_INTERVAL) {
            self.logged = Some(now);
            crashes::log_failed_item(&ctx.called(), reason, self.total);
        }
    }
}
