//! Waiting inside a guest's call into the node.
//!
//! Such a future is polled on the stack of the guest, in a loop that may be left on one thread and entered again on another.
//! What it reads of its thread must therefore never be kept across two polls, as a compiler may do that sees the loop and
//! the poll as one function. [`waiting`] builds a wall between them.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll};

/// Makes each poll of a future a call.
pub(crate) async fn waiting<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| apart(future.as_mut(), cx)).await
}

/// One poll, which no loop around it sees into.
#[inline(never)]
fn apart<F: Future>(future: Pin<&mut F>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
    future.poll(cx)
}
