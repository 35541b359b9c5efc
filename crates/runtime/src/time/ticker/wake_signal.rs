//! State that a process and the driver share about one ticker: due ticks, and the waker.
//!
//! ```text
//!   driver ── fire: due grows, wakes a waiter ───▶ WakeState ◀── wait: nothing is due, wake me ── process
//!                                                    ◀── end: the process has dropped it, and its waker
//! ```
//!
//! All of it is under one lock, so a process that finds nothing due is woken by the next tick. *Never: a waker is kept
//! after its process has dropped the ticker.*

use std::task::Waker;

use crate::sync::{Mutex, MutexGuard};

/// State that a process and the driver share about one ticker.
pub(crate) struct WakeSignal(Mutex<WakeState>);

/// The locked state of a [`WakeSignal`].
#[derive(Default)]
pub(crate) struct WakeState {
    /// Number of due ticks.
    pub(crate) due: u64,
    /// Waker for the next tick, and whether to use it.
    waker: Option<Waker>,
    is_waited_for: bool,
    /// Time by which slips have moved the grid, in nanoseconds.
    pub(crate) slipped_ns: u64,
    /// True after the process has dropped the ticker.
    has_ended: bool,
}

impl Default for WakeSignal {
    fn default() -> Self {
        Self(Mutex::new(WakeState::default()))
    }
}

impl WakeSignal {
    pub(crate) fn lock(&self) -> MutexGuard<'_, WakeState> {
        self.0.lock()
    }
}

impl WakeState {
    /// Makes the next tick wake this poll.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        self.is_waited_for = true;
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// Publishes the due ticks to the process, and wakes it if it waits.
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

    /// Ends the ticker and drops the waker, which would otherwise hold the process's memory until a tick that never
    /// comes.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
        self.waker = None;
    }

    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }
}
