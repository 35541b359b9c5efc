//! Flags shared by a run and its workers: one stops them, the other starts the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flag that tells workers to stop; cheap to check.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Returns true if the run stops.
    #[inline]
    pub fn is_set(&self) -> bool {
        // Relaxed: no other data is published through the flag.
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the flag.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
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
