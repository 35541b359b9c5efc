//! Engines that run bodies of their own kind, as observers see them: what room they have, what they run, what went wrong.
//!
//! ```text
//!   engine ── shown in a runtime when its first process starts there ──▶ Engines ──▶ observers, who ask for reports
//! ```
//!
//! The core knows nothing about them beyond this. An engine is shown for as long as somebody keeps it; a report is made when
//! somebody asks, and costs nothing otherwise.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::handle::Handle;
use crate::pid::Pid;

/// Something that runs bodies of its own kind.
pub trait Engine: Send + Sync {
    /// How it does; called by observers, and must never wait for what it runs.
    fn report(&self) -> EngineReport;
}

/// How an engine does; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineReport {
    /// The kind of its bodies, in a word.
    pub kind: &'static str,
    /// Where its instances live, in a word.
    pub room: &'static str,
    /// Instances that may live at once.
    pub capacity: u64,
    /// Instances that live.
    pub live: u64,
    /// Instances ever started.
    pub started_total: u64,
    /// Starts that found no room.
    pub refused_total: u64,
    /// What instances are made of, and how much of it there is.
    pub slots: Vec<(&'static str, Slots)>,
    /// Time slices counted; they stand still while nothing runs.
    pub ticks_total: u64,
    /// How long a slice is.
    pub tick: Duration,
    /// Whether slices are counted now.
    pub is_ticking: bool,
    /// Code that was compiled before.
    pub cache: CacheReport,
    /// What instances are made from.
    pub modules: Vec<ModuleReport>,
    /// Faults by what happened; only those that there were.
    pub faults_total: Vec<(&'static str, u64)>,
    /// What instances asked for and were not allowed, by what it takes; only those that there were.
    pub refusals_total: Vec<(&'static str, u64)>,
    /// The last faults, the oldest first.
    pub faults: Vec<FaultReport>,
}

/// How much of something is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// In use.
    pub used: u64,
    /// There are.
    pub slots: u64,
}

/// Compiled code that is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheReport {
    /// Entries kept.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that may be kept; 0 if nothing is.
    pub max_bytes: u64,
    /// Modules that were found compiled.
    pub hits_total: u64,
    /// Modules that were compiled.
    pub misses_total: u64,
    /// Entries that made room for others.
    pub evictions_total: u64,
    /// Entries that were not as they had been written.
    pub damaged_total: u64,
    /// What was compiled and not kept: the directory is full, read-only or not there.
    pub unkept_total: u64,
}

/// Something that instances are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: &'static str,
    /// Instances of it that live.
    pub live: u64,
    /// Instances of it ever started.
    pub started_total: u64,
    /// Instances of it that ended by a fault.
    pub faults_total: u64,
}

/// How an instance came to its end by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultReport {
    /// Counts the faults of its engine, from 1.
    pub seq: u64,
    /// The runtime's uptime.
    pub at: Duration,
    /// Whose end it was.
    pub pid: Pid,
    /// What it was made from.
    pub module: Arc<str>,
    /// What happened, in words that do not change.
    pub code: &'static str,
    /// The functions that were running, the innermost first.
    pub backtrace: Arc<[String]>,
}

/// The engines of a runtime.
#[derive(Default)]
pub(crate) struct Engines(Mutex<Vec<Weak<dyn Engine>>>);

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engines").finish_non_exhaustive()
    }
}

impl Engines {
    /// Shows an engine, once; those that are gone are forgotten.
    #[cfg_attr(not(any(feature = "wasm", test)), expect(dead_code, reason = "the core has no engine"))]
    pub(crate) fn show(&self, engine: Weak<dyn Engine>) {
        let mut engines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        engines.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&engine));
        engines.push(engine);
    }

    fn all(&self) -> Vec<Arc<dyn Engine>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }
}

/// How the engines do that have started processes in this runtime, the oldest first.
pub fn engines(runtime: &Handle) -> Vec<EngineReport> {
    // Not under the lock: an engine may take its time.
    runtime.shared.engines.all().iter().map(|engine| engine.report()).collect()
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

        engines.show(weak(&first));
        engines.show(weak(&second));
        engines.show(weak(&second));
        assert_eq!(seen(), [1, 2]);

        drop(first);
        assert_eq!(seen(), [2]);
    }
}
