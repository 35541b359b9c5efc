//! What the protocols of the core stand on, made of loom's parts, with single orderings or locks taken out when a model asks
//! for it: a model that still passes then would be looking at nothing.

#![expect(unsafe_code, reason = "a lock whose guard lies beside it; each block says who has it")]

use std::cell::{Cell, UnsafeCell};

use loom::sync::MutexGuard;
pub(crate) use loom::sync::{Mutex, RwLock};

/// A fault planted under the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// Sequentially consistent accesses are no more than acquiring and releasing ones.
    NoTotalOrder,
    /// The lock of a process locks nothing.
    NoLock,
    /// A process that ends looks whether it holds something before its generation is over.
    LooksTooEarly,
    /// The generation of a slot stays the same when its tenant ends.
    NoGenerations,
    /// The tenant of a slot takes what was meant for another generation for its own.
    StrangersAreLetIn,
    /// Who parks looks no more at whether a signal came.
    SignalsAreForgotten,
    /// The gate of a process is opened before what its cell says is written.
    OpensTooEarly,
}

thread_local! {
    static PLANT: Cell<Option<Plant>> = const { Cell::new(None) };
}

/// Plants a fault for the models of this thread.
pub(crate) fn plant(fault: Option<Plant>) {
    PLANT.set(fault);
}

/// Whether a fault is planted.
pub(crate) fn has(fault: Plant) -> bool {
    PLANT.get() == Some(fault)
}

/// A lock that somebody else's data lies behind, as `parking_lot` has it.
pub(crate) struct RawMutex {
    lock: Mutex<()>,
    guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
}

// SAFETY: the guard is touched by whoever has the lock.
unsafe impl Send for RawMutex {}
// SAFETY: as above.
unsafe impl Sync for RawMutex {}

pub(crate) fn raw_mutex() -> RawMutex {
    RawMutex { lock: Mutex::new(()), guard: UnsafeCell::new(None) }
}

/// As `parking_lot::lock_api::RawMutex` has it.
pub(crate) trait RawLock {
    fn lock(&self);
    unsafe fn unlock(&self);
}

impl RawLock for RawMutex {
    fn lock(&self) {
        if has(Plant::NoLock) {
            return;
        }
        let guard = self.lock.lock().unwrap();
        // SAFETY: the lock lives until it is unlocked; its own guard is touched by whoever has the lock.
        unsafe { *self.guard.get() = Some(std::mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard)) };
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller has the lock.
        let guard = unsafe { (*self.guard.get()).take() };
        drop(guard);
    }
}

pub(crate) mod atomic {
    use loom::sync::atomic::fence;
    pub(crate) use loom::sync::atomic::{AtomicU8, Ordering};

    use super::{Plant, has};

    /// Loom takes sequentially consistent accesses for acquiring and releasing ones; the fences that it knows make up for
    /// that where two such accesses follow each other, which is all that the protocols ask for.
    fn total_order(order: Ordering) {
        if order == Ordering::SeqCst && !has(Plant::NoTotalOrder) {
            fence(Ordering::SeqCst);
        }
    }

    macro_rules! totally_ordered {
        ($($name:ident of $of:ty),+) => {$(
            /// An atomic of loom's with a total order.
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
                    // Loom may put a store before a read-modify-write of what came before it, which no machine does.
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
