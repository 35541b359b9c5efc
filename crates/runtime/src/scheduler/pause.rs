//! A pause of all schedulers, in which no process runs.
//!
//! ```text
//!   caller:      requested = true ──▶ wakes all ──▶ waits until all have paused ──▶ code ──▶ requested = false
//!   scheduler:   checks `requested` before each slice ──▶ waits while it is set
//! ```
//!
//! The caller waits up to a deadline for polls that do not return; such a scheduler pauses when its poll returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::shared::SchedulerShared;

/// The requested pause, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    requested: AtomicBool,
    /// Number of schedulers that have paused.
    paused: Mutex<usize>,
    changed: Condvar,
    /// Held during a pause: only one pause at a time.
    exclusive: Mutex<()>,
}

impl Pause {
    /// Returns true if schedulers must pause. Relaxed: a scheduler that sees it late pauses one slice later.
    #[inline]
    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Waits until the pause is over.
    #[cold]
    pub(super) fn wait(&self) {
        let mut paused = self.paused.lock();
        *paused += 1;
        self.changed.notify_all();
        while self.requested.load(Ordering::Relaxed) {
            self.changed.wait(&mut paused);
        }
        *paused -= 1;
    }

    /// Runs code while no process runs, except those that do not return from their poll within `patience`.
    pub(crate) fn during<T>(
        &self,
        schedulers: &[Arc<SchedulerShared>],
        patience: Duration,
        code: impl FnOnce() -> T,
    ) -> T {
        let _exclusive = self.exclusive.lock();
        let _end_guard = EndGuard(self);
        let deadline = Instant::now() + patience;
        let mut paused = self.paused.lock();
        self.requested.store(true, Ordering::Relaxed);
        for scheduler in schedulers {
            scheduler.unpark();
        }
        while *paused < schedulers.len() && !self.changed.wait_until(&mut paused, deadline).timed_out() {}
        drop(paused);
        code()
    }

    fn end(&self) {
        let _paused = self.paused.lock();
        self.requested.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

/// Ends a pause, also if its code panics.
struct EndGuard<'a>(&'a Pause);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
