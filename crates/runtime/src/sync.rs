//! The atomics and locks used by the lock-free protocols of this crate.
//!
//! `tests/models*.rs` compile the same protocol files with loom's atomics instead, so those files import from
//! `crate::sync`.

pub(crate) use std::sync::atomic;

/// A cell that is written once. The models replace it to check its readers.
pub(crate) use std::sync::OnceLock as OnceSlot;

pub(crate) use parking_lot::lock_api::RawMutex as RawLock;
pub(crate) use parking_lot::{Mutex, MutexGuard, RawMutex, RwLock};

/// Creates a one-byte lock that guards data stored elsewhere.
pub(crate) const fn raw_mutex() -> RawMutex {
    RawMutex::INIT
}

/// Position of a [`store_load`] fence in a protocol with two sides that must not miss each other; see
/// `ring/cursors.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceSite {
    /// The writer has published items and looks for sleeping readers.
    Wake,
    /// A reader has announced that it sleeps and looks for items.
    Sleep,
    /// A reader has moved and checks whether the writer waits for it.
    Move,
    /// The writer has announced which reader it waits for and checks that reader's position.
    Park,
    /// A reader has taken a slot and reads the position of the writer.
    Join,
    /// The writer has published items and looks for readers.
    Look,
    /// A thread has added a ticker and checks until when the driver sleeps; see `ticker/sleep_word.rs`.
    Arm,
    /// The driver has announced until when it sleeps and checks for added tickers.
    Doze,
}

/// Full fence: prevents store–load reordering between the two sides.
#[inline]
pub(crate) fn store_load(_side: FenceSite) {
    atomic::fence(atomic::Ordering::SeqCst);
}

/// Stores a value that is larger than every value to which other threads may raise the word meanwhile.
///
/// This is a plain store. Loom may order such a raise from an older value after it, which no processor does. The models
/// therefore use an exchange.
#[inline]
pub(crate) fn overwrite(word: &atomic::AtomicU64, value: u64, order: atomic::Ordering) {
    word.store(value, order);
}

/// Returns true if a thread that has announced its sleep checks again before it sleeps, under the lock of the waking
/// side. Always true. Models set it to false to prove that the second check is required.
#[inline]
pub(crate) const fn rechecks_before_sleep(_side: FenceSite) -> bool {
    true
}

#[cfg(target_os = "linux")]
use rustix::thread::{MembarrierCommand, membarrier};

/// Frequent side of an asymmetric fence: free, because [`heavy_barrier`] pays for both sides.
///
/// Together with [`heavy_barrier`] it has the guarantees of two sequentially consistent fences.
#[inline]
pub(crate) fn light_barrier() {
    atomic::compiler_fence(atomic::Ordering::SeqCst);
}

/// Rare side of the fence: interrupts every running thread of this process. Returns false if the system does not
/// support it.
pub(crate) fn heavy_barrier() -> bool {
    #[cfg(target_os = "linux")]
    return membarrier(MembarrierCommand::PrivateExpedited).is_ok();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Registers this process for [`heavy_barrier`]. Returns false if the system does not support it.
pub(crate) fn prepare_heavy_barrier() -> bool {
    #[cfg(target_os = "linux")]
    return membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
    #[cfg(not(target_os = "linux"))]
    return false;
}
