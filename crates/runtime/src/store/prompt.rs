//! Prewake: wakes a scheduler of processes that wait for a commit, shortly before the commit ends.
//!
//! ```text
//!   writer: … sync of the disk ──▶ prewake ──▶ redb cleans up ──▶ all callers are notified
//!                                     └──▶ a scheduler wakes up meanwhile
//! ```
//!
//! Waking a thread takes about as long as redb's work after the sync.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::runtime::Shared;
use crate::scheduler;

/// The scheduler to wake early, and whether the next sync does so.
#[derive(Default)]
pub(super) struct Prompt {
    /// The runtime of the process that wrote last.
    of: Mutex<Weak<Shared>>,
    armed: AtomicBool,
}

impl Prompt {
    /// Records that the process on this thread will wait for a commit.
    pub(super) fn is_waited_for(&self) {
        let Some(local) = scheduler::local() else { return };
        let mut of = self.of.lock();
        if of.as_ptr() != Arc::as_ptr(&local.shared) {
            *of = Arc::downgrade(&local.shared);
        }
    }

    /// Sets whether many callers wait for the next sync.
    pub(super) fn arm(&self, is_waited_for: bool) {
        self.armed.store(is_waited_for, Relaxed);
    }

    /// Wakes a scheduler if this sync was armed; called after the disk has synced.
    pub(super) fn synced(&self) {
        if self.armed.load(Relaxed) {
            self.armed.store(false, Relaxed);
            let of = self.of.lock().upgrade();
            of.inspect(|shared| shared.promise_work());
        }
    }
}

impl std::fmt::Debug for Prompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prompt").field("armed", &self.armed).finish_non_exhaustive()
    }
}
