//! WebAssembly processes: a guest is another kind of process body.
//!
//! ```text
//!   bytes ─▶ Module (compiled, linked) ─▶ spawn ─▶ process: Context + Store + instance
//!                                                    │  calls of the guest are calls on its Context
//!             Ticker ── epochs ──────────────────────┘  a guest that runs too long yields to other processes
//! ```
//!
//! A guest has a pid, a mailbox, links, monitors, a supervisor and a row in the table like every process. Its
//! [profile](Profiles) lists what else it may do. The core of the runtime does not know about guests: a guest is an
//! `async` body, and its call into WebAssembly is polled like any other future.
//!
//! ```
//! use rusm_wasm::{GuestOptions, Wasm, WasmConfig};
//! use rusm_runtime::{Config, ExitReason, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let wasm = Wasm::start(WasmConfig { capacity: 10, ..WasmConfig::default() })?;
//! let module = wasm.load("noop", &wat::parse_str(r#"(module (func (export "run")))"#)?)?;
//! let pid = wasm.spawn(&runtime, &module, &GuestOptions::default())?;
//! # let ended = runtime.wait(pid);
//! # assert!(matches!(ended, ExitReason::Normal | ExitReason::NoProcess), "{ended}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariant: nothing that a guest does or passes can panic the node, block a scheduler for longer than two ticks, or
//! read or write data that does not belong to the guest.

mod bindings;
mod config;
mod engine;
mod guest;
mod host;
#[cfg(feature = "store")]
mod kv;
mod module;
mod raw;
mod stats;
mod topics;
mod wasi;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;
use wasmtime::component::HasSelf;
use wasmtime::{Engine, Linker, component};

use engine::allocator;
use engine::cache::CodeCache;
use engine::epoch_ticker::EpochTicker;
use engine::slabs::Slabs;
use guest::quota::Quota;
use guest::state::GuestState;
use guest::traps;
use rusm_runtime::ExitReason;
use rusm_runtime::observe::FaultReport;

pub use config::{InstanceAllocator, WasmConfig, defaults};
pub use guest::capability::{Capabilities, Capability, Profiles, SANDBOXED, UnknownName};
pub use guest::limits::GuestLimits;
pub use guest::log_rate_limiter::LogRateLimiter;
pub use guest::spawn::{GuestError, GuestOptions};
pub use guest::traps::{MemoryLimit, Trap};
pub use module::{Module, ModuleError};
pub use stats::{Slots, WasmStats};

/// Error returned when WebAssembly processes cannot be started.
#[derive(Debug, Error)]
pub enum EngineError {
    /// A setting is out of its range.
    #[error("{name} of {value} is not between {min} and {max}")]
    OutOfRange {
        /// Name of the field of [`WasmConfig`].
        name: &'static str,
        /// Value of the setting.
        value: u64,
        /// Smallest valid value.
        min: u64,
        /// Largest valid value.
        max: u64,
    },
    /// The address space or another system limit is too small for the capacity.
    #[error("no room for {capacity} instances of {memory_max_bytes} bytes: {why}; lower capacity or memory_max_bytes")]
    OutOfAddressSpace {
        /// Number of requested instances.
        capacity: u32,
        /// Size of each instance, in bytes.
        memory_max_bytes: u64,
        /// Error of the system.
        why: String,
    },
    /// The system cannot create a thread.
    #[error("cannot start the epoch thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// WebAssembly processes of a node; cheap to clone.
#[derive(Clone)]
pub struct Wasm(Arc<EngineInner>);

impl fmt::Debug for Wasm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wasm").field("config", &self.0.config).finish_non_exhaustive()
    }
}

/// State shared by all guests of an engine.
pub(crate) struct EngineInner {
    config: WasmConfig,
    engine: Engine,
    slabs: Option<Slabs>,
    /// Name of the instance allocator, for observers.
    allocator: &'static str,
    components: component::Linker<GuestState>,
    modules: Linker<GuestState>,
    code_cache: CodeCache,
    registry: RwLock<BTreeMap<Arc<str>, Module>>,
    ticker: EpochTicker,
    /// Number of instances requested. Minus `returned` (ended or refused) it is the number of live instances.
    taken: AtomicU64,
    returned: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    traps: [AtomicU64; traps::CODES.len()],
    /// Number of denied calls, by the missing capability.
    denied: [AtomicU64; Capability::ALL.len()],
    faults: stats::TrapLog,
    runtime_link: stats::RuntimeLink,
    /// Counts the bytes of messages sent by all guests.
    quota: Arc<Quota>,
    /// Budget for the log lines of all guests, and the number of cut lines.
    log: parking_lot::Mutex<LogRateLimiter>,
    log_cut: AtomicU64,
}

