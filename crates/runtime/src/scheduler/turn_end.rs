//! Work that is deferred to the end of a process's turn.
//!
//! ```text
//!   a ring or a topic ──▶ defer: recorded in the turn ──▶ poll returns ──▶ end: `end_turn` of everything recorded
//! ```
//!
//! Rings and topics implement [`TurnEnd`]; the scheduler knows nothing else about them.
//!
//! Invariant: when the scheduler continues after a poll, all work deferred in it is done.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use crate::runtime::panics;

/// An object with work for the end of a turn.
pub(crate) trait TurnEnd: Send + Sync {
    /// Does the work. `part` is the value that was deferred with it, and may select a part of the object.
    fn end_turn(&self, part: Option<usize>);
}

/// An object with deferred work, and the part of it.
type Deferred = (Arc<dyn TurnEnd>, Option<usize>);

/// Work deferred in the current turn of a scheduler's processes.
pub(crate) struct Turn {
    /// Starts at a random number: otherwise a turn could match one of an earlier scheduler at the same address.
    number: Cell<u64>,
    /// True if any work was deferred. The end of a turn without such work checks nothing else.
    has_deferred: Cell<bool>,
    deferred: RefCell<Vec<Deferred>>,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self {
            number: Cell::new(RandomState::new().build_hasher().finish() >> 1),
            has_deferred: Cell::new(false),
            deferred: RefCell::default(),
        }
    }

    /// Returns the number of the current turn. It changes only at the end of turns that have deferred work.
    #[inline]
    pub(crate) const fn number(&self) -> u64 {
        self.number.get()
    }

    /// Calls `end_turn` of `target` at the end of this turn.
    pub(crate) fn defer(&self, target: Arc<dyn TurnEnd>, part: Option<usize>) {
        self.deferred.borrow_mut().push((target, part));
        self.has_deferred.set(true);
    }

    /// Does the deferred work.
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
            for (target, part) in deferred.drain(..) {
                // Dropping the target may also run any code, so drop it inside.
                panics::contain(move || target.end_turn(part));
            }
            // Reuse the memory in the next turn.
            if !self.has_deferred.get() {
                *self.deferred.borrow_mut() = deferred;
                return;
            }
        }
    }
}
