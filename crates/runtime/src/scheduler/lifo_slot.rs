//! LIFO slot of a scheduler: the process that runs next. Its owner uses plain stores until it is stuck in a poll.
//!
//! ```text
//!      watchdog: share, barrier, check ──▶ shared ──▶ open   (thieves may take)
//!   private ◀── watchdog: close ─────────────┴──────────┘
//! ```
//!
//! A locked instruction per hop would cost a tenth of a message's round trip, so the owner takes without one while the
//! slot is *private*. If the watchdog finds the owner inside one poll for too long, it marks the slot *shared* and
//! issues a barrier on every thread. If the owner is still inside a poll after that, its last private take was before
//! the barrier, and it will do the next take as a thief does. Only then does the watchdog *open* the slot to thieves.
//! It closes the slot under the lock that a thief holds during a take.
//!
//! If this order were broken, the owner and a thief could take the same entry, and two threads would run one process.

use std::ptr;

use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sync::{Mutex, heavy_barrier, light_barrier};

/// The LIFO slot of one scheduler.
pub(crate) struct LifoSlot<T> {
    entry: AtomicPtr<T>,
    /// True if the owner must take as a thief does.
    shared: AtomicBool,
    open: Mutex<bool>,
    /// True if the system has the barrier; without it the slot is always shared.
    barrier: bool,
}

impl<T> LifoSlot<T> {
    pub(crate) fn new(barrier: bool) -> Self {
        Self {
            entry: AtomicPtr::new(ptr::null_mut()),
            shared: AtomicBool::new(!barrier),
            open: Mutex::new(false),
            barrier,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entry.load(Ordering::Relaxed).is_null()
    }

    /// Stores `next`, and returns the previous entry or null. Only the owner may call this.
    #[inline]
    pub(crate) fn put(&self, next: *mut T) -> *mut T {
        if self.put_first(next) { ptr::null_mut() } else { self.entry.swap(next, Ordering::AcqRel) }
    }

    /// Stores `next` if the slot is empty; false if it is not. Only the owner may call this.
    #[inline]
    pub(crate) fn put_first(&self, next: *mut T) -> bool {
        // A thief can only empty the slot, so an empty slot stays empty until the store.
        let is_empty = self.is_empty();
        if is_empty {
            self.entry.store(next, Ordering::Release);
        }
        is_empty
    }

    /// Takes the entry, for the owner between two polls; null if the slot is empty.
    #[inline]
    pub(crate) fn take(&self) -> *mut T {
        if self.is_empty() {
            return ptr::null_mut();
        }
        // The owner has published that it is not inside a poll; see `share`.
        light_barrier();
        if self.shared.load(Ordering::Acquire) {
            return self.entry.swap(ptr::null_mut(), Ordering::AcqRel);
        }
        let next = self.entry.load(Ordering::Relaxed);
        self.entry.store(ptr::null_mut(), Ordering::Relaxed);
        next
    }

    /// Opens the slot to thieves if the owner is inside a poll. `inside_poll` reads what the owner publishes before and
    /// after each poll.
    pub(crate) fn share(&self, inside_poll: impl FnOnce() -> bool) {
        self.shared.store(true, Ordering::Relaxed);
        if (!self.barrier || heavy_barrier()) && inside_poll() {
            self.set_open(true);
        } else {
            self.close();
        }
    }

    /// Closes the slot to thieves and makes it private again, if the system has the barrier.
    pub(crate) fn close(&self) {
        self.set_open(false);
        self.shared.store(!self.barrier, Ordering::Release);
    }

    fn set_open(&self, open: bool) {
        *self.open.lock() = open;
    }

    /// Takes the entry, for another scheduler; null unless the slot is open.
    pub(crate) fn steal(&self) -> *mut T {
        if !self.shared.load(Ordering::Relaxed) {
            return ptr::null_mut();
        }
        match self.open.try_lock() {
            Some(open) if *open => {
                // Never write to an empty slot: only the owner may store after it became empty.
                let taken = self.entry.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |next| {
                    (!next.is_null()).then_some(ptr::null_mut())
                });
                taken.unwrap_or(ptr::null_mut())
            }
            _ => ptr::null_mut(),
        }
    }
}
