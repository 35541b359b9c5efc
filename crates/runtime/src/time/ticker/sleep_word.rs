//! The protocol by which the driver of tickers sleeps, and is woken for a new ticker only if necessary.
//!
//! ```text
//!   driver: load the word ─▶ take in tickers ─▶ publish the wake-up time ─▶ sleep while the word is unchanged
//!   others: add a ticker ─▶ change the word ─▶ load the wake-up time: wake the driver only if it would sleep longer
//! ```
//!
//! The driver loads the word *before* it takes in new tickers, and sleeps only while the word is unchanged. A
//! sequentially consistent fence separates the two steps of each side: at least one side sees the other. *Never: a
//! ticker was added, and the driver sleeps past its first tick.* Modelled in `tests/models_ticker.rs`, which fails
//! without either fence.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{FenceSite, store_load};

/// The word that the driver of tickers sleeps on, and its wake-up time.
pub(crate) struct SleepWord {
    /// Changes when there is something to take in.
    word: AtomicU32,
    /// Instant until which the driver sleeps; 0 while it is awake or does not exist.
    until_ns: AtomicU64,
}

impl Default for SleepWord {
    fn default() -> Self {
        Self { word: AtomicU32::new(0), until_ns: AtomicU64::new(0) }
    }
}

impl SleepWord {
    /// Loads the word. Acquire: tickers that were added before it changed are visible.
    pub(crate) fn load(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Changes the word after a ticker was added; returns true if the driver must be woken for `at_ns`.
    pub(crate) fn change(&self, at_ns: u64) -> bool {
        self.word.fetch_add(1, Ordering::AcqRel);
        store_load(FenceSite::Arm);
        at_ns < self.until_ns.load(Ordering::Relaxed)
    }

    /// Publishes the instant until which `sleep` sleeps; `sleep` must return at once if the word has changed since
    /// [`load`](Self::load).
    pub(crate) fn sleep(&self, until_ns: u64, sleep: impl FnOnce(&AtomicU32)) {
        self.until_ns.store(until_ns, Ordering::Relaxed);
        store_load(FenceSite::Doze);
        sleep(&self.word);
        self.until_ns.store(0, Ordering::Relaxed);
    }

    /// Makes every change wake the driver, as if it slept without a wake-up time.
    #[cfg(feature = "test")]
    pub(crate) fn wake_on_every_change(&self) {
        self.until_ns.store(u64::MAX, Ordering::SeqCst);
    }

    /// Returns the word that the driver sleeps on.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }
}
