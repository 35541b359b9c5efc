//! Waiting inside a guest's call into the node.
//!
//! Such a future is polled on the guest's stack, in a loop that may leave one thread and continue on another.
//! Thread-local state must therefore not be cached across two polls, which a compiler may do if it sees the loop and
//! the poll as one function. [`waiting`] prevents that.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll};

/// Keeps each poll of a future in a function of its own.
pub(crate) async fn waiting<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| poll_outlined(future.as_mut(), cx)).await
}

/// Polls once. Never inlined, so that a loop around it cannot see into it.
#[inline(never)]
fn poll_outlined<F: Future>(future: Pin<&mut F>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
    future.poll(cx)
}
