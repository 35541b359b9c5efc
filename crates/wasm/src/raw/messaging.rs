//! Sending and receiving of core modules: the calls made for each message.
//!
//! A call that may wait is a future that the engine polls. A call that need not wait returns a future that is ready,
//! and a box of a zero-sized future allocates nothing. Only a guest that waits has its future allocated.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use wasmtime::{Caller, Linker};

use super::abi::{MODULE, OK, pid, status, timeout};
use super::memory;
use super::table::{Output, function};
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use crate::host::convert;
use rusm_runtime::embed::guest::ReceiveWait;

type GuestCaller<'a> = Caller<'a, GuestState>;
/// A call with an integer result that may have to wait.
type BoxedStatus<'a> = Box<dyn Future<Output = i32> + Send + 'a>;

/// A ready result, as a zero-sized future.
struct ReadyStatus<const NUMBER: i32>;

impl<const NUMBER: i32> Future for ReadyStatus<NUMBER> {
    type Output = i32;

    fn poll(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<i32> {
        Poll::Ready(NUMBER)
    }
}

/// Kind of an item that is a message of bytes.
const MESSAGE: i32 = 1;

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "send", |caller: GuestCaller<'_>, (to, tag, p, n): (i64, i64, i32, i32)| {
        send(caller, to, tag as u64, (p, n))
    })?;
    linker.func_wrap_async(MODULE, "receive", |caller: GuestCaller<'_>, (ms,): (i64,)| receive(caller, ms))?;
    function!(linker, async "receive_tagged"(tag: number(tag), ms: milliseconds(ms)) => |state| {
        state.record_call(HostCall::ReceiveTagged);
        let received = state.tagged_within(tag, ms).await;
        state.store_received_or_none(received)
    })?;
    Ok(())
}

fn send(mut caller: GuestCaller<'_>, to: i64, tag: u64, range: (i32, i32)) -> BoxedStatus<'_> {
    let Some((state, bytes)) = memory::find(&mut caller, range) else {
        let error = memory::refused(&mut caller, range);
        return Box::new(ready(status(caller.data_mut(), error)));
    };
    state.record_call(HostCall::Send);
    if let Err(error) = state.check_length(bytes) {
        return Box::new(ready(status(state, error)));
    }
    let to = convert::pid_of(pid(to));
    match state.send_bytes(to, tag, &*bytes) {
        Ok(()) => Box::new(ReadyStatus::<{ OK }>),
        Err(unsent) => Box::new(async move {
            let sent = caller.data_mut().send_when_ready(to, tag, unsent).await;
            sent.into_integer(caller.data_mut())
        }),
    }
}

fn receive(mut caller: GuestCaller<'_>, ms: i64) -> BoxedStatus<'_> {
    let state = caller.data_mut();
    state.record_call(HostCall::Receive);
    match state.process().try_receive() {
        Ok(message) => match state.store_message(message) {
            MESSAGE => Box::new(ReadyStatus::<MESSAGE>),
            kind => Box::new(ready(kind)),
        },
        Err(wait) if ms < 0 => Box::new(ReceiveFuture { caller, wait }),
        Err(_) => Box::new(async move {
            let state = caller.data_mut();
            let received = state.message_within(timeout(ms)).await;
            state.store_received_or_none(received)
        }),
    }
}

/// Future of a guest that waits for any message.
struct ReceiveFuture<'a> {
    caller: GuestCaller<'a>,
    wait: ReceiveWait,
}

impl Future for ReceiveFuture<'_> {
    type Output = i32;

    // Not inlined: the polling loop must not cache thread-local state of this function, see the module `fiber`.
    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<i32> {
        if std::mem::replace(&mut self.wait, ReceiveWait::Receive) == ReceiveWait::Recorded {
            return Poll::Pending;
        }
        let state = self.caller.data_mut();
        let message = std::task::ready!(Pin::new(&mut state.ctx.receive()).poll(cx));
        Poll::Ready(state.store_message(message))
    }
}
