//! Body of a guest process: its store, its instantiation, its run and its exit.

#![expect(unsafe_code, reason = "projects a pin to the guest's future")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use wasmtime::{Engine, Extern, Instance, ModuleExport, Store, StoreContextMut, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::p3::bindings::CommandPre as ConcurrentCommandPre;

use crate::bindings::ActorPre;
use crate::engine::pooled_future::PooledFuture;
use crate::guest::cpu_share::CpuShare;
use crate::guest::guest_info::GuestInfo;
use crate::guest::state::GuestState;
use crate::guest::state::wasi::Wasi;
use crate::guest::traps;
use crate::host::convert;
use crate::module::Code;
use rusm_runtime::embed::guest::{GuestContext, poll_is_long, scheduler_number, start_children};
use rusm_runtime::{Context, ExitReason};

/// Everything needed to start a guest.
pub(crate) struct GuestStart {
    pub(crate) args: Vec<String>,
    /// Returned after everything else is dropped.
    pub(crate) permit: Permit,
}

/// Permit for one live instance; dropping it returns the capacity.
pub(crate) struct Permit(pub(crate) Arc<GuestInfo>);

impl Permit {
    /// Returns the info of the instance.
    pub(crate) fn info(&self) -> Arc<GuestInfo> {
        Arc::clone(&self.0)
    }
}

impl AsRef<GuestInfo> for Permit {
    fn as_ref(&self) -> &GuestInfo {
        &self.0
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.module.counters.end();
        self.0.node.release_instance();
    }
}

/// Runs a guest from its first instruction to its last.
///
/// The first poll creates nearly all state of the guest. A guest that has not run yet therefore fits into its control
/// block, and when many short guests start, each is created in memory that the previous one left in the processor's
/// cache.
pub(crate) fn run(ctx: Context, start: GuestStart) -> impl Future<Output = ExitReason> + Send {
    let GuestStart { args, permit } = start;
    let info = permit.info();
    let guest = async move {
        GuestContext(&ctx).account_memory((bytes_of(run_guest) + size_of::<GuestState>()) as u64);
        Box::pin(run_guest(ctx, info, args)).await
    };
    GuestFuture::new(guest, permit)
}

/// Maximum number of bytes that a call of WASI preview 1 reads from a core module: a call is not interrupted. The
/// subscriptions of a `poll_oneoff`, 80 bytes each, cost most: a microsecond.
const WASI_P1_BYTES_MAX: usize = 1 << 20;
/// Number of bytes that a call of a component may pass to the host besides a message of maximum length. All lists and strings
/// of a call count, also if they share memory of the guest: the host copies each, without interruption.
const CALL_BYTES_BESIDES: usize = 1 << 20;
/// Maximum number of handles of a component that are alive: resources, and calls, streams and futures under way.
const HANDLES_MAX: usize = 2_048;

const fn bytes_of<F>(_: fn(Context, Arc<GuestInfo>, Vec<String>) -> F) -> usize {
    size_of::<F>()
}

/// This future is part of a waiting guest's memory: it stores nothing twice, and what is only needed to begin is boxed
/// separately and freed by then.
async fn run_guest(ctx: Context, info: Arc<GuestInfo>, args: Vec<String>) -> ExitReason {
    let mut store = store(info.module.code.engine(&info.node), ctx, &info, args);
    let ended = call(&mut store, &info.module.code).await;
    info.node.ended(ended, store.data_mut())
}

/// Creates the store of a guest in the engine that has compiled its module.
pub(crate) fn store(engine: &Engine, ctx: Context, info: &Arc<GuestInfo>, args: Vec<String>) -> Store<GuestState> {
    let mut state = GuestState::new(ctx, Arc::clone(info), args);
    if info.module.needs_wasi {
        state.wasi = Some(Box::new(Wasi::new(&state)));
    }
    let is_module = matches!(info.module.code, Code::Raw { .. } | Code::Wasip1(_));
    let mut store = Store::new(engine, state);
    if is_module {
        store.set_hostcall_fuel(WASI_P1_BYTES_MAX);
    } else {
        store.set_hostcall_fuel(info.bounds.message_max_bytes as usize + CALL_BYTES_BESIDES);
        store.set_max_component_handles(HANDLES_MAX);
    }
    store.limiter(|state| state);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(epoch);
    store
}

async fn call(store: &mut Store<GuestState>, code: &Code) -> wasmtime::Result<ExitReason> {
    match code {
        // The futures of components are several times larger than those of modules; box them, so that modules do not
        // pay for them.
        Code::Actor(pre) => Box::pin(actor(store, pre)).await,
        Code::Command(pre) => Box::pin(command(store, pre)).await,
        Code::ConcurrentCommand(pre) => Box::pin(concurrent_command(store, pre)).await,
        #[cfg(feature = "http")]
        Code::Http(_) | Code::Service(_) | Code::Handler(_) => {
            Ok(ExitReason::other("a component of wasi:http answers requests: use rusm serve"))
        }
        Code::Raw { pre, initialize, run, results } => {
            let instance = PooledFuture::new(pre.instantiate_async(&mut *store)).await?;
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
            let instance = PooledFuture::new(pre.instantiate_async(&mut *store)).await?;
            let start = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
            start.call_async(&mut *store, ()).await?;
            Ok(ExitReason::Normal)
        }
    }
}

