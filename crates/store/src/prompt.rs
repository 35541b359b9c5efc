//! Prewake: wakes a scheduler of processes that wait for a commit, shortly before the commit ends.
//!
//! ```text
//!   writer: … sync of the disk ──▶ prewake ──▶ redb cleans up ──▶ all callers are notified
//!                                     └──▶ a scheduler wakes up meanwhile
//! ```
//!
//! Waking a thread takes about as long as redb's work after the sync.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use rusm_runtime::embed::Prewake;

/// The scheduler to wake early, and whether the next sync does so.
#[derive(Default)]
pub(super) struct Prompt {
    /// The runtime of the process that wrote last.
    of: Mutex<Prewake>,
    armed: AtomicBool,
}

impl Prompt {
    /// Records that the process on this thread will wait for a commit.
    pub(super) fn is_waited_for(&self) {
        self.of.lock().set_to_current();
    }

    /// Sets whether many callers wait for the next sync.
    pub(super) fn arm(&self, is_waited_for: bool) {
        self.armed.store(is_waited_for, Relaxed);
    }

    /// Wakes a scheduler if this sync was armed; called after the disk has synced.
    pub(super) fn synced(&self) {
        if self.armed.load(Relaxed) {
            self.armed.store(false, Relaxed);
            let of = self.of.lock().clone();
            of.wake();
        }
    }
}

impl std::fmt::Debug for Prompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prompt").field("armed", &self.armed).finish_non_exhaustive()
    }
}