impl Wasm {
    /// Allocates memory for instances, and starts the thread that counts epochs.
    ///
    /// # Errors
    /// [`EngineError`] for a setting out of its range, and when the system cannot provide the memory.
    pub fn start(config: WasmConfig) -> Result<Self, EngineError> {
        config.check()?;
        let out_of_address_space = |error: wasmtime::Error| EngineError::OutOfAddressSpace {
            capacity: config.capacity,
            memory_max_bytes: config.memory_max_bytes,
            why: format!("{error:#}"),
        };
        let (engine, slabs, allocator) = match allocator::choose(&config) {
            InstanceAllocator::Slabs => {
                let (engine, slabs) = Slabs::engine(&config).map_err(out_of_address_space)?;
                (engine, Some(slabs), "slabs")
            }
            InstanceAllocator::Pool | InstanceAllocator::ByCapacity => {
                let (engine, allocator) = allocator::pool(&config).map_err(out_of_address_space)?;
                (engine, None, allocator)
            }
        };
        let (mut components, mut modules) =
            (components(&engine).map_err(out_of_address_space)?, modules(&engine).map_err(out_of_address_space)?);
        if config.topics {
            topics::link(&mut components, &mut modules).map_err(out_of_address_space)?;
        }
        #[cfg(feature = "store")]
        if config.store.is_some() {
            kv::link(&mut components, &mut modules).map_err(out_of_address_space)?;
        }
        let weak = engine.weak();
        let advance = move || {
            if let Some(engine) = weak.upgrade() {
                engine.increment_epoch();
            }
        };
        Ok(Self(Arc::new(EngineInner {
            ticker: EpochTicker::start(config.tick, advance)?,
            code_cache: CodeCache::new(config.cache_dir.clone(), config.cache_max_bytes),
            log: host::log_budget_of_all(&config),
            log_cut: AtomicU64::new(0),
            config,
            engine,
            slabs,
            allocator,
            components,
            modules,
            registry: RwLock::default(),
            taken: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            traps: Default::default(),
            denied: Default::default(),
            faults: stats::TrapLog::default(),
            runtime_link: stats::RuntimeLink::default(),
            quota: Quota::of_engine(),
        })))
    }

    /// Compiles and links a module or component, and registers it under a name by which guests can start it.
    ///
    /// Compiling takes long: from a process, call this in [`spawn_blocking`](rusm_runtime::Context::spawn_blocking).
    ///
    /// # Errors
    /// [`ModuleError`] with the problem.
    pub fn load(&self, name: impl Into<Arc<str>>, bytes: &[u8]) -> Result<Module, ModuleError> {
        let module = module::load(&self.0, name.into(), bytes)?;
        self.0.add(&module);
        Ok(module)
    }

    /// Loads a module or component from a file, as [`load`](Self::load) does.
    ///
    /// # Errors
    /// [`ModuleError`] with the problem.
    pub fn load_file(&self, name: impl Into<Arc<str>>, path: &Path) -> Result<Module, ModuleError> {
        let module = module::load_file(&self.0, name.into(), path)?;
        self.0.add(&module);
        Ok(module)
    }

    /// Returns the engine of the guests, to compile or run something with the same settings.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Returns the module with this name.
    pub fn module(&self, name: &str) -> Option<Module> {
        self.0.module(name)
    }
}

fn components(engine: &Engine) -> wasmtime::Result<component::Linker<GuestState>> {
    let mut linker = component::Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasi::link_components(&mut linker)?;
    bindings::Actor::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    host::link(&mut linker)?;
    bindings::streaming::rusm::runtime::streams::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    Ok(linker)
}

fn modules(engine: &Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p1::add_to_linker_async(&mut linker, GuestState::wasi_p1)?;
    wasi::link_modules(&mut linker)?;
    raw::link(&mut linker)?;
    Ok(linker)
}

impl EngineInner {
    fn module(&self, name: &str) -> Option<Module> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Registers a module under its name. Processes of an earlier module with that name keep it; later spawns use the
    /// new code.
    fn add(&self, module: &Module) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        registry.insert(Arc::clone(&module.0.name), module.clone());
    }

    /// Counts one more instance. Returns false if the capacity is used up.
    fn acquire_instance(&self) -> bool {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        // An end that is not visible yet only makes this check too strict.
        if taken.saturating_sub(self.returned.load(Ordering::Relaxed)) < self.config.capacity.into() {
            return true;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.release_instance();
        false
    }

    fn release_instance(&self) {
        self.returned.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of live instances.
    fn live(&self) -> u32 {
        let returned = self.returned.load(Ordering::Relaxed);
        self.taken.load(Ordering::Relaxed).saturating_sub(returned) as u32
    }

    /// Returns the number of instances ever started.
    fn started(&self) -> u64 {
        let refused = self.refused.load(Ordering::Relaxed);
        self.taken.load(Ordering::Relaxed).saturating_sub(refused)
    }

    /// Returns the exit reason of a guest that has ended.
    fn ended(&self, ended: wasmtime::Result<ExitReason>, guest: &mut GuestState) -> ExitReason {
        let error = match ended {
            Ok(reason) => return reason,
            Err(error) => traps::cause(error, guest.take_limit()),
        };
        let (reason, code) = traps::exit_reason(&error);
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
