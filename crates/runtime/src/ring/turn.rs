//! What a process owes to rings and topics at the end of its turn: wake-ups and positions that it has kept back.
//!
//! ```text
//!   write, read ──▶ touch: noted once for each turn ──▶ poll returns ──▶ end: wake readers, publish tails
//! ```
//!
//! Invariant: when a poll has returned, everything that its process has written is announced, and everything that it has
//! read is free.

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

/// The rings that were touched in this turn, and by which side: a reader has a seat.
pub(crate) struct Turn {
    /// Begins anywhere: a mark must not be taken for one of an earlier scheduler at the same address.
    number: Cell<u64>,
    /// Whether any were touched: all that the end of a turn without rings looks at.
    owes: Cell<bool>,
    touched: RefCell<Vec<Touched>>,
}

/// What is to be passed on.
enum Touched {
    /// Of a ring, by its writer or by the reader in a seat.
    Ring(Arc<dyn AnyRing>, Option<usize>),
    /// Of a topic: wake-ups.
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

/// The turn in which a side was noted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    scheduler: usize,
    turn: u64,
}

/// Where a poll runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this turn of a process.
    Turn(Mark),
    /// Where there are no turns.
    Outside,
}

impl Mark {
    /// The turn of the running process.
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

    /// Passes on what was kept back.
    #[inline]
    pub(crate) fn end(&self) {
        if self.owes.get() {
            self.pass_on();
        }
    }

    #[cold]
    fn pass_on(&self) {
        // What is woken, and what is dropped with a ring, may touch others.
        loop {
            self.number.set(self.number.get() + 1);
            let mut touched = self.touched.take();
            self.owes.set(false);
            for touched in touched.drain(..) {
                panics::contain(|| touched.pass_on());
            }
            // Its memory serves the next turn.
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

/// Notes that a side has something to pass on at the end of this turn; false where there are no turns.
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

/// Notes for observers that the running process, if one runs, is who reads from this seat.
pub(crate) fn note_reader<T>(ring: &Shared<T>, seat: usize) {
    if let Some(pid) = running_pid() {
        ring.cursors.seats.owner(seat).store(packed(pid), Ordering::Relaxed);
    }
}

/// Has the topic's sleepers woken at the end of this turn; false where there are no turns.
pub(crate) fn wakes_later(topic: &Arc<topic::Shared>) -> bool {
    let Some(running) = running() else { return false };
    running.local.turn.touched.borrow_mut().push(Touched::Topic(Arc::clone(topic)));
    running.local.turn.owes.set(true);
    true
}

/// The running process.
pub(crate) fn running_pid() -> Option<Pid> {
    running().map(|running| running.pid())
}

/// Whether the running process may go on, or has had its share of this turn; it must return to its scheduler then.
#[inline]
pub(crate) fn may_go_on(cx: &Context<'_>) -> bool {
    place_to_go_on(cx).is_some()
}

/// The same, and where that is.
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

/// Notes that the poll waits for the other side of a ring.
pub(crate) fn waits() {
    if let Some(running) = running() {
        running.waits_for(WAIT_SEND);
    }
}
