//! Flags shared by a run and its workers: one stops or pauses them, the other starts the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

const STOP: u8 = 1;
const PAUSE: u8 = 2;
const ABORT: u8 = 4;

/// Flag that tells workers to stop or to pause; cheap to check.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicU8>);

impl StopFlag {
    /// Returns true if the run stops.
    #[inline]
    pub fn is_set(&self) -> bool {
        // Relaxed, here and below: no other data is published through the flag.
        self.0.load(Ordering::Relaxed) & STOP != 0
    }

    /// Sets the flag.
    pub fn set(&self) {
        self.0.fetch_or(STOP, Ordering::Relaxed);
    }

    /// Sets the flag before the processes of the run are killed.
    pub(crate) fn abort(&self) {
        self.0.fetch_or(STOP | ABORT, Ordering::Relaxed);
    }

    /// Returns true if the processes of the run are killed.
    pub(crate) fn is_aborted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ABORT != 0
    }

    /// Returns true if the run goes on without a pause: the only check of a hot path.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Returns true if workers must wait before they begin further operations. A run that stops does not wait.
    pub(crate) fn is_paused(&self) -> bool {
        self.0.load(Ordering::Relaxed) == PAUSE
    }

    /// Pauses the workers, or lets them go on.
    pub(crate) fn set_paused(&self, paused: bool) {
        if paused {
            self.0.fetch_or(PAUSE, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!PAUSE, Ordering::Relaxed);
        }
    }
}

/// Flag that is set when a run's clock may start.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartLine(Arc<AtomicBool>);

impl StartLine {
    /// Returns true if everything is prepared.
    pub(crate) fn is_open(&self) -> bool {
        // Acquire: a thread that reads the meter afterwards sees everything counted before the start.
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::Release);
    }
}
