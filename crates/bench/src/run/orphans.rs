//! Ends the processes that a scenario leaves behind when its driver process is killed: nothing else would end them.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use rusm_runtime::{ExitReason, Handle, Pid, observe};

/// Maximum number of scans. Each scan ends the processes that were spawned while the previous scan ran.
const LOOKS_MAX: usize = 20;
/// Pause between two scans.
const PAUSE: Duration = Duration::from_millis(10);

/// Ends all descendants of a process that has ended.
///
/// A descendant is missed if its parent ended before a scan saw it: the process table still names that parent, but the
/// row of the parent, which named the grandparent, is gone.
pub(crate) fn end(handle: &Handle, root: Pid) {
    let mut family = HashSet::from([root]);
    for _ in 0..LOOKS_MAX {
        let mut found = false;
        let slots: HashSet<_> = family.iter().map(|pid| pid.slot()).collect();
        for part in 0..observe::table_parts(handle) {
            for pid in children(handle, part, &slots, |parent| family.contains(&parent)) {
                handle.exit(pid, ExitReason::Killed);
                family.insert(pid);
                found = true;
            }
        }
        if !found {
            return;
        }
        thread::park_timeout(PAUSE);
    }
}

/// Returns the processes in one part of the process table that have a parent in one of `slots` for which `is_meant` is
/// true.
pub(crate) fn children(handle: &Handle, part: usize, slots: &HashSet<u32>, is_meant: impl Fn(Pid) -> bool) -> Vec<Pid> {
    let mut children = Vec::new();
    observe::for_each_process(handle, part, |seen| {
        if slots.contains(&seen.parent_slot()) {
            children.push(seen.pid());
        }
    });
    // A slot may have been reused: check the full pid of the parent.
    children.retain(|pid| observe::process(handle, *pid).and_then(|seen| seen.parent).is_some_and(&is_meant));
    children
}
