//! What a scenario leaves behind that somebody killed, conductor and all: nobody else would end it.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use rusm_runtime::{ExitReason, Handle, Pid, observe};

/// Looks for more of them; each ends those that the ones before it spawned while they were ended.
const LOOKS_MAX: usize = 20;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Ends all that descends from a process that has ended.
///
/// Whose parent had ended unseen is not found: its row says who that was, but nothing says whose child that was.
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

/// Those in a part of the process table whose parents were in these slots, and are those meant.
pub(crate) fn children(handle: &Handle, part: usize, slots: &HashSet<u32>, is_meant: impl Fn(Pid) -> bool) -> Vec<Pid> {
    let mut children = Vec::new();
    observe::glimpses(handle, part, |seen| {
        if slots.contains(&seen.parent_slot()) {
            children.push(seen.pid());
        }
    });
    // A slot may have had another tenant, whose children are none of these.
    children.retain(|pid| observe::process(handle, *pid).and_then(|seen| seen.parent).is_some_and(&is_meant));
    children
}
