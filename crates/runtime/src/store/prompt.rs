//! Wakes a scheduler of those who wait for a commit a moment before it ends.
//!
//! ```text
//!   writer: … sync of the disk ──▶ prompt ──▶ redb tidies up ──▶ everybody is told
//!                                     └──▶ a scheduler wakes up meanwhile
//! ```
//!
//! To wake a thread takes about as long as what redb does after the sync.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::runtime::Shared;
use crate::scheduler;

/// See the module.
#[derive(Default)]
pub(super) struct Prompt {
    /// The runtime of the process that wrote last.
    of: Mutex<Weak<Shared>>,
    armed: AtomicBool,
}

impl Prompt {
    /// Notes that whoever runs on this thread will wait for a commit.
    pub(super) fn is_waited_for(&self) {
        let Some(local) = scheduler::local() else { return };
        let mut of = self.of.lock();
        if of.as_ptr() != Arc::as_ptr(&local.shared) {
            *of = Arc::downgrade(&local.shared);
        }
    }

    /// The next sync is the one that many wait for, or is not.
    pub(super) fn arm(&self, is_waited_for: bool) {
        self.armed.store(is_waited_for, Relaxed);
    }

    /// The disk has synced.
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
