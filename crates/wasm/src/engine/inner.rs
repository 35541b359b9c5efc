//! State shared by all guests of an engine.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use rusm_runtime::ExitReason;
use rusm_runtime::observe::{FaultReport, MemoryRegion};
use wasmtime::{Engine, Linker, component};

use super::allocator::CodeSettings;
use super::cache::CodeCache;
use super::concurrent::ConcurrentCell;
use super::counters::{RuntimeLink, TrapLog};
use super::epoch_ticker::EpochTicker;
use super::idle_instances::IdleRegistry;
use super::slabs::Slabs;
use crate::config::WasmConfig;
use crate::guest::capability::Capability;
use crate::guest::log_rate_limiter::LogRateLimiter;
use crate::guest::quota::Quota;
use crate::guest::shared_budget::SharedBudget;
use crate::guest::state::GuestState;
use crate::guest::traps;
use crate::module::Module;
use crate::wasi::name_lookups::NameLookups;

/// WebAssembly processes of a node; cheap to clone.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_wasm as wasm; }
/// use rusm::{Config, Runtime};
/// use rusm::wasm::{GuestOptions, Wasm, WasmConfig};
///
/// let runtime = Runtime::start(Config::default())?;
/// let wasm = Wasm::start(WasmConfig { capacity: 10, ..WasmConfig::default() })?;
/// // A guest of a few bytes; `load_file` reads a module or a component from disk.
/// let module = wasm.load("noop", &wat::parse_str(r#"(module (func (export "run")))"#)?)?;
/// runtime.wait(wasm.spawn(&runtime, &module, &GuestOptions::default())?);
/// assert!(wasm.module("noop").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Wasm(pub(crate) Arc<EngineInner>);

impl fmt::Debug for Wasm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wasm").field("config", &self.0.config).finish_non_exhaustive()
    }
}

/// State shared by all guests of an engine.
pub(crate) struct EngineInner {
    pub(crate) config: WasmConfig,
    pub(crate) engine: Engine,
    pub(crate) slabs: Option<Slabs>,
    /// Name of the instance allocator, for observers.
    pub(crate) allocator: &'static str,
    /// Address ranges reserved for instances, for observers.
    pub(crate) regions: Vec<MemoryRegion>,
    pub(crate) components: component::Linker<GuestState>,
    pub(crate) modules: Linker<GuestState>,
    /// The engine of components of WASI 0.3.
    pub(crate) concurrent: ConcurrentCell<GuestState>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only requests leave instances"))]
    pub(crate) idle: IdleRegistry,
    pub(crate) code_cache: CodeCache,
    /// Settings of the code that `engine` runs.
    pub(crate) code: CodeSettings,
    pub(crate) registry: RwLock<BTreeMap<Arc<str>, Module>>,
    pub(crate) ticker: EpochTicker,
    /// Number of instances requested. Minus `returned` (ended or refused) it is the number of live instances.
    pub(crate) taken: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) traps: [AtomicU64; traps::CODES.len()],
    /// Number of denied calls, by the missing capability.
    pub(crate) denied: [AtomicU64; Capability::ALL.len()],
    pub(crate) faults: TrapLog,
    pub(crate) runtime_link: RuntimeLink,
    /// Counts the bytes of messages sent by all guests.
    pub(crate) quota: Arc<Quota>,
    /// Memory of all guests; `None` without a bound.
    pub(crate) shared_memory: Option<Arc<SharedBudget>>,
    /// Firings of the repeating timers of all guests.
    pub(crate) firings: Arc<SharedBudget>,
    /// Threads for the name lookups of guests.
    pub(crate) lookups: Arc<NameLookups>,
    /// Permits for loading modules that guests name by their paths, or that other nodes send.
    pub(crate) loads: Arc<tokio::sync::Semaphore>,
    /// Memory of the modules that guests have started by their paths, which are kept: a quarter of that of guests.
    pub(crate) path_memory: Option<Arc<SharedBudget>>,
    /// Permits for reads of the store by guests.
    #[cfg(feature = "store")]
    pub(crate) reads: tokio::sync::Semaphore,
    /// Budget for the log lines of all guests, and the number of cut lines.
    pub(crate) log: parking_lot::Mutex<LogRateLimiter>,
    pub(crate) log_cut: AtomicU64,
}

impl Wasm {
    /// Returns the engine of the guests, for the conformance tests.
    #[doc(hidden)]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Returns the module with this name.
    pub fn module(&self, name: &str) -> Option<Module> {
        self.0.module(name)
    }
}

impl EngineInner {
    pub(crate) fn module(&self, name: &str) -> Option<Module> {
        self.registry.read().get(name).cloned()
    }

    /// Registers a module under its name. Processes of an earlier module with that name keep it; later spawns use the
    /// new code.
    pub(crate) fn add(&self, module: &Module) {
        let mut registry = self.registry.write();
        registry.insert(Arc::clone(&module.0.name), module.clone());
    }

    /// Counts one more instance. Returns false if the capacity is used up.
    pub(crate) fn acquire_instance(&self) -> bool {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        // An end that is not visible yet only makes this check too strict.
        if taken.saturating_sub(self.returned.load(Ordering::Relaxed)) < self.config.capacity.into() {
            return true;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.release_instance();
        false
    }

    pub(crate) fn release_instance(&self) {
        self.returned.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of live instances.
    pub(crate) fn live(&self) -> u32 {
        let returned = self.returned.load(Ordering::Relaxed);
        self.taken.load(Ordering::Relaxed).saturating_sub(returned) as u32
    }

    /// Returns the number of instances ever started.
    pub(crate) fn started(&self) -> u64 {
        let refused = self.refused.load(Ordering::Relaxed);
        self.taken.load(Ordering::Relaxed).saturating_sub(refused)
    }

    /// Returns the exit reason of a guest that has ended.
    pub(crate) fn ended(&self, ended: wasmtime::Result<ExitReason>, guest: &mut GuestState) -> ExitReason {
        let error = match ended {
            Ok(reason) => return reason,
            Err(error) => traps::cause(error, guest.take_limit()),
        };
        let (reason, code) = traps::exit_reason(&error, guest.take_panic().as_deref());
        if reason != ExitReason::Normal {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        if let Some((code, place)) =
            code.and_then(|code| Some((code, traps::CODES.iter().position(|known| *known == code)?)))
        {
            self.traps[place].fetch_add(1, Ordering::Relaxed);
            guest.info.module.counters.count_trap();
            self.faults.keep(FaultReport {
                seq: 0,
                at: guest.process().elapsed(),
                pid: guest.ctx.pid(),
                module: Arc::clone(&guest.info.module.name),
                code,
                backtrace: traps::frames(&error).into(),
            });
        }
        reason
    }
}
