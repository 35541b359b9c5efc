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

use super::shared::{AnyRing, Shared, packed};
use crate::cell::WAIT_SEND;
use crate::panics;
use crate::pid::Pid;
use crate::running::Running;
use crate::scheduler::{self, Local};
use crate::topic;

/// Rings touched in this turn, each with the side: the writer, or the reader in a reader slot.
pub(crate) struct Turn {
    /// Starts at a random number: otherwise a mark could match one of an earlier scheduler at the same address.
    number: Cell<u64>,
    /// True if any ring or topic was touched. The end of a turn without rings checks nothing else.
    owes: Cell<bool>,
    touched: RefCell<Vec<Touched>>,
}

/// A deferred notification.
enum Touched {
    /// Of a ring, by its writer or by the reader in a reader slot.
    Ring(Arc<dyn AnyRing>, Option<usize>),
    /// Wake-ups of a topic.
    Topic(Arc<topic::Shared>),
}

impl Touched {
    fn pass_on(self) {
        match self {
            Self::Ring(ring, None) => ring.cursors().wake(),
            Self::Ring(ring, Some(seat)) => ring.cursors().publish_seat(seat),
            Self::Topic(topic) => topic.wake(),
        }
    }
}

/// Turn in which a side of a ring was last recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    scheduler: usize,
    turn: u64,
}

/// Context in which a poll runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// This turn of a process.
    Turn(Mark),
    /// Outside of processes, where there are no turns.
    Outside,
}

impl Mark {
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
            owes: Cell::new(false),
            touched: RefCell::default(),
        }
    }

    /// Sends the deferred notifications.
    #[inline]
    pub(crate) fn end(&self) {
        if self.owes.get() {
            self.pass_on();
        }
    }

    #[cold]
    fn pass_on(&self) {
        // Waking a process or dropping a ring may touch other rings, so repeat until none is left.
        loop {
            self.number.set(self.number.get() + 1);
            let mut touched = self.touched.take();
            self.owes.set(false);
            for touched in touched.drain(..) {
                panics::contain(|| touched.pass_on());
            }
            // Reuse the memory in the next turn.
            if !self.owes.get() {
                *self.touched.borrow_mut() = touched;
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
pub(crate) fn touch<T: Send + Sync + 'static>(ring: &Arc<Shared<T>>, seat: Option<usize>, mark: &mut Mark) -> bool {
    let Some(running) = running() else { return false };
    let now = Mark::of(&running);
    if *mark != now {
        *mark = now;
        note(ring, seat, &running);
    }
    true
}

#[cold]
fn note<T: Send + Sync + 'static>(ring: &Arc<Shared<T>>, seat: Option<usize>, running: &Running<'_>) {
    match seat {
        None => ring.notes.set_writer(running.pid()),
        // Relaxed: only observers read it.
        Some(seat) => ring.cursors.seats.owner(seat).store(packed(running.pid()), Ordering::Relaxed),
    }
    running.local.turn.touched.borrow_mut().push(Touched::Ring(Arc::<Shared<T>>::clone(ring), seat));
    running.local.turn.owes.set(true);
}

/// Records the running process, if there is one, as the reader of this reader slot, for observers.
pub(crate) fn note_reader<T>(ring: &Shared<T>, seat: usize) {
    if let Some(pid) = running_pid() {
        ring.cursors.seats.owner(seat).store(packed(pid), Ordering::Relaxed);
    }
}

/// Wakes the topic's sleepers at the end of this turn; returns false outside of turns.
pub(crate) fn wakes_later(topic: &Arc<topic::Shared>) -> bool {
    let Some(running) = running() else { return false };
    running.local.turn.touched.borrow_mut().push(Touched::Topic(Arc::clone(topic)));
    running.local.turn.owes.set(true);
    true
}

/// Returns the pid of the running process.
pub(crate) fn running_pid() -> Option<Pid> {
    running().map(|running| running.pid())
}

/// Returns true if the running process may continue; false if its budget is used up and it must return to its
/// scheduler.
#[inline]
pub(crate) fn may_go_on(cx: &Context<'_>) -> bool {
    place_to_go_on(cx).is_some()
}

/// Same as [`may_go_on`], but returns the context in which the poll runs.
#[inline]
pub(crate) fn place_to_go_on(cx: &Context<'_>) -> Option<Place> {
    let Some(running) = running() else { return Some(Place::Outside) };
    if running.strays(cx) {
        return None;
    }
    let budget = &running.local.budget;
    if budget.get() == 0 {
        running.yield_now();
        running.is_awaited_by(cx);
        return None;
    }
    budget.set(budget.get() - 1);
    Some(Place::Turn(Mark::of(&running)))
}

/// Records that the running process waits for the other side of a ring.
pub(crate) fn waits() {
    if let Some(running) = running() {
        running.waits_for(WAIT_SEND);
    }
}
