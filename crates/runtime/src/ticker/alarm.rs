//! The protocol by which the driver of tickers sleeps, and is woken for a new ticker only if necessary.
//!
//! ```text
//!   driver: load the word ─▶ take in tickers ─▶ set the alarm ─▶ sleep until the alarm, while the word is unchanged
//!   others: add a ticker ─▶ change the word ─▶ load the alarm: wake the driver only if it would sleep longer
//! ```
//!
//! The driver loads the word *before* it takes in new tickers, and sleeps only while the word is unchanged. A
//! sequentially consistent fence separates the two steps of each side: at least one side sees the other. *Never: a
//! ticker was added, and the driver sleeps past its first tick.* Modelled in `tests/models_ticker.rs`, which fails
//! without either fence.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Dekker, store_load};

/// The word that the driver of tickers sleeps on, and its alarm.
pub(crate) struct Alarm {
    /// Changes when there is something to take in.
    word: AtomicU32,
    /// Instant until which the driver sleeps; 0 while it is awake or does not exist.
    until_ns: AtomicU64,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { word: AtomicU32::new(0), until_ns: AtomicU64::new(0) }
    }
}

impl Alarm {
    /// Loads the word. Acquire: tickers that were added before it changed are visible.
    pub(crate) fn look(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Changes the word after a ticker was added; returns true if the driver must be woken for `at_ns`.
    pub(crate) fn change(&self, at_ns: u64) -> bool {
        self.word.fetch_add(1, Ordering::AcqRel);
        store_load(Dekker::Arm);
        at_ns < self.until_ns.load(Ordering::Relaxed)
    }

    /// Publishes the instant until which `sleep` sleeps; `sleep` must return at once if the word has changed since
    /// `look`.
    pub(crate) fn doze(&self, until_ns: u64, sleep: impl FnOnce(&AtomicU32)) {
        self.until_ns.store(until_ns, Ordering::Relaxed);
        store_load(Dekker::Doze);
        sleep(&self.word);
        self.until_ns.store(0, Ordering::Relaxed);
    }

    /// Makes every change wake the driver, which has no alarm of its own.
    #[cfg(feature = "test")]
    pub(crate) fn always(&self) {
        self.until_ns.store(u64::MAX, Ordering::SeqCst);
    }

    /// Returns the word that the driver sleeps on.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }
}
