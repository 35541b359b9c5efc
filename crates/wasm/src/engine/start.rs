//! Starts an engine: memory for instances, the linkers with all host functions, and the thread that counts epochs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::RwLock;
use wasmtime::component::HasSelf;
use wasmtime::{Engine, Linker, component};

use super::address_space;
use super::allocator::{self, CodeSettings};
use super::cache::CodeCache;
use super::concurrent::{ConcurrentCell, ConcurrentEngine};
use super::counters::{RuntimeLink, TrapLog};
use super::epoch_ticker::EpochTicker;
use super::error::EngineError;
use super::idle_instances::IdleRegistry;
use super::inner::{EngineInner, Wasm};
use super::slabs::Slabs;
use crate::config::{InstanceAllocator, WasmConfig, defaults};
use crate::guest::log_rate_limiter::log_budget_of_all;
use crate::guest::quota::Quota;
use crate::guest::sending;
use crate::guest::shared_budget::SharedBudget;
use crate::guest::state::GuestState;
#[cfg(feature = "store")]
use crate::kv;
use crate::module::load::{load, load_file};
use crate::module::{Module, ModuleError};
use crate::{bindings, host, raw, topics, wasi};

/// Number of modules that are loaded at once for guests and other nodes: each takes as much memory as its file is long.
const LOADS_MAX: usize = 2;

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
        let (engine, code, slabs, allocator, regions) = match allocator::choose(&config) {
            InstanceAllocator::Slabs => {
                let (engine, slabs) = Slabs::engine(&config).map_err(out_of_address_space)?;
                let regions = slabs.regions();
                (engine, CodeSettings::GROWING, Some(slabs), "slabs", regions)
            }
            InstanceAllocator::Pool | InstanceAllocator::ByCapacity => {
                let (pool, ranges) = address_space::reserved_by(|| allocator::pool(&config));
                let (engine, code, allocator) = pool.map_err(out_of_address_space)?;
                (engine, code, None, allocator, allocator::regions(&config, &ranges))
            }
        };
        let (components, modules) = linkers(&engine, &config).map_err(out_of_address_space)?;
        let shared_memory = SharedBudget::new(config.guests_memory_max_bytes);
        let path_memory_max_bytes = match config.guests_memory_max_bytes {
            u64::MAX => u64::MAX,
            bytes => bytes / 4,
        };
        let weak = engine.weak();
        let settings = config.clone();
        let concurrent = ConcurrentCell::new(move || concurrent_engine(&settings));
        let second = concurrent.clone();
        let advance = move || {
            if let Some(engine) = weak.upgrade() {
                engine.increment_epoch();
            }
            second.increment_epoch();
        };
        Ok(Self(Arc::new(EngineInner {
            ticker: EpochTicker::start(config.tick, advance)?,
            code_cache: CodeCache::new(config.cache_dir.clone(), config.cache_max_bytes, config.compiler.clone()),
            log: log_budget_of_all(&config),
            log_cut: AtomicU64::new(0),
            config,
            engine,
            code,
            slabs,
            allocator,
            regions,
            components,
            modules,
            concurrent,
            idle: IdleRegistry::default(),
            registry: RwLock::default(),
            taken: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            traps: Default::default(),
            denied: Default::default(),
            faults: TrapLog::default(),
            runtime_link: RuntimeLink::default(),
            quota: Quota::of_engine(),
            shared_memory,
            firings: sending::firings(),
            lookups: Arc::default(),
            loads: Arc::new(tokio::sync::Semaphore::new(LOADS_MAX)),
            path_memory: SharedBudget::new(path_memory_max_bytes),
            #[cfg(feature = "store")]
            reads: tokio::sync::Semaphore::new(kv::READS_MAX),
        })))
    }

    /// Compiles and links a module or component, and registers it under a name by which guests can start it.
    ///
    /// Compiling takes long: from a process, call this in [`spawn_blocking`](rusm_runtime::Context::spawn_blocking).
    ///
    /// # Errors
    /// [`ModuleError`] with the problem.
    pub fn load(&self, name: impl Into<Arc<str>>, bytes: &[u8]) -> Result<Module, ModuleError> {
        let module = load(&self.0, name.into(), bytes)?;
        self.0.add(&module);
        Ok(module)
    }

    /// Loads a module or component from a file, as [`load`](Self::load) does.
    ///
    /// # Errors
    /// [`ModuleError`] with the problem.
    pub fn load_file(&self, name: impl Into<Arc<str>>, path: impl AsRef<Path>) -> Result<Module, ModuleError> {
        let module = load_file(&self.0, name.into(), path.as_ref(), None)?;
        self.0.add(&module);
        Ok(module)
    }
}

/// Starts the engine of components of WASI 0.3. Its memories reserve only their maximum size, because the other engine
/// may use half of the address space.
fn concurrent_engine(config: &WasmConfig) -> wasmtime::Result<ConcurrentEngine<GuestState>> {
    let capacity = config.capacity.min(defaults::POOL_CAPACITY_MAX);
    let (engine, code) = allocator::checked_pool(&WasmConfig { capacity, ..config.clone() }, true)?;
    let (mut components, _) = linkers(&engine, config)?;
    wasmtime_wasi::p3::add_to_linker(&mut components)?;
    wasi::link_concurrent(&mut components)?;
    #[cfg(feature = "http")]
    crate::http::service::link(&mut components)?;
    Ok(ConcurrentEngine { engine, code, components })
}

/// Links everything that guests may import.
fn linkers(
    engine: &Engine,
    config: &WasmConfig,
) -> wasmtime::Result<(component::Linker<GuestState>, Linker<GuestState>)> {
    let (mut components, mut modules) = (components(engine)?, modules(engine)?);
    if config.topics {
        topics::link(&mut components, &mut modules)?;
    }
    #[cfg(feature = "store")]
    if config.store.is_some() {
        kv::link(&mut components, &mut modules)?;
        wasi::keyvalue::link(&mut components)?;
    }
    Ok((components, modules))
}

fn components(engine: &Engine) -> wasmtime::Result<component::Linker<GuestState>> {
    let mut linker = component::Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasi::link_components(&mut linker)?;
    wasi::values::link(&mut linker)?;
    #[cfg(feature = "http")]
    crate::http::call::link(&mut linker)?;
    #[cfg(feature = "http")]
    crate::http::handler::link(&mut linker)?;
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
