//! WebAssembly processes: a guest is one more kind of body.
//!
//! ```text
//!   bytes ─▶ Module (compiled, linked) ─▶ spawn ─▶ process: Context + Store + instance
//!                                                    │  calls of the guest are calls on its Context
//!             Ticker ── epochs ──────────────────────┘  a guest that runs too long lets others run
//! ```
//!
//! A guest has a pid, a mailbox, links, monitors, a supervisor and a row in the table like every process; what it may do
//! beyond that is in its [profile](Profiles). The core of the runtime knows nothing of it: a guest is an `async` body whose
//! call into WebAssembly is polled like any other future.
//!
//! ```
//! use rusm_runtime::wasm::{Guest, Wasm, WasmConfig};
//! use rusm_runtime::{Config, ExitReason, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let wasm = Wasm::start(WasmConfig { capacity: 10, ..WasmConfig::default() })?;
//! let module = wasm.load("noop", &wat::parse_str(r#"(module (func (export "run")))"#)?)?;
//! let pid = wasm.spawn(&runtime, &module, &Guest::default())?;
//! # let ended = runtime.wait(pid);
//! # assert!(matches!(ended, ExitReason::Normal | ExitReason::NoProcess), "{ended}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariant: nothing that a guest does or passes panics the node, blocks a scheduler for longer than two ticks, or reads
//! or writes anything that is not its own.

mod bindings;
mod body;
mod cache;
mod capability;
mod config;
mod fiber;
mod ground;
mod host;
#[cfg(feature = "store")]
mod kv;
mod limits;
mod line_budget;
mod module;
mod quota;
mod raw;
mod room;
mod sending;
mod share;
mod short;
mod slabs;
mod spare;
mod spawn;
mod state;
mod stats;
mod ticker;
mod topics;
mod traps;
mod vitals;
mod wasi;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;
use wasmtime::component::HasSelf;
use wasmtime::{Engine, Linker, component};

use crate::ExitReason;
use crate::engines::FaultReport;
use cache::Compiled;
use quota::Quota;
use slabs::Slabs;
use state::State;
use ticker::Ticker;

pub use capability::{Capabilities, Capability, Profiles, SANDBOXED, UnknownWord};
pub use config::{Room, WasmConfig, defaults};
pub use limits::Limits;
pub use line_budget::LineBudget;
pub use module::{Module, ModuleError};
pub use spawn::{Guest, GuestError};
pub use stats::{Slots, WasmStats};
pub use traps::{MemoryLimit, Trap};

/// Why there can be no WebAssembly processes.
#[derive(Debug, Error)]
pub enum EngineError {
    /// Choose a value in the range.
    #[error("{name} of {value} is not between {min} and {max}")]
    OutOfRange {
        /// The field of [`WasmConfig`].
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// The address space or another limit of the system does not suffice for the capacity.
    #[error("no room for {capacity} instances of {memory_max_bytes} bytes: {why}; lower capacity or memory_max_bytes")]
    NoRoom {
        /// Instances asked for.
        capacity: u32,
        /// Bytes of each.
        memory_max_bytes: u64,
        /// What the system says.
        why: String,
    },
    /// The system refused a thread.
    #[error("cannot start the epoch thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// WebAssembly processes of a node; cheap to clone.
#[derive(Clone)]
pub struct Wasm(Arc<Inner>);

impl fmt::Debug for Wasm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wasm").field("config", &self.0.config).finish_non_exhaustive()
    }
}

/// What all guests of an engine share.
pub(crate) struct Inner {
    config: WasmConfig,
    engine: Engine,
    slabs: Option<Slabs>,
    /// Where instances live, for observers.
    room: &'static str,
    components: component::Linker<State>,
    modules: Linker<State>,
    compiled: Compiled,
    registry: RwLock<BTreeMap<Arc<str>, Module>>,
    ticker: Ticker,
    /// Instances asked for, and those of them that have ended or were refused: what lives is the difference.
    taken: AtomicU64,
    returned: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    traps: [AtomicU64; traps::CODES.len()],
    /// Refusals, by what was not granted.
    denied: [AtomicU64; Capability::ALL.len()],
    faults: stats::Faults,
    home: stats::Home,
    /// Counts the bytes of messages that all guests have sent.
    quota: Arc<Quota>,
    /// Budget of the log lines of all guests, and the number of those that were cut.
    log: parking_lot::Mutex<LineBudget>,
    log_cut: AtomicU64,
}

