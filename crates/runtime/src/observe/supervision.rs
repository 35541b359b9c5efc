//! Counters of supervisors.

use std::sync::atomic::Ordering::Relaxed;

use crate::runtime::handle::Handle;
use crate::supervision::supervisor::restart_pressure::RestartPressure;

/// Counters of all supervisors of a runtime; all of them only go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SupervisionCounters {
    /// Number of children restarted after they had died.
    pub restarts: u64,
    /// Number of restarts that failed.
    pub restarts_failed: u64,
    /// Number of children that were never restarted because their supervisor gave up.
    pub children_lost: u64,
    /// Number of supervisors that ended because their children ended too often.
    pub gave_up: u64,
}

/// Reads the counters of the supervisors of a runtime.
pub fn supervision(runtime: &Handle) -> SupervisionCounters {
    let mut sum = SupervisionCounters::default();
    for scheduler in &runtime.shared.schedulers {
        let counters = &scheduler.counters;
        sum.restarts += counters.restarts.load(Relaxed);
        sum.restarts_failed += counters.restarts_failed.load(Relaxed);
        sum.children_lost += counters.children_lost.load(Relaxed);
        sum.gave_up += counters.gave_up.load(Relaxed);
    }
    sum
}

/// Returns supervisors that had used more than half of their restarts at their last restart, however long ago it was.
pub fn restart_pressure(runtime: &Handle) -> Vec<RestartPressure> {
    runtime.shared.restart_pressures.all()
}
