//! The waker of a process: the address of its header.

#![expect(unsafe_code, reason = "a raw waker; each block says what keeps the header's memory alive")]

use std::mem::ManuallyDrop;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::process::header::ProcessHeader;
use crate::process::table::Slot;
use crate::scheduler;

/// One vtable for both kinds, so that a clone is recognised as the same waker. A waker kept by timers, sockets or other
/// futures keeps the chunk alive. A waker lent to a poll does not, because the running process does; it is never woken
/// by value and never dropped.
static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

/// Returns the waker for a poll of the process in `slot`.
#[inline]
pub(crate) fn lent(slot: Slot) -> ManuallyDrop<Waker> {
    let raw = RawWaker::new(slot.as_ptr() as *const (), &WAKER);
    // SAFETY: the vtable's functions fulfil the contract of `RawWaker`. A lent waker is not dropped and does not
    // outlive the poll, during which the scheduler keeps the chunk alive.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw) })
}

/// Returns the slot of the process that a waker wakes; `None` for the waker of anything else. The slot must not be used
/// longer than the waker lives.
pub(crate) fn process_of(waker: &Waker) -> Option<Slot> {
    // SAFETY: the data of a waker with this vtable is the address of a header, in a chunk that the waker keeps alive.
    ptr::eq(waker.vtable(), &raw const WAKER).then(|| unsafe { slot(waker.data()) })
}

unsafe fn slot(data: *const ()) -> Slot {
    // SAFETY: the data of the vtable is the address of a header in a chunk that is alive.
    unsafe { Slot::from_ptr(data as *mut ProcessHeader) }.expect("a waker points to a slot")
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: as for every function of the vtable.
    unsafe { slot(data) }.hold();
    RawWaker::new(data, &WAKER)
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as for every function of the vtable.
    scheduler::wake(unsafe { slot(data) });
}

unsafe fn wake(data: *const ()) {
    // SAFETY: as for every function of the vtable; the reference ends with the wake-up.
    unsafe {
        wake_by_ref(data);
        release(data);
    }
}

unsafe fn release(data: *const ()) {
    // SAFETY: as for every function of the vtable.
    unsafe { slot(data) }.release();
}