impl Wasm {
    /// Makes room for guests, and starts the thread that counts epochs.
    ///
    /// # Errors
    /// [`EngineError`] for a setting out of its range, and when the system has no such room.
    pub fn start(config: WasmConfig) -> Result<Self, EngineError> {
        config.check()?;
        let no_room = |error: wasmtime::Error| EngineError::NoRoom {
            capacity: config.capacity,
            memory_max_bytes: config.memory_max_bytes,
            why: format!("{error:#}"),
        };
        let (engine, slabs, room) = match room::of(&config) {
            Room::Slabs => {
                let (engine, slabs) = Slabs::engine(&config).map_err(no_room)?;
                (engine, Some(slabs), "slabs")
            }
            Room::Pool | Room::ByCapacity => {
                let (engine, room) = room::pool(&config).map_err(no_room)?;
                (engine, None, room)
            }
        };
        let (mut components, mut modules) = (components(&engine).map_err(no_room)?, modules(&engine).map_err(no_room)?);
        if config.topics {
            topics::link(&mut components, &mut modules).map_err(no_room)?;
        }
        #[cfg(feature = "store")]
        if config.store.is_some() {
            kv::link(&mut components, &mut modules).map_err(no_room)?;
        }
        let weak = engine.weak();
        let advance = move || {
            if let Some(engine) = weak.upgrade() {
                engine.increment_epoch();
            }
        };
        Ok(Self(Arc::new(Inner {
            ticker: Ticker::start(config.tick, advance)?,
            compiled: Compiled::new(config.cache_dir.clone(), config.cache_max_bytes),
            log: host::log_budget_of_all(&config),
            log_cut: AtomicU64::new(0),
            config,
            engine,
            slabs,
            room,
            components,
            modules,
            registry: RwLock::default(),
            taken: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            traps: Default::default(),
            denied: Default::default(),
            faults: stats::Faults::default(),
            home: stats::Home::default(),
            quota: Quota::of_engine(),
        })))
    }

    /// Compiles and links a module or component, and keeps it under a name that guests can start it by.
    ///
    /// Compiling takes its time: from a process, call this in [`spawn_blocking`](crate::Context::spawn_blocking).
    ///
    /// # Errors
    /// [`ModuleError`] says what is wrong with it.
    pub fn load(&self, name: impl Into<Arc<str>>, bytes: &[u8]) -> Result<Module, ModuleError> {
        let module = module::load(&self.0, name.into(), bytes)?;
        self.0.add(&module);
        Ok(module)
    }

    /// The same from a file.
    ///
    /// # Errors
    /// [`ModuleError`] says what is wrong with it.
    pub fn load_file(&self, name: impl Into<Arc<str>>, path: &Path) -> Result<Module, ModuleError> {
        let module = module::load_file(&self.0, name.into(), path)?;
        self.0.add(&module);
        Ok(module)
    }

    /// The engine that guests run on, for whoever wants to compile or run something by the same settings.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The module of this name.
    pub fn module(&self, name: &str) -> Option<Module> {
        self.0.module(name)
    }
}

fn components(engine: &Engine) -> wasmtime::Result<component::Linker<State>> {
    let mut linker = component::Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasi::link_components(&mut linker)?;
    bindings::Actor::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    host::link(&mut linker)?;
    bindings::streaming::rusm::runtime::streams::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    Ok(linker)
}

fn modules(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p1::add_to_linker_async(&mut linker, State::wasi_p1)?;
    wasi::link_modules(&mut linker)?;
    raw::link(&mut linker)?;
    Ok(linker)
}

impl Inner {
    fn module(&self, name: &str) -> Option<Module> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Keeps a module under its name; one that was there before goes on in the processes that have it.
    fn add(&self, module: &Module) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        registry.insert(Arc::clone(&module.0.name), module.clone());
    }

    /// Counts one more instance; false if there is no room for it.
    fn take(&self) -> bool {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        // An end that is not seen yet only makes this too careful.
        if taken.saturating_sub(self.returned.load(Ordering::Relaxed)) < self.config.capacity.into() {
            return true;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.give_back();
        false
    }

    fn give_back(&self) {
        self.returned.fetch_add(1, Ordering::Relaxed);
    }

    /// Instances that live.
    fn live(&self) -> u32 {
        let returned = self.returned.load(Ordering::Relaxed);
        self.taken.load(Ordering::Relaxed).saturating_sub(returned) as u32
    }

    /// Instances ever started.
    fn started(&self) -> u64 {
        let refused = self.refused.load(Ordering::Relaxed);
        self.taken.load(Ordering::Relaxed).saturating_sub(refused)
    }

    /// The exit reason for the end of a guest.
    fn ended(&self, ended: wasmtime::Result<ExitReason>, guest: &mut State) -> ExitReason {
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
            guest.vitals.module.tally.count_trap();
            self.faults.keep(FaultReport {
                seq: 0,
                at: guest.ctx.running().local.shared.started.elapsed(),
                pid: guest.ctx.pid(),
                module: Arc::clone(&guest.vitals.module.name),
                code,
                backtrace: traps::frames(&error).into(),
            });
        }
        reason
    }
}
