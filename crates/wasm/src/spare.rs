//! Reusable memory for instantiation futures, one block per thread.
//!
//! The future of an instantiation is slightly larger than the blocks that glibc caches per thread, so boxing each
//! would be an eighth of the cost of a short guest. Nearly all complete at their first poll, so one spare block is
//! enough.

#![expect(unsafe_code, reason = "a future lives in memory that outlives it")]

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context as TaskContext, Poll};

/// Size of the largest future that fits.
const ROOM_BYTES: usize = 4096;

#[repr(align(16))]
struct Room(#[expect(dead_code, reason = "only its memory is used")] MaybeUninit<[u8; ROOM_BYTES]>);

thread_local! {
    /// `None` while a future uses it.
    static SPARE: Cell<Option<Box<Room>>> = const { Cell::new(None) };
}

/// A future in its thread's spare block, or in a new one.
pub(super) struct Spare<F> {
    room: NonNull<Room>,
    future: PhantomData<Box<F>>,
}

// SAFETY: this owns its block and the future in it; nothing else refers to them.
unsafe impl<F: Send> Send for Spare<F> {}

impl<F: Future> Spare<F> {
    pub(super) fn new(future: F) -> Self {
        const { assert!(size_of::<F>() <= ROOM_BYTES && align_of::<F>() <= align_of::<Room>()) };
        let room = SPARE.take().unwrap_or_else(|| Box::new(Room(MaybeUninit::uninit())));
        let room = NonNull::from(Box::leak(room));
        // SAFETY: the block is large enough and aligned, as asserted above, and holds nothing.
        unsafe { room.cast::<F>().write(future) };
        Self { room, future: PhantomData }
    }
}

impl<F: Future> Future for Spare<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        // SAFETY: the future was written by `new` and is not moved until it is dropped.
        unsafe { Pin::new_unchecked(self.room.cast::<F>().as_mut()) }.poll(cx)
    }
}

impl<F> Drop for Spare<F> {
    fn drop(&mut self) {
        // SAFETY: the future was written by `new` and is dropped once here; the block came from a box and holds
        // nothing afterwards.
        let room = unsafe {
            self.room.cast::<F>().drop_in_place();
            Box::from_raw(self.room.as_ptr())
        };
        // Fails if the thread is ending; the block is then freed.
        SPARE.try_with(|spare| spare.set(Some(room))).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_next_future_is_where_the_one_before_it_was() {
        let dropped = Arc::new(());
        let held = Arc::clone(&dropped);
        let mut first = Spare::new(async move { Arc::strong_count(&held) });
        let room = first.room;
        let beside = Spare::new(std::future::pending::<()>());

        assert_eq!(poll_once(&mut first), Poll::Ready(2));
        drop(first);

        assert_eq!(Arc::strong_count(&dropped), 1);
        assert_ne!(beside.room, room);
        assert_eq!(Spare::new(std::future::ready(())).room, room);
    }

    #[test]
    fn a_future_may_wait_on_one_thread_and_end_on_another() {
        let mut waiting = Spare::new(std::future::pending::<()>());
        assert_eq!(poll_once(&mut waiting), Poll::Pending);

        std::thread::spawn(move || drop(waiting)).join().expect("it ends");
    }

    fn poll_once<F: Future>(future: &mut Spare<F>) -> Poll<F::Output> {
        Pin::new(future).poll(&mut TaskContext::from_waker(std::task::Waker::noop()))
    }
}
