//! The waker of a process: the address of its cell.

#![expect(unsafe_code, reason = "a raw waker; each block says what keeps the cell's memory alive")]

use std::mem::ManuallyDrop;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::cell::Cell;
use crate::scheduler;
use crate::slab::Slot;

/// One for both kinds, so that a clone is known as the same waker: those that timers, sockets and other futures keep hold the
/// chunk; one that is lent to a poll holds nothing, because the running process does, and is never woken by value nor dropped.
static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

/// The waker that a poll of the process in `slot` gets.
#[inline]
pub(crate) fn lent(slot: Slot) -> ManuallyDrop<Waker> {
    let raw = RawWaker::new(slot.as_ptr() as *const (), &WAKER);
    // SAFETY: the vtable's functions keep the contract of `RawWaker`; a lent waker is not dropped and does not outlive
    // the poll, during which the scheduler holds the chunk.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw) })
}

unsafe fn slot(data: *const ()) -> Slot {
    // SAFETY: the data of the vtable is the address of a cell whose chunk is held.
    unsafe { Slot::from_ptr(data as *mut Cell) }.expect("wakers are made from slots")
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
    // SAFETY: as for every function of the vtable; the hold ends with the wake-up.
    unsafe {
        wake_by_ref(data);
        release(data);
    }
}

unsafe fn release(data: *const ()) {
    // SAFETY: as for every function of the vtable.
    unsafe { slot(data) }.release();
}
