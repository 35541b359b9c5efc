//! The supervision tree for observers: they read one page, one child or one position at a time.

use std::time::Instant;

use super::tree::{ChildEnd, ChildKey, ChildPage, ChildReport, SupervisorReport};
use crate::{Handle, Pid};

/// Returns the number of top-level supervisors, and up to `limit` of them from `offset` on, in the order of their
/// start. A top-level supervisor was not started by a supervisor.
pub fn top_supervisors(runtime: &Handle, offset: usize, limit: usize) -> (usize, Vec<Pid>) {
    runtime.shared.tree.top(offset, limit)
}

/// Returns the top-level supervisors among `pids`, with their positions among all of them, in ascending order.
pub fn top_positions(runtime: &Handle, pids: impl IntoIterator<Item = Pid>) -> Vec<(usize, Pid)> {
    runtime.shared.tree.top_positions(pids.into_iter())
}

/// Returns a report of a supervisor; `None` if no supervisor has this pid.
///
/// Does not involve the supervisor's process, which may be busy or stuck.
pub fn supervisor(runtime: &Handle, pid: Pid) -> Option<SupervisorReport> {
    runtime.shared.tree.branch(pid).map(|branch| branch.report(now()))
}

/// Returns a page of the children of a supervisor, in the order of their start; `None` if no supervisor has this pid.
///
/// The supervisor cannot restart a child while the page is copied. The children before the page take no time, unless
/// children were removed there.
pub fn children(runtime: &Handle, supervisor: Pid, offset: usize, limit: usize) -> Option<ChildPage> {
    let branch = runtime.shared.tree.branch(supervisor)?;
    Some(branch.page(offset, limit, runtime.shared.started, now()))
}

/// Returns a child of a supervisor with its last [`ENDS_KEPT`](crate::supervision::supervisor::ENDS_KEPT) ends, newest
/// first.
pub fn child(runtime: &Handle, supervisor: Pid, key: ChildKey) -> Option<(ChildReport, Vec<ChildEnd>)> {
    runtime.shared.tree.branch(supervisor)?.child(key, runtime.shared.started, now())
}

/// Returns the positions of children among all children of their supervisor; `keys` must be in ascending order.
pub fn child_positions(runtime: &Handle, supervisor: Pid, keys: &[ChildKey]) -> Option<Vec<Option<usize>>> {
    Some(runtime.shared.tree.branch(supervisor)?.positions(keys))
}

/// Returns the time of the clock that supervisors use, which may be virtual in a test.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
