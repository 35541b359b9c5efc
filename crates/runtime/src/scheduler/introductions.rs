//! Introductions: how a process that may send only to known processes gets to know its senders.
//!
//! A message to such a process, which has the flag [`CONFINED`](crate::cell::CONFINED), introduces its sender, so the
//! receiver may answer. The receiver stores the known processes under a lock. Each scheduler caches the last
//! introductions made by its own processes, so a conversation takes the lock only once.

use std::cell::Cell as Plain;

use super::Local;
use crate::holdings::Holdings;
use crate::pid::Pid;
use crate::slab::Slot;

/// Number of introductions that a scheduler caches.
const REMEMBERED: usize = 64;

/// Pairs of sender and receiver, indexed by the slot of the receiver.
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
    /// Returns true if this scheduler has cached an introduction of the running process to `to`.
    #[cold]
    pub(super) fn is_introduced(&self, to: Pid) -> bool {
        self.current.get().map(Slot::pid).is_some_and(|from| self.introduced.last(to).get() == (from, to))
    }

    /// Introduces the running process to `to`, which may then send to it.
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
