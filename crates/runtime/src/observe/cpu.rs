//! CPU time by kind of process, ended processes included.

use crate::links::registry::SideTables;
use crate::observe::kinds::{EndedGroup, ProcessKind};
use crate::observe::processes::ProcessRef;
use crate::runtime::handle::Handle;

/// Returns the counters of ended processes by kind and parent. Each scheduler has groups of its own, so a kind and parent
/// may appear several times.
pub fn ended_groups(runtime: &Handle) -> Vec<EndedGroup> {
    runtime.shared.schedulers.iter().flat_map(|scheduler| scheduler.ended.read()).collect()
}

/// Returns the kind of a process: its label, the source of its body, or the type of its future.
pub fn kind(seen: &ProcessRef<'_>) -> ProcessKind {
    let slot = seen.table_slot();
    let told = if seen.may_have_kind() { SideTables::kind(slot, seen.pid()) } else { None };
    told.unwrap_or_else(|| ProcessKind::Future(slot.future_type()))
}
