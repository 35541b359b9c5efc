//! Engines that run process bodies of their own kind, as observers see them: capacity, instances, modules, faults.
//!
//! ```text
//!   engine ── registered with a runtime when its first process starts there ──▶ Engines ──▶ reports for observers
//! ```
//!
//! The core knows nothing else about them. An engine is listed for as long as a reference to it exists. A report is
//! created only when an observer requests it, and costs nothing otherwise.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::process::pid::Pid;

/// A component that runs process bodies of its own kind.
pub trait Engine: Send + Sync {
    /// Returns the state of the engine. Observers call this method; it must never wait for the bodies that are running.
    fn report(&self) -> EngineReport;
}

/// State of an engine; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineReport {
    /// Kind of its bodies, in one word.
    pub kind: &'static str,
    /// Kind of the allocator of its instances, for example `pool`.
    pub room: &'static str,
    /// Maximum number of live instances.
    pub capacity: u64,
    /// Number of live instances.
    pub live: u64,
    /// Number of instances ever started.
    pub started_total: u64,
    /// Number of starts rejected because the capacity was used up.
    pub refused_total: u64,
    /// Kinds of slots that instances occupy, with the usage of each.
    pub slots: Vec<(&'static str, Slots)>,
    /// Number of time slices counted; constant while nothing runs.
    pub ticks_total: u64,
    /// Length of a time slice.
    pub tick: Duration,
    /// True if time slices are counted now.
    pub is_ticking: bool,
    /// State of the cache of compiled code.
    pub cache: CacheReport,
    /// Modules that instances are created from.
    pub modules: Vec<ModuleReport>,
    /// Number of faults by code; only codes that have occurred.
    pub faults_total: Vec<(&'static str, u64)>,
    /// Number of refused requests of instances by the capability they need; only capabilities with a refusal.
    pub refusals_total: Vec<(&'static str, u64)>,
    /// Most recent faults, oldest first.
    pub faults: Vec<FaultReport>,
    /// Address ranges that the engine has reserved for its instances.
    pub regions: Vec<MemoryRegion>,
}

/// A range of addresses that an engine has reserved. Only a part of it may be resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Use of the range.
    pub used_for: MemoryUse,
    /// First address.
    pub start: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// Use of a [`MemoryRegion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// Linear memories of instances.
    LinearMemories,
    /// Stacks of instances.
    Stacks,
    /// Both of them, and other data of instances, for example tables.
    Pool {
        /// Size of a stack, which is above an inaccessible guard.
        stack_bytes: usize,
        /// Maximum size of a linear memory.
        linear_max_bytes: usize,
    },
}

/// Usage of one kind of slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Number of slots in use.
    pub used: u64,
    /// Number of slots in total.
    pub slots: u64,
}

/// State of the cache of compiled code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheReport {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of all entries.
    pub bytes: u64,
    /// Maximum bytes of all entries; 0 without a cache.
    pub max_bytes: u64,
    /// Number of modules found in the cache.
    pub hits_total: u64,
    /// Number of modules compiled.
    pub misses_total: u64,
    /// Number of entries evicted.
    pub evictions_total: u64,
    /// Number of entries found damaged: their bytes differed from those written.
    pub damaged_total: u64,
    /// Number of modules compiled but not cached: the directory is full, read-only or missing.
    pub unkept_total: u64,
}

/// State of a module from which instances are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleReport {
    /// Name of the module.
    pub name: Arc<str>,
    /// Kind of the module.
    pub kind: &'static str,
    /// Number of its live instances.
    pub live: u64,
    /// Number of its instances ever started.
    pub started_total: u64,
    /// Number of its instances that ended with a fault.
    pub faults_total: u64,
}

/// A fault that ended an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultReport {
    /// Number of the fault in its engine, from 1.
    pub seq: u64,
    /// Uptime of the runtime at the fault.
    pub at: Duration,
    /// Pid of the process that ended.
    pub pid: Pid,
    /// Module of the instance.
    pub module: Arc<str>,
    /// Stable name of the fault.
    pub code: &'static str,
    /// Functions that were running, innermost first.
    pub backtrace: Arc<[String]>,
}

/// The engines registered with a runtime.
#[derive(Default)]
pub(crate) struct Engines(Mutex<Vec<Weak<dyn Engine>>>);

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engines").finish_non_exhaustive()
    }
}

impl Engines {
    /// Registers an engine, unless it is registered already, and removes engines that no longer exist.
    pub(crate) fn register(&self, engine: Weak<dyn Engine>) {
        let mut engines = self.0.lock();
        engines.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&engine));
        engines.push(engine);
    }

    /// Returns the engines that still exist.
    pub(super) fn all(&self) -> Vec<Arc<dyn Engine>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Idle(u64);

    impl Engine for Idle {
        fn report(&self) -> EngineReport {
            EngineReport { capacity: self.0, ..EngineReport::default() }
        }
    }

    #[test]
    fn an_engine_is_shown_once_and_for_as_long_as_it_is_kept() {
        let (engines, first, second) = (Engines::default(), Arc::new(Idle(1)), Arc::new(Idle(2)));
        let weak =
            |engine: &Arc<Idle>| -> Weak<dyn Engine> { Arc::downgrade(&(Arc::clone(engine) as Arc<dyn Engine>)) };
        let seen = || engines.all().iter().map(|engine| engine.report().capacity).collect::<Vec<_>>();

        engines.register(weak(&first));
        engines.register(weak(&second));
        engines.register(weak(&second));
        assert_eq!(seen(), [1, 2]);

        drop(first);
        assert_eq!(seen(), [2]);
    }
}
