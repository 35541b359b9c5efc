//! What a process holds beyond its side table, for example a table or keys of a registry, and gives up at its end.

use std::sync::Arc;

use crate::links::registry::SideTables;
use crate::process::pid::Pid;
use crate::runtime::panics;
use crate::runtime::shared::RuntimeShared;

/// Something that processes hold, and that learns of their end.
pub(crate) trait Holding: Send + Sync {
    /// Called when a process that holds this has ended, before its end is announced.
    fn holder_ended(self: Arc<Self>, shared: &RuntimeShared, pid: Pid);
}

impl RuntimeShared {
    /// Lets a process hold something. Returns what `add` returns, which runs while the process cannot end; `None` if the
    /// process has ended.
    pub(crate) fn hold<R>(&self, pid: Pid, holding: Arc<dyn Holding>, add: impl FnOnce() -> R) -> Option<R> {
        let slot = self.table.slot(pid)?;
        SideTables::hold(slot, pid, holding, add)
    }

    /// Undoes [`hold`](Self::hold).
    pub(crate) fn release_holding(&self, pid: Pid, holding: &Arc<dyn Holding>) {
        if let Some(slot) = self.table.slot(pid) {
            SideTables::release_holding(slot, pid, holding);
        }
    }

    pub(crate) fn end_holdings(&self, pid: Pid, holdings: Vec<Arc<dyn Holding>>) {
        for holding in holdings {
            // Drops values of the program.
            panics::contain(|| holding.holder_ended(self, pid));
        }
    }
}
