//! Synchronisation primitives for the protocols of the core, built on loom. A model can weaken single orderings or
//! remove locks; a model that still passes then checks nothing.

#![expect(unsafe_code, reason = "a lock that stores its own guard; each block says which thread holds it")]

use std::cell::{Cell, UnsafeCell};

use super::locks::MutexGuard;
pub(crate) use super::locks::{Mutex, RwLock};

/// A fault planted under the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// Sequentially consistent accesses are only acquire and release accesses.
    NoTotalOrder,
    /// The lock of a process does not lock anything.
    NoLock,
    /// An ending process checks whether it has a side-table entry before its generation ends.
    LooksTooEarly,
    /// The generation of a slot stays the same when its process ends.
    NoGenerations,
    /// The process in a slot accepts messages that were meant for another generation.
    StrangersAreLetIn,
    /// A process ignores the flag for exit signals when it takes its messages.
    SignalsAreForgotten,
    /// The gate of a process is opened before the process counters are initialised.
    OpensTooEarly,
}

thread_local! {
    static INJECTED_FAULT: Cell<Option<InjectedFault>> = const { Cell::new(None) };
}

/// Plants a fault for the models of this thread.
pub(crate) fn inject(fault: Option<InjectedFault>) {
    INJECTED_FAULT.set(fault);
}

/// Returns true if this fault is planted.
pub(crate) fn has(fault: InjectedFault) -> bool {
    INJECTED_FAULT.get() == Some(fault)
}

/// A lock that protects data stored elsewhere, like the one of `parking_lot`.
pub(crate) struct RawMutex {
    lock: Mutex<()>,
    guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
}

// SAFETY: only the holder of the lock accesses the guard.
unsafe impl Send for RawMutex {}
// SAFETY: as above.
unsafe impl Sync for RawMutex {}

pub(crate) fn raw_mutex() -> RawMutex {
    RawMutex { lock: Mutex::new(()), guard: UnsafeCell::new(None) }
}

/// Mirrors the interface of `parking_lot::lock_api::RawMutex`.
pub(crate) trait RawLock {
    fn lock(&self);
    unsafe fn unlock(&self);
}

impl RawLock for RawMutex {
    fn lock(&self) {
        if has(InjectedFault::NoLock) {
            return;
        }
        let guard = self.lock.lock();
        // SAFETY: the lock lives until it is unlocked; only its holder accesses the guard.
        unsafe { *self.guard.get() = Some(std::mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard)) };
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        let guard = unsafe { (*self.guard.get()).take() };
        drop(guard);
    }
}

pub(crate) mod atomic {
    use loom::sync::atomic::fence;
    pub(crate) use loom::sync::atomic::{AtomicU8, Ordering};

    use super::{InjectedFault, has};

    /// Loom treats sequentially consistent accesses as acquire and release accesses. Fences, which loom supports,
    /// compensate for this where two such accesses follow each other; the protocols need no more.
    fn total_order(order: Ordering) {
        if order == Ordering::SeqCst && !has(InjectedFault::NoTotalOrder) {
            fence(Ordering::SeqCst);
        }
    }

    macro_rules! totally_ordered {
        ($($name:ident of $of:ty),+) => {$(
            /// A loom atomic that gives its sequentially consistent accesses a total order.
            #[derive(Debug)]
            pub(crate) struct $name(loom::sync::atomic::$name);

            impl $name {
                pub(crate) fn new(value: $of) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                pub(crate) fn load(&self, order: Ordering) -> $of {
                    total_order(order);
                    self.0.load(weak(order, Ordering::Acquire))
                }

                pub(crate) fn store(&self, value: $of, order: Ordering) {
                    // Loom may move a store before an earlier read-modify-write, which no hardware does; a swap
                    // prevents this.
                    self.0.swap(value, weak(order, Ordering::Release));
                    total_order(order);
                }

                pub(crate) fn fetch_or(&self, value: $of, order: Ordering) -> $of {
                    let before = self.0.fetch_or(value, weak(order, Ordering::AcqRel));
                    total_order(order);
                    before
                }

                pub(crate) fn fetch_and(&self, value: $of, order: Ordering) -> $of {
                    self.0.fetch_and(value, weak(order, Ordering::AcqRel))
                }

                pub(crate) fn swap(&self, value: $of, order: Ordering) -> $of {
                    self.0.swap(value, order)
                }

                pub(crate) fn compare_exchange(
                    &self,
                    old: $of,
                    new: $of,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$of, $of> {
                    self.0.compare_exchange(old, new, success, failure)
                }

                pub(crate) fn compare_exchange_weak(
                    &self,
                    old: $of,
                    new: $of,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$of, $of> {
                    self.0.compare_exchange_weak(old, new, success, failure)
                }

                pub(crate) fn fetch_add(&self, value: $of, order: Ordering) -> $of {
                    self.0.fetch_add(value, order)
                }

                pub(crate) fn fetch_sub(&self, value: $of, order: Ordering) -> $of {
                    self.0.fetch_sub(value, order)
                }
            }
        )+};
    }

    fn weak(order: Ordering, weaker: Ordering) -> Ordering {
        if order == Ordering::SeqCst { weaker } else { order }
    }

    totally_ordered!(AtomicU16 of u16, AtomicU32 of u32, AtomicU64 of u64);
}
