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
const BLOCK_BYTES: usize = 4096;

#[repr(align(16))]
struct Block(#[expect(dead_code, reason = "only its memory is used")] MaybeUninit<[u8; BLOCK_BYTES]>);

thread_local! {
    /// `None` while a future uses it.
    static BLOCK_POOL: Cell<Option<Box<Block>>> = const { Cell::new(None) };
}

/// A future in its thread's spare block, or in a new one.
pub(crate) struct PooledFuture<F> {
    block: NonNull<Block>,
    future: PhantomData<Box<F>>,
}

// SAFETY: this owns its block and the future in it; nothing else refers to them.
unsafe impl<F: Send> Send for PooledFuture<F> {}

impl<F: Future> PooledFuture<F> {
    pub(crate) fn new(future: F) -> Self {
        const { assert!(size_of::<F>() <= BLOCK_BYTES && align_of::<F>() <= align_of::<Block>()) };
        let block = BLOCK_POOL.take().unwrap_or_else(|| Box::new(Block(MaybeUninit::uninit())));
        let block = NonNull::from(Box::leak(block));
        // SAFETY: the block is large enough and aligned, as asserted above, and holds nothing.
        unsafe { block.cast::<F>().write(future) };
        Self { block, future: PhantomData }
    }
}

impl<F: Future> Future for PooledFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        // SAFETY: the future was written by `new` and is not moved until it is dropped.
        unsafe { Pin::new_unchecked(self.block.cast::<F>().as_mut()) }.poll(cx)
    }
}

impl<F> Drop for PooledFuture<F> {
    fn drop(&mut self) {
        // SAFETY: the future was written by `new` and is dropped once here; the block came from a box and holds
        // nothing afterwards.
        let block = unsafe {
            self.block.cast::<F>().drop_in_place();
            Box::from_raw(self.block.as_ptr())
        };
        // Fails if the thread is ending; the block is then freed.
        BLOCK_POOL.try_with(|spare| spare.set(Some(block))).ok();
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
        let mut first = PooledFuture::new(async move { Arc::strong_count(&held) });
        let block = first.block;
        let beside = PooledFuture::new(std::future::pending::<()>());

        assert_eq!(poll_once(&mut first), Poll::Ready(2));
        drop(first);

        assert_eq!(Arc::strong_count(&dropped), 1);
        assert_ne!(beside.block, block);
        assert_eq!(PooledFuture::new(std::future::ready(())).block, block);
    }

    #[test]
    fn a_future_may_wait_on_one_thread_and_end_on_another() {
        let mut waiting = PooledFuture::new(std::future::pending::<()>());
        assert_eq!(poll_once(&mut waiting), Poll::Pending);

        std::thread::spawn(move || drop(waiting)).join().expect("it ends");
    }

    fn poll_once<F: Future>(future: &mut PooledFuture<F>) -> Poll<F::Output> {
        Pin::new(future).poll(&mut TaskContext::from_waker(std::task::Waker::noop()))
    }
}
