//! Work for rings and topics that is deferred to the end of a process's turn: wake-ups and positions of readers.
//!
//! ```text
//!   write, read ──▶ touch: recorded once per turn ──▶ poll returns ──▶ end: wake readers, publish tails
//! ```
//!
//! Invariant: when a poll has returned, everything that its process has written is announced, and everything that it
//! has read is free.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;

use super::shared::{AnyRing, RingShared, packed};
use crate::process::header::WAIT_SEND;
use crate::process::pid::Pid;
use crate::process::running::Running;
use crate::runtime::panics;
use crate::scheduler::{self, Local};
use crate::topic;

/// Rings deferred in this turn, each with the side: the writer, or the reader in a reader slot.
pub(crate) struct Turn {
    /// Starts at a random number: otherwise a `TurnId` could match one of an earlier scheduler at the same address.
    number: Cell<u64>,
    /// True if any notification was deferred. The end of a turn without rings checks nothing else.
    has_deferred: Cell<bool>,
    deferred: RefCell<Vec<DeferredWake>>,
}

/// A deferred notification.
enum DeferredWake {
    /// Of a ring, by its writer or by the reader in a reader slot.
    Ring(Arc<dyn AnyRing>, Option<usize>),
    /// Wake-ups of a topic.
    Topic(Arc<topic::TopicShared>),
}

impl DeferredWake {
    fn deliver(self) {
        match self {
            Self::Ring(ring, None) => ring.cursors().wake(),
            Self::Ring(ring, Some(reader_slot)) => ring.cursors().publish_reader(reader_slot),
            Self::Topic(topic) => topic.wake(),
        }
    }
}

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

impl TurnId {
    /// Returns the current turn of the running process.
    #[inline]
    fn of(running: &Running<'_>) -> Self {
        Self { scheduler: ptr::from_ref(running.local).addr(), turn: running.local.turn.number.get() }
    }
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self {
            number: Cell::new(RandomState::new().build_hasher().finish() >> 1),
            has_deferred: Cell::new(false),
            deferred: RefCell::default(),
        }
    }

    /// Sends the deferred notifications.
    #[inline]
    pub(crate) fn end(&self) {
        if self.has_deferred.get() {
            self.flush();
        }
    }

    #[cold]
    fn flush(&self) {
        // Waking a process or dropping a ring may touch other rings, so repeat until none is left.
        loop {
            self.number.set(self.number.get() + 1);
            let mut deferred = self.deferred.take();
            self.has_deferred.set(false);
            for deferred in deferred.drain(..) {
                panics::contain(|| deferred.deliver());
            }
            // Reuse the memory in the next turn.
            if !self.has_deferred.get() {
                *self.deferred.borrow_mut() = deferred;
                return;
            }
        }
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
            ring.cursors.reader_slots.owner(reader_slot).store(packed(running.pid()), Ordering::Relaxed)
        }
    }
    running.local.turn.deferred.borrow_mut().push(DeferredWake::Ring(Arc::<RingShared<T>>::clone(ring), reader_slot));
    running.local.turn.has_deferred.set(true);
}

/// Records the running process, if there is one, as the reader of this reader slot, for observers.
pub(crate) fn record_reader<T>(ring: &RingShared<T>, reader_slot: usize) {
    if let Some(pid) = running_pid() {
        ring.cursors.reader_slots.owner(reader_slot).store(packed(pid), Ordering::Relaxed);
    }
}

/// Wakes the topic's sleepers at the end of this turn; returns false outside of turns.
pub(crate) fn defer_topic_wake(topic: &Arc<topic::TopicShared>) -> bool {
    let Some(running) = running() else { return false };
    running.local.turn.deferred.borrow_mut().push(DeferredWake::Topic(Arc::clone(topic)));
    running.local.turn.has_deferred.set(true);
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

/// Records that the running process waits for the other side of a ring.
pub(crate) fn record_wait() {
    if let Some(running) = running() {
        running.record_wait(WAIT_SEND);
    }
}
