//! The atomics that the protocols of this crate stand on.
//!
//! `tests/models*.rs` compile the same protocol files over loom's atomics instead; that is why they say `crate::sync`.

pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, atomic};

/// A place that is written once; the models watch who reads it when.
pub(crate) use std::sync::OnceLock as Place;

/// A lock that knows nothing of panics.
pub(crate) use parking_lot::{Mutex as Lock, MutexGuard as LockGuard};

pub(crate) use parking_lot::RawMutex;
pub(crate) use parking_lot::lock_api::RawMutex as RawLock;

/// A lock of one byte that guards what lies elsewhere.
pub(crate) const fn raw_mutex() -> RawMutex {
    RawMutex::INIT
}

/// Which of two that must not miss each other stands before a [`store_load`] barrier; see `ring/cursors.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dekker {
    /// A writer has published and looks for sleepers.
    Wake,
    /// A reader has said that it sleeps and looks for items.
    Sleep,
    /// A reader has moved and looks whether the writer waits for it.
    Move,
    /// A writer has said whom it waits for and looks where that one is.
    Park,
    /// A reader has taken a seat and looks where the writer is.
    Join,
    /// A writer has published and looks who reads.
    Look,
    /// Somebody has added a ticker and looks until when its driver sleeps; see `ticker/alarm.rs`.
    Arm,
    /// The driver has said until when it sleeps and looks whether something was added.
    Doze,
}

/// Neither of a pair does its look before what it did last is seen by the other's look.
#[inline]
pub(crate) fn store_load(_side: Dekker) {
    atomic::fence(atomic::Ordering::SeqCst);
}

/// Stores what is above anything that others raise the word to meanwhile.
///
/// A plain store. Loom may let such a raise of an older value come after it, which no processor does; the models exchange.
#[inline]
pub(crate) fn overwrite(word: &atomic::AtomicU64, value: u64, order: atomic::Ordering) {
    word.store(value, order);
}

/// Whether who has said that it sleeps looks once more before it does, under the lock of whoever would wake it. Always; the
/// models take it out to see what becomes of it.
#[inline]
pub(crate) const fn looks_again(_side: Dekker) -> bool {
    true
}

#[cfg(target_os = "linux")]
use rustix::thread::{MembarrierCommand, membarrier};

/// The frequent half of a pair of barriers: free, because the other half pays for both.
///
/// Between this and [`heavy_barrier`] holds what holds between two sequentially consistent fences.
#[inline]
pub(crate) fn light_barrier() {
    atomic::compiler_fence(atomic::Ordering::SeqCst);
}

/// The rare half: interrupts every running thread of this process; false where the system cannot.
pub(crate) fn heavy_barrier() -> bool {
    #[cfg(target_os = "linux")]
    return membarrier(MembarrierCommand::PrivateExpedited).is_ok();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Announces that this process will use [`heavy_barrier`]; false where the system cannot.
pub(crate) fn prepare_heavy_barrier() -> bool {
    #[cfg(target_os = "linux")]
    return membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
    #[cfg(not(target_os = "linux"))]
    return false;
}
