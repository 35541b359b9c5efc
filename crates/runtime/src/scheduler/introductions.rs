//! Introductions: how a process that may send only to known processes gets to know its senders.
//!
//! A message to such a process, which has the flag [`CONFINED`](crate::process::header::CONFINED), introduces its sender, so the
//! receiver may answer. The receiver stores the known processes under a lock. Each scheduler caches the last
//! introductions made by its own processes, so a conversation takes the lock only once.

use std::cell::Cell;

use super::Local;
use crate::links::registry::SideTables;
use crate::process::pid::Pid;
use crate::process::table::Slot;

/// Number of introductions that a scheduler caches.
const CACHE_SLOTS: usize = 64;

/// Pairs of sender and receiver, indexed by the slot of the receiver.
pub(super) struct IntroductionCache([Cell<(Pid, Pid)>; CACHE_SLOTS]);

impl IntroductionCache {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Cell::new((Pid::NONE, Pid::NONE))))
    }

    fn last(&self, to: Pid) -> &Cell<(Pid, Pid)> {
        &self.0[to.slot() as usize % CACHE_SLOTS]
    }
}

impl Local {
    /// Returns true if this scheduler has cached an introduction of the running process to `to`.
    #[cold]
    pub(super) fn is_introduced(&self, to: Pid) -> bool {
        self.current.get().map(Slot::pid).is_some_and(|from| self.introduction_cache.last(to).get() == (from, to))
    }

    /// Introduces the running process to `to`, which may then send to it.
    #[cold]
    pub(crate) fn introduce(&self, to: Pid) {
        let (Some(from), Some(slot)) = (self.current.get().map(Slot::pid), self.shared.table.slot(to)) else {
            return;
        };
        if self.introduction_cache.last(to).replace((from, to)) != (from, to) {
            SideTables::introduce(slot, to, from, |pid| self.shared.is_alive(pid));
        }
    }
}