/// Runs the initialisation function of a module, for example the constructors of its language.
async fn initialize_by(
    store: &mut Store<GuestState>,
    instance: Instance,
    initialize: &ModuleExport,
) -> wasmtime::Result<()> {
    let initialize = instance.get_module_export(&mut *store, initialize).and_then(Extern::into_func);
    match initialize {
        Some(initialize) => initialize.typed::<(), ()>(&*store)?.call_async(&mut *store, ()).await,
        None => Ok(()),
    }
}

async fn actor(store: &mut Store<GuestState>, pre: &ActorPre<GuestState>) -> wasmtime::Result<ExitReason> {
    let actor = PooledFuture::new(pre.instantiate_async(&mut *store)).await?;
    let args = std::mem::take(&mut store.data_mut().args);
    let ended = actor.call_run(&mut *store, &args).await?;
    Ok(ended.map_or_else(|why| ExitReason::Other(convert::why(&why)), |()| ExitReason::Normal))
}

async fn command(store: &mut Store<GuestState>, pre: &CommandPre<GuestState>) -> wasmtime::Result<ExitReason> {
    let command = PooledFuture::new(pre.instantiate_async(&mut *store)).await?;
    let ended = command.wasi_cli_run().call_run(&mut *store).await?;
    Ok(reason_of(ended))
}

async fn concurrent_command(
    store: &mut Store<GuestState>,
    pre: &ConcurrentCommandPre<GuestState>,
) -> wasmtime::Result<ExitReason> {
    let command = PooledFuture::new(pre.instantiate_async(&mut *store)).await?;
    let ended = store.run_concurrent(async |guest| command.wasi_cli_run().call_run(guest).await).await??;
    Ok(reason_of(ended))
}

fn reason_of(ended: Result<(), ()>) -> ExitReason {
    if ended.is_ok() { ExitReason::Normal } else { ExitReason::other("run returned an error") }
}

#[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "signature required by the engine")]
/// Called at the end of an epoch: makes the guest yield, unless its turn began in this epoch.
fn epoch(store: StoreContextMut<'_, GuestState>) -> wasmtime::Result<UpdateDeadline> {
    let info = &store.data().info;
    let ticker = &info.node.ticker;
    ticker.mark_running(scheduler_number());
    if info.wants_backtrace() {
        info.keep_backtrace(traps::names(&WasmBacktrace::force_capture(&store)));
    }
    if ticker.ticks() == info.slice_began() {
        return Ok(UpdateDeadline::Continue(1));
    }
    poll_is_long();
    info.count_slice();
    Ok(UpdateDeadline::Yield(1))
}

/// Starts the guests that the running guest has spawned, when dropped at the end of its poll.
struct StartChildrenOnDrop;

impl Drop for StartChildrenOnDrop {
    #[inline]
    fn drop(&mut self) {
        start_children();
    }
}

/// Tells the ticker when the guest runs, and limits it to its share of CPU time.
pub(crate) struct GuestFuture<F, P = Permit> {
    guest: F,
    /// `None` if the guest may use all of a scheduler.
    share: Option<Box<CpuShare>>,
    /// The info of the guest, or the permit with it; dropped after the guest.
    permit: P,
}

impl<F: Future, P: AsRef<GuestInfo>> GuestFuture<F, P> {
    pub(crate) fn new(guest: F, permit: P) -> Self {
        let info = permit.as_ref();
        let share = CpuShare::new(info.bounds.cpu_max_percent, info.node.config.tick);
        Self { guest, share, permit }
    }
}

impl<F: Future, P: AsRef<GuestInfo>> Future for GuestFuture<F, P> {
    type Output = F::Output;

    // Inlined into the caller: the processor mispredicts each return between the scheduler and the switch to the
    // guest's stack.
    #[expect(clippy::inline_always, reason = "see the comment above")]
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        // SAFETY: the guest is pinned together with this future and never moved out of it; the other fields are not
        // pinned.
        let (guest, share, info) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.guest), &mut this.share, this.permit.as_ref())
        };
        let ticker = &info.node.ticker;
        ticker.mark_running(scheduler_number());
        info.begin_slice(ticker.ticks());
        if share.as_mut().is_some_and(|share| !share.may_run(cx, info)) {
            return Poll::Pending;
        }
        let _children = StartChildrenOnDrop;
        // The only call of `poll`, so that the compiler inlines it.
        let polled = guest.poll(cx);
        if let Some(share) = share {
            share.charge();
        }
        polled
    }
}
