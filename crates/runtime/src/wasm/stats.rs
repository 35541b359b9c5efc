//! What guests have done and what room is left, for observers.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::capability::Capability;
use super::config::Room;
use super::{Inner, Wasm, traps};
use crate::engines::{CacheReport, Engine, EngineReport, FaultReport, ModuleReport};
use crate::runtime::Shared;

pub use crate::engines::Slots;

/// Traps that are kept for observers.
const FAULTS_KEPT: usize = 16;

/// Counters of an engine; those that end in `_total` only go up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmStats {
    /// `pool`, `checked pool` if there was no address space to spare accesses their checks, or `slabs`.
    pub room: &'static str,
    /// Instances that may live at once.
    pub capacity: u32,
    /// Instances that live.
    pub live: u32,
    /// Instances ever started.
    pub started_total: u64,
    /// Starts that found no room.
    pub refused_total: u64,
    /// Guests that did not come to their own end: that could not be instantiated, or trapped.
    pub failed_total: u64,
    /// Linear memories in use, and how many there may be.
    pub memories: Slots,
    /// Stacks in use, and how many there may be.
    pub stacks: Slots,
    /// Modules that are known by a name.
    pub modules: usize,
    /// Modules that were found compiled on disk.
    pub cache_hits_total: u64,
    /// Modules that were compiled.
    pub cache_misses_total: u64,
    /// Entries of compiled code that made room for others.
    pub cache_evictions_total: u64,
    /// Entries of compiled code that were not as they had been written.
    pub cache_damaged_total: u64,
    /// Compiled code that the directory did not take: it is full, read-only or not there.
    pub cache_unkept_total: u64,
    /// Epochs counted so far; they stand still while no guest runs.
    pub ticks_total: u64,
    /// Traps by what happened; only those that there were.
    pub traps_total: Vec<(&'static str, u64)>,
}

impl Wasm {
    /// Reads the counters.
    pub fn stats(&self) -> WasmStats {
        let node = &self.0;
        let (memories, stacks) = node.slots();
        WasmStats {
            room: node.room,
            capacity: node.config.capacity,
            live: node.live(),
            started_total: node.started(),
            refused_total: node.refused.load(Relaxed),
            failed_total: node.failed.load(Relaxed),
            memories,
            stacks,
            modules: node.registry.read().unwrap_or_else(PoisonError::into_inner).len(),
            cache_hits_total: node.compiled.hits(),
            cache_misses_total: node.compiled.misses(),
            cache_evictions_total: node.compiled.evictions(),
            cache_damaged_total: node.compiled.damaged(),
            cache_unkept_total: node.compiled.unkept(),
            ticks_total: node.ticker.ticks(),
            traps_total: counted(traps::CODES, &node.traps),
        }
    }

    /// Where instances live.
    pub fn room(&self) -> Room {
        if self.0.slabs.is_some() { Room::Slabs } else { Room::Pool }
    }
}

impl Inner {
    /// Memories and stacks.
    fn slots(&self) -> (Slots, Slots) {
        if let Some(slabs) = &self.slabs {
            let of = |arena: &super::slabs::Arena| Slots { used: arena.used().into(), slots: arena.slots().into() };
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

/// Counters with their words, but for those that are zero.
fn counted<const N: usize>(words: [&'static str; N], counters: &[AtomicU64; N]) -> Vec<(&'static str, u64)> {
    let count = |(word, counter): (&'static str, &AtomicU64)| (word, counter.load(Relaxed));
    words.into_iter().zip(counters).map(count).filter(|(_, count)| *count != 0).collect()
}

/// What became of the instances of one module.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    started: AtomicU64,
    ended: AtomicU64,
    traps: AtomicU64,
}

impl Tally {
    #[inline]
    pub(crate) fn begin(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    #[inline]
    pub(crate) fn end(&self) {
        self.ended.fetch_add(1, Relaxed);
    }

    /// Instances that live.
    fn live(&self) -> u64 {
        let ended = self.ended.load(Relaxed);
        self.started.load(Relaxed).saturating_sub(ended)
    }

    pub(crate) fn count_trap(&self) {
        self.traps.fetch_add(1, Relaxed);
    }
}

/// The last traps of an engine.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<(u64, VecDeque<FaultReport>)>);

impl Faults {
    /// Keeps a trap; its number is counted here.
    pub(crate) fn keep(&self, fault: FaultReport) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (seq, faults) = &mut *kept;
        *seq += 1;
        if faults.len() == FAULTS_KEPT {
            faults.pop_front();
        }
        faults.push_back(FaultReport { seq: *seq, ..fault });
    }

    fn all(&self) -> Vec<FaultReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.iter().cloned().collect()
    }
}

/// The runtime that shows this engine, of which a guest's start asks only whether it is the same as before.
#[derive(Debug, Default)]
pub(crate) struct Home {
    address: AtomicUsize,
    /// Keeps the address from being used again.
    shared: Mutex<Weak<Shared>>,
}

impl Inner {
    /// A guest starts there: observers of that runtime see this engine.
    #[inline]
    pub(crate) fn is_used_in(self: &Arc<Self>, shared: &Arc<Shared>) {
        if self.home.address.load(Relaxed) != Arc::as_ptr(shared).addr() {
            self.show_in(shared);
        }
    }

    #[cold]
    fn show_in(self: &Arc<Self>, shared: &Arc<Shared>) {
        let mut home = self.home.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let this: Arc<dyn Engine> = Arc::<Self>::clone(self);
        shared.engines.show(Arc::downgrade(&this));
        *home = Arc::downgrade(shared);
        // The other half is left to native processes.
        self.quota.set_max((shared.config.mailbox_total_bytes / 2).max(1));
        self.home.address.store(Arc::as_ptr(shared).addr(), Relaxed);
    }

    /// Refusals by capability, and lines of the log that were cut.
    fn refusals(&self) -> Vec<(&'static str, u64)> {
        let cut = Some(("log lines", self.log_cut.load(Relaxed))).filter(|(_, lines)| *lines != 0);
        counted(Capability::ALL.map(Capability::word), &self.denied).into_iter().chain(cut).collect()
    }

    fn module_reports(&self) -> Vec<ModuleReport> {
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        let report = |module: &super::Module| {
            let tally = &module.0.tally;
            ModuleReport {
                name: Arc::clone(&module.0.name),
                kind: module.kind(),
                live: tally.live(),
                started_total: tally.started.load(Relaxed),
                faults_total: tally.traps.load(Relaxed),
            }
        };
        registry.values().map(report).collect()
    }
}

impl Engine for Inner {
    fn report(&self) -> EngineReport {
        let (memories, stacks) = self.slots();
        let (entries, bytes) = self.compiled.held();
        EngineReport {
            kind: "wasm",
            room: self.room,
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
                hits_total: self.compiled.hits(),
                misses_total: self.compiled.misses(),
                evictions_total: self.compiled.evictions(),
                damaged_total: self.compiled.damaged(),
                unkept_total: self.compiled.unkept(),
            },
            modules: self.module_reports(),
            faults_total: counted(traps::CODES, &self.traps),
            refusals_total: self.refusals(),
            faults: self.faults.all(),
        }
    }
}
