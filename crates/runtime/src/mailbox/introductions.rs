//! Introductions: how a process that may send only to known processes gets to know its senders.
//!
//! A message to such a process, which has the flag [`CONFINED`](crate::process::header::CONFINED), introduces its
//! sender, so the receiver may answer. The receiver stores the known processes under a lock. Each scheduler caches the
//! last introductions made by its own processes, so a conversation takes the lock only once.

use std::cell::Cell;

use crate::process::pid::Pid;

/// Number of introductions that a scheduler caches.
const CACHE_SLOTS: usize = 64;

/// Pairs of sender and receiver, indexed by the slot of the receiver.
pub(crate) struct IntroductionCache([Cell<(Pid, Pid)>; CACHE_SLOTS]);

impl IntroductionCache {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Cell::new((Pid::NONE, Pid::NONE))))
    }

    fn last(&self, to: Pid) -> &Cell<(Pid, Pid)> {
        &self.0[to.slot() as usize % CACHE_SLOTS]
    }

    /// Returns true if an introduction of `from` to `to` is cached.
    pub(crate) fn contains(&self, from: Pid, to: Pid) -> bool {
        self.last(to).get() == (from, to)
    }

    /// Caches an introduction. Returns true if it was not cached.
    pub(crate) fn insert(&self, from: Pid, to: Pid) -> bool {
        self.last(to).replace((from, to)) != (from, to)
    }
}
