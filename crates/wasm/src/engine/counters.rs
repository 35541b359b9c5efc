//! Counters of modules, and the last traps of an engine.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use rusm_runtime::embed::guest::RuntimeGuard;
use rusm_runtime::observe::FaultReport;

/// Number of traps kept for observers.
const FAULTS_KEPT: usize = 16;

/// Counters of the instances of one module.
#[derive(Debug, Default)]
pub(crate) struct ModuleCounters {
    pub(crate) started: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) traps: AtomicU64,
}

impl ModuleCounters {
    #[inline]
    pub(crate) fn begin(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    #[inline]
    pub(crate) fn end(&self) {
        self.ended.fetch_add(1, Relaxed);
    }

    /// Number of live instances.
    pub(crate) fn live(&self) -> u64 {
        let ended = self.ended.load(Relaxed);
        self.started.load(Relaxed).saturating_sub(ended)
    }

    pub(crate) fn count_trap(&self) {
        self.traps.fetch_add(1, Relaxed);
    }
}

/// The last traps of an engine.
#[derive(Debug, Default)]
pub(crate) struct TrapLog(Mutex<(u64, VecDeque<FaultReport>)>);

impl TrapLog {
    /// Stores a trap and numbers it.
    pub(crate) fn keep(&self, fault: FaultReport) {
        let mut kept = self.0.lock();
        let (seq, faults) = &mut *kept;
        *seq += 1;
        if faults.len() == FAULTS_KEPT {
            faults.pop_front();
        }
        faults.push_back(FaultReport { seq: *seq, ..fault });
    }

    /// Returns the kept traps, oldest first.
    pub(crate) fn all(&self) -> Vec<FaultReport> {
        self.0.lock().1.iter().cloned().collect()
    }
}

/// Runtime that shows this engine. The start of a guest only checks whether it is still the same one.
#[derive(Debug, Default)]
pub(crate) struct RuntimeLink {
    pub(crate) address: AtomicUsize,
    /// Keeps the address from being reused.
    pub(crate) guard: Mutex<RuntimeGuard>,
}
