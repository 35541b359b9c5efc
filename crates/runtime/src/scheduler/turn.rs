//! Notifications that are deferred to the end of a process's turn, for example of the readers of a ring.
//!
//! The scheduler does not know who defers: rings and topics implement [`TurnEnd`].

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use crate::runtime::panics;

/// An object with notifications to send at the end of a turn.
pub(crate) trait TurnEnd: Send + Sync {
    /// Sends the deferred notifications of one part of the object, as given to [`Turn::defer`].
    fn end_turn(&self, part: Option<usize>);
}

/// A part of an object with deferred notifications.
type Deferred = (Arc<dyn TurnEnd>, Option<usize>);

/// What was deferred in this turn.
pub(crate) struct Turn {
    /// Starts at a random number: otherwise a turn could be taken for one of an earlier scheduler at the same address.
    number: Cell<u64>,
    /// True if any notification was deferred. The end of a turn without any checks nothing else.
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

    /// Returns the number of this turn.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.get()
    }

    /// Defers the notifications of one part of an object to the end of this turn.
    pub(crate) fn defer(&self, object: Arc<dyn TurnEnd>, part: Option<usize>) {
        self.deferred.borrow_mut().push((object, part));
        self.has_deferred.set(true);
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
        // Waking a process or dropping a ring may defer more, so repeat until nothing is left.
        loop {
            self.number.set(self.number.get() + 1);
            let mut deferred = self.deferred.take();
            self.has_deferred.set(false);
            for (object, part) in deferred.drain(..) {
                panics::contain(|| {
                    object.end_turn(part);
                    drop(object);
                });
            }
            // Reuse the memory in the next turn.
            if !self.has_deferred.get() {
                *self.deferred.borrow_mut() = deferred;
                return;
            }
        }
    }
}
