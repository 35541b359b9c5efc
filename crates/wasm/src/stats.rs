//! Statistics of guests and of the engine's capacity, for observers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::config::InstanceAllocator;
use super::engine::inner::{EngineInner, Wasm};
use super::guest::capability::Capability;
use super::guest::traps;
use super::module::Module;
use rusm_runtime::embed::guest::RuntimeRef;
use rusm_runtime::observe::{CacheReport, Engine, EngineReport, ModuleReport};

pub use rusm_runtime::observe::Slots;

/// Counters of an engine. Fields that end in `_total` never decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmStats {
    /// Instance allocator: `pool`, `checked pool` (bounds are checked, for lack of address space), or `slabs`.
    pub allocator: &'static str,
    /// Maximum number of live instances.
    pub capacity: u32,
    /// Number of live instances.
    pub live: u32,
    /// Number of instances started.
    pub started_total: u64,
    /// Number of starts refused for lack of capacity.
    pub refused_total: u64,
    /// Number of guests that trapped or could not be instantiated.
    pub failed_total: u64,
    /// Linear memories in use, and their maximum number.
    pub memories: Slots,
    /// Stacks in use, and their maximum number.
    pub stacks: Slots,
    /// Number of modules registered by name.
    pub modules: usize,
    /// Number of modules found compiled on disk.
    pub cache_hits_total: u64,
    /// Number of modules compiled.
    pub cache_misses_total: u64,
    /// Number of cache entries evicted to make room for others.
    pub cache_evictions_total: u64,
    /// Number of cache entries found damaged.
    pub cache_damaged_total: u64,
    /// Number of compiled modules that could not be stored because the cache directory is full, read-only or missing.
    pub cache_unkept_total: u64,
    /// Number of epochs; does not increase while no guest runs.
    pub ticks_total: u64,
    /// Number of traps by kind; kinds that never occurred are left out.
    pub traps_total: Vec<(&'static str, u64)>,
}

impl Wasm {
    /// Reads the counters.
    pub fn stats(&self) -> WasmStats {
        let node = &self.0;
        let (memories, stacks) = node.slots();
        WasmStats {
            allocator: node.allocator,
            capacity: node.config.capacity,
            live: node.live(),
            started_total: node.started(),
            refused_total: node.refused.load(Relaxed),
            failed_total: node.failed.load(Relaxed),
            memories,
            stacks,
            modules: node.registry.read().len(),
            cache_hits_total: node.code_cache.hits(),
            cache_misses_total: node.code_cache.misses(),
            cache_evictions_total: node.code_cache.evictions(),
            cache_damaged_total: node.code_cache.damaged(),
            cache_unkept_total: node.code_cache.store_failures(),
            ticks_total: node.ticker.ticks(),
            traps_total: counted(traps::CODES, &node.traps),
        }
    }

    /// Returns the instance allocator in use.
    pub fn allocator(&self) -> InstanceAllocator {
        if self.0.slabs.is_some() { InstanceAllocator::Slabs } else { InstanceAllocator::Pool }
    }
}

impl EngineInner {
    /// Returns the use of memories and of stacks.
    fn slots(&self) -> (Slots, Slots) {
        if let Some(slabs) = &self.slabs {
            let of =
                |arena: &super::engine::slabs::Arena| Slots { used: arena.used().into(), slots: arena.slots().into() };
            return (of(&slabs.memories), of(&slabs.stacks));
        }
        let Some(pool) = self.engine.pooling_allocator_metrics() else { return Default::default() };
        let parts = u64::from(self.config.capacity) * u64::from(self.config.parts_max);
        (
            Slots { used: pool.memories() as u64, slots: parts },
            Slots { used: pool.stacks() as u64, slots: self.config.capacity.into() },
        )
    }
}

/// Returns the counters with their labels, without those that are zero.
fn counted<const N: usize>(words: [&'static str; N], counters: &[AtomicU64; N]) -> Vec<(&'static str, u64)> {
    let count = |(word, counter): (&'static str, &AtomicU64)| (word, counter.load(Relaxed));
    words.into_iter().zip(counters).map(count).filter(|(_, count)| *count != 0).collect()
}

impl EngineInner {
    /// Shows this engine to observers of the runtime in which a guest starts.
    #[inline]
    pub(crate) fn show_in_runtime(self: &Arc<Self>, runtime: RuntimeRef<'_>) {
        if self.runtime_link.address.load(Relaxed) != runtime.address() {
            self.show_in(runtime);
        }
    }

    #[cold]
    fn show_in(self: &Arc<Self>, runtime: RuntimeRef<'_>) {
        let mut guard = self.runtime_link.guard.lock();
        let this: Arc<dyn Engine> = Arc::<Self>::clone(self);
        *guard = runtime.show_engine(Arc::downgrade(&this));
        // The other half is for native processes.
        self.quota.set_max((runtime.mailbox_total_bytes() / 2).max(1));
        self.runtime_link.address.store(runtime.address(), Relaxed);
    }

    /// Returns the refusals by capability, and the number of log lines cut.
    fn refusals(&self) -> Vec<(&'static str, u64)> {
        let cut = Some(("log lines", self.log_cut.load(Relaxed))).filter(|(_, lines)| *lines != 0);
        counted(Capability::ALL.map(Capability::word), &self.denied).into_iter().chain(cut).collect()
    }

    fn module_reports(&self) -> Vec<ModuleReport> {
        let registry = self.registry.read();
        let report = |module: &Module| {
            let counters = &module.0.counters;
            ModuleReport {
                name: Arc::clone(&module.0.name),
                kind: module.kind(),
                live: counters.live(),
                started_total: counters.started.load(Relaxed),
                faults_total: counters.traps.load(Relaxed),
            }
        };
        registry.values().map(report).collect()
    }
}

impl Engine for EngineInner {
    fn report(&self) -> EngineReport {
        let (memories, stacks) = self.slots();
        let (entries, bytes) = self.code_cache.usage();
        EngineReport {
            kind: "wasm",
            room: self.allocator,
            capacity: self.config.capacity.into(),
            live: self.live().into(),
            started_total: self.started(),
            refused_total: self.refused.load(Relaxed),
            slots: vec![("memories", memories), ("stacks", stacks)],
            ticks_total: self.ticker.ticks(),
            tick: self.config.tick,
            is_ticking: !self.ticker.is_asleep(),
            cache: CacheReport {
                entries,
                bytes,
                max_bytes: if self.config.cache_dir.is_some() { self.config.cache_max_bytes } else { 0 },
                hits_total: self.code_cache.hits(),
                misses_total: self.code_cache.misses(),
                evictions_total: self.code_cache.evictions(),
                damaged_total: self.code_cache.damaged(),
                unkept_total: self.code_cache.store_failures(),
            },
            modules: self.module_reports(),
            faults_total: counted(traps::CODES, &self.traps),
            refusals_total: self.refusals(),
            faults: self.faults.all(),
            regions: self.regions.clone(),
        }
    }
}
