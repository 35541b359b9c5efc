//! How the driver of tickers sleeps, and how whoever adds one knows whether to wake it.
//!
//! ```text
//!   driver: look at the word ─▶ take in what was added ─▶ set the alarm ─▶ asleep while the word is unchanged, until the alarm
//!   others: add ─▶ change the word ─▶ look at the alarm: only a driver that would sleep longer is woken
//! ```
//!
//! The driver looks at the word *before* it takes in, and sleeps only while the word is what it was. Between the two steps
//! of each side stands a sequentially consistent fence: one of them sees the other. *Never: a ticker that was added, and a
//! driver asleep past its first tick.* Modelled in `tests/models_ticker.rs`, which fails without either fence.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Dekker, store_load};

/// See the module.
pub(crate) struct Alarm {
    /// Changes when there is something to look at.
    word: AtomicU32,
    /// Until when the driver sleeps; 0 while it is awake or there is none.
    until_ns: AtomicU64,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { word: AtomicU32::new(0), until_ns: AtomicU64::new(0) }
    }
}

impl Alarm {
    /// What the word is; acquired, so that what was added before it changed is seen.
    pub(crate) fn look(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Changes the word, after something was added; true if the driver must be woken for `at_ns`.
    pub(crate) fn change(&self, at_ns: u64) -> bool {
        self.word.fetch_add(1, Ordering::AcqRel);
        store_load(Dekker::Arm);
        at_ns < self.until_ns.load(Ordering::Relaxed)
    }

    /// Has others know until when `sleep` sleeps, which returns at once when the word is no longer what was looked at.
    pub(crate) fn doze(&self, until_ns: u64, sleep: impl FnOnce(&AtomicU32)) {
        self.until_ns.store(until_ns, Ordering::Relaxed);
        store_load(Dekker::Doze);
        sleep(&self.word);
        self.until_ns.store(0, Ordering::Relaxed);
    }

    /// Has everybody wake the driver, which has no alarm of its own.
    #[cfg(feature = "test")]
    pub(crate) fn always(&self) {
        self.until_ns.store(u64::MAX, Ordering::SeqCst);
    }

    /// What the driver sleeps on.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }
}
