//! The tree of supervisors, for those who look at it from outside: a page, a child or a place at a time.

use std::time::Instant;

use super::tree::{ChildEnd, ChildKey, ChildPage, ChildReport, SupervisorReport};
use crate::{Handle, Pid};

/// How many supervisors there are that no supervisor has started, and `most` of them in the order of their start.
pub fn top_supervisors(runtime: &Handle, offset: usize, most: usize) -> (usize, Vec<Pid>) {
    runtime.shared.tree.top(offset, most)
}

/// Those of these supervisors that no supervisor has started, with their places among all such, which rise.
pub fn top_places(runtime: &Handle, pids: impl IntoIterator<Item = Pid>) -> Vec<(usize, Pid)> {
    runtime.shared.tree.top_places(pids.into_iter())
}

/// Looks at a supervisor; `None` if there is none of this pid.
///
/// It is not asked, so it may be busy or stuck.
pub fn supervisor(runtime: &Handle, pid: Pid) -> Option<SupervisorReport> {
    runtime.shared.tree.branch(pid).map(|branch| branch.report(now()))
}

/// A page of the children of a supervisor, in the order of their start; `None` if there is no supervisor of this pid.
///
/// The supervisor is kept from its next restart for as long as it takes to copy the page, and not for what lies before it
/// unless children were forgotten there.
pub fn children(runtime: &Handle, supervisor: Pid, offset: usize, most: usize) -> Option<ChildPage> {
    let branch = runtime.shared.tree.branch(supervisor)?;
    Some(branch.page(offset, most, runtime.shared.started, now()))
}

/// A child of a supervisor with the last [`ENDS_KEPT`](crate::supervisor::ENDS_KEPT) of its ends, the newest first.
pub fn child(runtime: &Handle, supervisor: Pid, key: ChildKey) -> Option<(ChildReport, Vec<ChildEnd>)> {
    runtime.shared.tree.branch(supervisor)?.child(key, runtime.shared.started, now())
}

/// The places of children among all of their supervisor; `keys` rise.
pub fn child_places(runtime: &Handle, supervisor: Pid, keys: &[ChildKey]) -> Option<Vec<Option<usize>>> {
    Some(runtime.shared.tree.branch(supervisor)?.places(keys))
}

/// The clock that supervisors go by, which in a test may be a virtual one.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
