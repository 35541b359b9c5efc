//! A guest as the body of a process: its store, its first instruction, and its last.

#![expect(unsafe_code, reason = "pins the part of a future that is one")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use wasmtime::{Extern, Instance, ModuleExport, Store, StoreContextMut, UpdateDeadline};
use wasmtime_wasi::p2::bindings::CommandPre;

use super::bindings::ActorPre;
use super::host::words;
use super::module::Code;
use super::share::Share;
use super::spare::Spare;
use super::state::State;
use super::vitals::Vitals;
use super::wasi::Wasi;
use crate::{Context, ExitReason, scheduler};

/// All that a guest begins with.
pub(crate) struct Start {
    pub(crate) args: Vec<String>,
    /// Given back when all else is gone.
    pub(crate) permit: Permit,
}

/// One of the instances that may live at once.
pub(crate) struct Permit(pub(super) Arc<Vitals>);

impl Permit {
    /// What the instance is.
    pub(super) fn vitals(&self) -> Arc<Vitals> {
        Arc::clone(&self.0)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.module.tally.end();
        self.0.node.give_back();
    }
}

/// Runs a guest from its first instruction to its last.
///
/// Its first poll makes nearly all of what a guest is. One that has not run yet thus fits into its control block, and in a
/// storm of short ones each is made where the one before it was, in memory that the processor still has at hand.
pub(crate) fn run(ctx: Context, start: Start) -> impl Future<Output = ExitReason> + Send {
    let Start { args, permit } = start;
    let vitals = permit.vitals();
    let share = Share::new(vitals.bounds.cpu_max_percent, vitals.node.config.tick);
    let guest = async move {
        ctx.account_memory((bytes_of(life) + size_of::<State>()) as u64);
        Box::pin(life(ctx, vitals, args)).await
    };
    Sliced { guest, share, permit }
}

const fn bytes_of<F>(_: fn(Context, Arc<Vitals>, Vec<String>) -> F) -> usize {
    size_of::<F>()
}

/// The future is a part of what a guest that waits takes of memory: nothing is in it twice, and what only
/// begins a guest is in a room of its own that is given back by then.
async fn life(ctx: Context, vitals: Arc<Vitals>, args: Vec<String>) -> ExitReason {
    let mut store = store(ctx, &vitals, args);
    let ended = call(&mut store, &vitals.module.code).await;
    vitals.node.ended(ended, store.data_mut())
}

fn store(ctx: Context, vitals: &Arc<Vitals>, args: Vec<String>) -> Store<State> {
    let mut state = State::new(ctx, Arc::clone(vitals), args);
    if vitals.module.needs_wasi {
        state.wasi = Some(Box::new(Wasi::new(&state)));
    }
    let mut store = Store::new(&vitals.node.engine, state);
    store.limiter(|state| state);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(epoch);
    store
}

async fn call(store: &mut Store<State>, code: &Code) -> wasmtime::Result<ExitReason> {
    match code {
        // The ways of components are several times as large as those of modules, who need not pay for them.
        Code::Actor(pre) => Box::pin(actor(store, pre)).await,
        Code::Command(pre) => Box::pin(command(store, pre)).await,
        Code::Raw { pre, initialize, run, results } => {
            let instance = Spare::new(pre.instantiate_async(&mut *store)).await?;
            if let Some(initialize) = initialize {
                Box::pin(initialize_by(store, instance, initialize)).await?;
            }
            let run = instance.get_module_export(&mut *store, run).and_then(Extern::into_func);
            let Some(run) = run else { return Ok(ExitReason::other("no function run")) };
            if *results == 0 {
                let run = run.typed::<(), ()>(&*store)?;
                run.call_async(&mut *store, ()).await?;
            } else {
                let mut given = vec![wasmtime::Val::I32(0); *results];
                run.call_async(&mut *store, &[], &mut given).await?;
            }
            Ok(ExitReason::Normal)
        }
        Code::Wasip1(pre) => {
            let instance = Spare::new(pre.instantiate_async(&mut *store)).await?;
            let start = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
            start.call_async(&mut *store, ()).await?;
            Ok(ExitReason::Normal)
        }
    }
}

/// What a module of a language with constructors has done before anything else.
async fn initialize_by(
    store: &mut Store<State>,
    instance: Instance,
    initialize: &ModuleExport,
) -> wasmtime::Result<()> {
    let initialize = instance.get_module_export(&mut *store, initialize).and_then(Extern::into_func);
    match initialize {
        Some(initialize) => initialize.typed::<(), ()>(&*store)?.call_async(&mut *store, ()).await,
        None => Ok(()),
    }
}

async fn actor(store: &mut Store<State>, pre: &ActorPre<State>) -> wasmtime::Result<ExitReason> {
    let actor = Spare::new(pre.instantiate_async(&mut *store)).await?;
    let args = std::mem::take(&mut store.data_mut().args);
    let ended = actor.call_run(&mut *store, &args).await?;
    Ok(ended.map_or_else(|why| ExitReason::Other(words::why(&why)), |()| ExitReason::Normal))
}

async fn command(store: &mut Store<State>, pre: &CommandPre<State>) -> wasmtime::Result<ExitReason> {
    let command = Spare::new(pre.instantiate_async(&mut *store)).await?;
    let ended = command.wasi_cli_run().call_run(&mut *store).await?;
    Ok(if ended.is_ok() { ExitReason::Normal } else { ExitReason::other("run returned an error") })
}

#[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "as the engine calls it")]
/// A guest has come to the end of an epoch: others get their turn, unless its own has only just begun.
fn epoch(store: StoreContextMut<'_, State>) -> wasmtime::Result<UpdateDeadline> {
    let vitals = &store.data().vitals;
    let ticker = &vitals.node.ticker;
    ticker.runs(scheduler_number());
    if ticker.ticks() == vitals.slice_began() {
        return Ok(UpdateDeadline::Continue(1));
    }
    if let Some(local) = scheduler::local() {
        local.poll_is_long();
    }
    vitals.count_slice();
    Ok(UpdateDeadline::Yield(1))
}

fn scheduler_number() -> usize {
    scheduler::local().map_or(0, scheduler::Local::number)
}

/// Tells the ticker when the guest runs, and lets it run no more than its share.
struct Sliced<F> {
    guest: F,
    /// None of those that may take all of a scheduler.
    share: Option<Box<Share>>,
    /// Dropped after the guest.
    permit: Permit,
}

impl<F: Future> Future for Sliced<F> {
    type Output = F::Output;

    // Part of its caller: each return between the scheduler and the switch to the guest's stack is one that the processor
    // does not foresee.
    #[expect(clippy::inline_always, reason = "see above")]
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        // SAFETY: the guest is pinned with this and never moved out of it; the other fields are not pinned.
        let (guest, share, vitals) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.guest), &mut this.share, &*this.permit.0)
        };
        let ticker = &vitals.node.ticker;
        ticker.runs(scheduler_number());
        vitals.begin_slice(ticker.ticks());
        if share.as_mut().is_some_and(|share| !share.may_run(cx, vitals)) {
            return Poll::Pending;
        }
        // In one place, so that it becomes part of this.
        let polled = guest.poll(cx);
        if let Some(share) = share {
            share.ran();
        }
        polled
    }
}
