//! How a process that may only send to processes it knows gets to know its senders.
//!
//! A message to such a process, which has the flag [`CONFINED`](crate::cell::CONFINED), introduces its sender: the receiver may
//! answer. The receiver keeps who it knows under a lock; a scheduler remembers the introductions that its own processes made
//! last, so that a conversation takes the lock once.

use std::cell::Cell as Plain;

use super::Local;
use crate::holdings::Holdings;
use crate::pid::Pid;
use crate::slab::Slot;

/// Introductions that a scheduler remembers.
const REMEMBERED: usize = 64;

/// Pairs of sender and receiver, by the slot of the receiver.
pub(super) struct Introductions([Plain<(Pid, Pid)>; REMEMBERED]);

impl Introductions {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Plain::new((Pid::NONE, Pid::NONE))))
    }

    fn last(&self, to: Pid) -> &Plain<(Pid, Pid)> {
        &self.0[to.slot() as usize % REMEMBERED]
    }
}

impl Local {
    /// Whether the running process was introduced to `to` and this scheduler remembers it.
    #[cold]
    pub(super) fn is_introduced(&self, to: Pid) -> bool {
        self.current.get().map(Slot::pid).is_some_and(|from| self.introduced.last(to).get() == (from, to))
    }

    /// Introduces the running process to `to`, which may send to it from now on.
    #[cold]
    pub(crate) fn introduce(&self, to: Pid) {
        let (Some(from), Some(slot)) = (self.current.get().map(Slot::pid), self.shared.slab.slot(to)) else {
            return;
        };
        if self.introduced.last(to).replace((from, to)) != (from, to) {
            Holdings::introduce(slot, to, from);
        }
    }
}
