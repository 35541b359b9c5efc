//! What a process and the driver share about one ticker: ticks due, and whom to wake.
//!
//! ```text
//!   driver ── fire: due grows, wakes who waits ──▶ Beat ◀── wait: nothing is due, wake me ── process
//!                                                    ◀── end: it has let go, its waker with it
//! ```
//!
//! All of it under one lock, so a process that finds nothing due is woken by the tick that comes. *Never: a waker kept for a
//! process that has let go.*

use std::sync::PoisonError;
use std::task::Waker;

use crate::sync::{Mutex, MutexGuard};

/// What a process and the driver share about one ticker.
pub(crate) struct Pulse(Mutex<Beat>);

/// The same, locked.
#[derive(Default)]
pub(crate) struct Beat {
    /// Ticks that are due.
    pub(crate) due: u64,
    /// Whom to wake at the next tick, and whether.
    waker: Option<Waker>,
    is_waited_for: bool,
    /// By how much slips have moved the grid.
    pub(crate) slipped_ns: u64,
    /// The process has let go of it.
    is_over: bool,
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new(Beat::default()))
    }
}

impl Pulse {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Beat> {
        // No state in between could be seen: nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Beat {
    /// Has the next tick wake this poll.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        self.is_waited_for = true;
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// Tells the process what is due, and wakes it if it waits.
    pub(crate) fn fire(&mut self, due: u64) {
        if due <= self.due {
            return;
        }
        self.due = due;
        if std::mem::take(&mut self.is_waited_for)
            && let Some(waker) = &self.waker
        {
            waker.wake_by_ref();
        }
    }

    /// Lets go of it: the waker would hold the process's memory until a tick that never comes.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        self.waker = None;
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }
}
