//! What rings, topics and the store's commits defer to the end of a turn: wake-ups and positions of readers.
//!
//! ```text
//!   write, read ──▶ defer: recorded once per turn ──▶ poll returns ──▶ end: wake readers, publish tails
//! ```
//!
//! Invariant: when a poll has returned, everything that its process has written is announced, and everything that it
//! has read is free.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;

use super::shared::{RingShared, packed};
use crate::process::header::{WAIT_SEND, WAIT_STORE};
use crate::process::pid::Pid;
use crate::process::running::Running;
use crate::scheduler::turn_end::TurnEnd;
use crate::scheduler::{self, Local};

/// Turn in which a side of a ring was last recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TurnId {
    scheduler: usize,
    turn: u64,
}

/// Context in which a poll runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollContext {
    /// This turn of a process.
    Turn(TurnId),
    /// Outside of processes, where turns do not exist.
    Outside,
}

impl<T: Send + Sync> TurnEnd for RingShared<T> {
    /// Announces what the writer has written, or what the reader in a reader slot has read.
    fn end_turn(&self, reader_slot: Option<usize>) {
        match reader_slot {
            None => self.cursors.wake(),
            Some(reader_slot) => self.cursors.publish_reader(reader_slot),
        }
    }
}

impl TurnId {
    /// Returns the current turn of the running process.
    #[inline]
    fn of(running: &Running<'_>) -> Self {
        Self { scheduler: ptr::from_ref(running.local).addr(), turn: running.local.turn.number() }
    }
}

#[inline]
fn running<'a>() -> Option<Running<'a>> {
    scheduler::local().and_then(Local::running)
}

/// Records that a side has a notification to send at the end of this turn; returns false outside of turns.
#[inline]
pub(crate) fn defer<T: Send + Sync + 'static>(
    ring: &Arc<RingShared<T>>,
    reader_slot: Option<usize>,
    last_turn: &mut TurnId,
) -> bool {
    let Some(running) = running() else { return false };
    let now = TurnId::of(&running);
    if *last_turn != now {
        *last_turn = now;
        record(ring, reader_slot, &running);
    }
    true
}

#[cold]
fn record<T: Send + Sync + 'static>(ring: &Arc<RingShared<T>>, reader_slot: Option<usize>, running: &Running<'_>) {
    match reader_slot {
        None => ring.info.set_writer(running.pid()),
        // Relaxed: only observers read it.
        Some(reader_slot) => {
            ring.cursors.reader_slots.owner(reader_slot).store(packed(running.pid()), Ordering::Relaxed);
        }
    }
    running.local.turn.defer(Arc::<RingShared<T>>::clone(ring), reader_slot);
}

/// Records the running process, if there is one, as the reader of this reader slot, for observers.
pub(crate) fn record_reader<T>(ring: &RingShared<T>, reader_slot: usize) {
    if let Some(pid) = running_pid() {
        ring.cursors.reader_slots.owner(reader_slot).store(packed(pid), Ordering::Relaxed);
    }
}

/// Calls `end_turn` of `target` at the end of this turn; returns false outside of turns.
pub(crate) fn defer_turn_end<T: TurnEnd + 'static>(target: &Arc<T>) -> bool {
    let Some(running) = running() else { return false };
    running.local.turn.defer(Arc::<T>::clone(target), None);
    true
}

/// Returns the pid of the running process.
pub(crate) fn running_pid() -> Option<Pid> {
    running().map(|running| running.pid())
}

/// Returns true if the running process may continue; false if its budget is used up and it must return to its
/// scheduler.
#[inline]
pub(crate) fn may_proceed(cx: &Context<'_>) -> bool {
    poll_proceed(cx).is_some()
}

/// Same as [`may_proceed`], but returns the context in which the poll runs.
#[inline]
pub(crate) fn poll_proceed(cx: &Context<'_>) -> Option<PollContext> {
    let Some(running) = running() else { return Some(PollContext::Outside) };
    if running.is_preempted(cx) {
        return None;
    }
    let budget = &running.local.budget;
    if budget.get() == 0 {
        running.yield_now();
        running.register_waker(cx);
        return None;
    }
    budget.set(budget.get() - 1);
    Some(PollContext::Turn(TurnId::of(&running)))
}

/// Records that the running process waits for a reader of a ring. Observers then see who waits for whom.
pub(crate) fn record_writer_wait<T>(ring: &RingShared<T>) {
    if let Some(running) = running() {
        running.record_wait(WAIT_SEND);
        ring.info.set_writer(running.pid());
    }
}

/// Records that the running process waits for a commit of a store.
pub(crate) fn record_store_wait() {
    if let Some(running) = running() {
        running.record_wait(WAIT_STORE);
    }
}

/// Records that the running process waits for the other side of a ring.
pub(crate) fn record_wait() {
    if let Some(running) = running() {
        running.record_wait(WAIT_SEND);
    }
}
