//! The place of the process that runs next on a scheduler: plain stores for its owner, until the owner is stuck.
//!
//! ```text
//!          watch: share, barrier, look ──▶ shared ──▶ open   (thieves may take)
//!   private ◀── watch: close ────────────────┴──────────┘
//! ```
//!
//! A locked instruction per hop would be a tenth of a message's round trip. So the owner takes without one while the place
//! is *private*. The watch, which has found the owner inside one poll for long, makes it *shared* and issues a barrier on
//! every thread; if the owner is inside a poll still, it took its last private turn before that and will take the next one
//! as a thief does. Only then is the place *open* to others. It is closed under the lock that a thief holds while it takes.

use std::ptr;

use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sync::{Mutex, heavy_barrier, light_barrier};

/// See the module's picture.
pub(crate) struct NextPlace<T> {
    place: AtomicPtr<T>,
    /// The owner must take as a thief does.
    shared: AtomicBool,
    open: Mutex<bool>,
    /// The system has the barrier; without it the place is always shared.
    barrier: bool,
}

impl<T> NextPlace<T> {
    pub(crate) fn new(barrier: bool) -> Self {
        Self {
            place: AtomicPtr::new(ptr::null_mut()),
            shared: AtomicBool::new(!barrier),
            open: Mutex::new(false),
            barrier,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.place.load(Ordering::Relaxed).is_null()
    }

    /// Puts `next`, and returns what was there or null. The owner alone may put.
    #[inline]
    pub(crate) fn put(&self, next: *mut T) -> *mut T {
        if self.put_first(next) { ptr::null_mut() } else { self.place.swap(next, Ordering::AcqRel) }
    }

    /// Puts `next` into an empty place; false if it is not empty. The owner alone may put.
    #[inline]
    pub(crate) fn put_first(&self, next: *mut T) -> bool {
        // A thief can only turn the place empty, so an empty one stays so until the store.
        let is_empty = self.is_empty();
        if is_empty {
            self.place.store(next, Ordering::Release);
        }
        is_empty
    }

    /// The owner's way to take, between two polls; null if there is nothing.
    #[inline]
    pub(crate) fn take(&self) -> *mut T {
        if self.is_empty() {
            return ptr::null_mut();
        }
        // The owner has published that it is inside no poll; see `share`.
        light_barrier();
        if self.shared.load(Ordering::Acquire) {
            return self.place.swap(ptr::null_mut(), Ordering::AcqRel);
        }
        let next = self.place.load(Ordering::Relaxed);
        self.place.store(ptr::null_mut(), Ordering::Relaxed);
        next
    }

    /// Opens the place to thieves if the owner is inside a poll, as `inside_poll` reads it from what the owner publishes
    /// before and after each.
    pub(crate) fn share(&self, inside_poll: impl FnOnce() -> bool) {
        self.shared.store(true, Ordering::Relaxed);
        if (!self.barrier || heavy_barrier()) && inside_poll() {
            self.set_open(true);
        } else {
            self.close();
        }
    }

    /// Makes the place the owner's alone again.
    pub(crate) fn close(&self) {
        self.set_open(false);
        self.shared.store(!self.barrier, Ordering::Release);
    }

    fn set_open(&self, open: bool) {
        *self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = open;
    }

    /// Another scheduler's way to take: null unless the place is open.
    pub(crate) fn steal(&self) -> *mut T {
        if !self.shared.load(Ordering::Relaxed) {
            return ptr::null_mut();
        }
        match self.open.try_lock() {
            Ok(open) if *open => {
                // Never writes over an empty place, so that only the owner's stores follow one.
                let taken = self.place.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |next| {
                    (!next.is_null()).then_some(ptr::null_mut())
                });
                taken.unwrap_or(ptr::null_mut())
            }
            _ => ptr::null_mut(),
        }
    }
}
