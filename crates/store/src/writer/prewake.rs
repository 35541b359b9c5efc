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
pub(crate) struct CommitPrewake {
    /// The runtime of the process that wrote last.
    target: Mutex<Prewake>,
    armed: AtomicBool,
}

impl CommitPrewake {
    /// Records that the process on this thread will wait for a commit.
    pub(crate) fn set_target(&self) {
        self.target.lock().set_to_current();
    }

    /// Sets whether many callers wait for the next sync.
    pub(crate) fn arm(&self, has_many_waiters: bool) {
        self.armed.store(has_many_waiters, Relaxed);
    }

    /// Wakes a scheduler if this sync was armed; called after the disk has synced.
    pub(crate) fn wake_if_armed(&self) {
        if self.armed.load(Relaxed) {
            self.armed.store(false, Relaxed);
            let target = self.target.lock().clone();
            target.wake();
        }
    }
}

impl std::fmt::Debug for CommitPrewake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitPrewake").field("armed", &self.armed).finish_non_exhaustive()
    }
}
