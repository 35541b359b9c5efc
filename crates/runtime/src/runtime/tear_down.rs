//! The end of a runtime after its threads: frees what they have left behind.
//!
//! A thread outside may still be creating a process, because a shutdown waits for it only for a while. That thread
//! tears the runtime down once more when it has finished, so its process ends like all others.

#![expect(unsafe_code, reason = "frees the process table after the last scheduler has ended")]

use std::sync::atomic::Ordering;

use crate::mailbox::queue::NodePool;
use crate::process::exit::ExitReason;
use crate::runtime::panics;
use crate::runtime::shared::RuntimeShared;

/// Frees everything that processes hold. The threads of the runtime have ended.
pub(crate) fn tear_down(shared: &RuntimeShared) {
    let mut has_released = shared.has_released_table.lock();
    shared.is_torn_down.store(true, Ordering::SeqCst);
    // Read before the slots: a process whose creation has ended by now is found below.
    let is_last = shared.spawns_in_progress.load(Ordering::SeqCst) == 0;
    for slot in shared.table.slots() {
        if slot.header().gate.is_closed() {
            continue;
        }
        let pid = slot.pid();
        let taken = slot.header().gate.close();
        // SAFETY: the threads have ended and the lock is held, so this thread alone owns the body of the process,
        // including its future.
        unsafe {
            let body = slot.body();
            panics::contain(|| drop(body.drop_future()));
            let mut backlog = body.backlog.get();
            backlog.append(taken.newest(), pid.generation());
            while let Some(envelope) = backlog.pop() {
                panics::contain(|| drop(envelope));
            }
        }
        if let Some(released) = shared.side_tables.release(slot, pid) {
            shared.release_side_table(pid, released, Some(&ExitReason::Killed));
        }
    }
    // Close the topics here, not in their `drop`: a handle may delay that forever, while threads wait at the topics.
    shared.topics.end();
    shared.run_remaining_calls();
    NodePool::clear(&shared.nodes);
    if is_last && !*has_released {
        *has_released = true;
        // SAFETY: every gate is closed, the threads have ended, and no other thread can begin to create a process.
        unsafe { shared.table.release() };
    }
}

/// Ends the process that this thread has just created, if the runtime was torn down meanwhile. Called after the creation
/// no longer counts as in progress: either the tear-down sees the process, or this thread sees the tear-down.
#[inline]
pub(crate) fn end_late_spawn(shared: &RuntimeShared) {
    if shared.is_torn_down.load(Ordering::SeqCst) {
        tear_down(shared);
    }
}
