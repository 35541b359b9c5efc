//! Sending and receiving of components. The generated bindings allocate a future for these two calls even if there is
//! nothing to wait for, so they are linked by hand.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList};

use super::convert;
use crate::bindings::rusm::runtime::types::{Error, Pid, Received};
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use rusm_runtime::embed::guest::ReceiveWait;

type GuestCaller<'a> = StoreContextMut<'a, GuestState>;
type SendResult = (Result<(), Error>,);
/// A call that may have to wait.
type BoxedCall<'a, T> = Box<dyn Future<Output = wasmtime::Result<T>> + Send + 'a>;

/// A completed send, zero-sized: boxing it allocates nothing.
struct ReadyOk;

impl Future for ReadyOk {
    type Output = wasmtime::Result<SendResult>;

    fn poll(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok((Ok(()),)))
    }
}

/// Replaces the two functions of the generated bindings.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut process = linker.instance("rusm:runtime/process@0.1.0")?;
    process.func_wrap_async("send", |caller: GuestCaller<'_>, (to, tag, body): (Pid, u64, WasmList<u8>)| {
        send(caller, to, tag, &body)
    })?;
    process.func_wrap_async("receive", |caller: GuestCaller<'_>, (timeout_ms,): (Option<u64>,)| {
        receive(caller, timeout_ms)
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

fn send<'a>(mut caller: GuestCaller<'a>, to: Pid, tag: u64, body: &WasmList<u8>) -> BoxedCall<'a, SendResult> {
    let (state, body) = (caller.data(), body.as_le_slice(&caller));
    state.record_call(HostCall::Send);
    if let Err(error) = state.check_length(body) {
        return Box::new(ready(Ok((Err(error),))));
    }
    let to = convert::pid_of(to);
    match state.send_bytes(to, tag, body) {
        Ok(()) => Box::new(ReadyOk),
        Err(unsent) => Box::new(async move { Ok((caller.data_mut().send_when_ready(to, tag, unsent).await,)) }),
    }
}

fn receive(mut caller: GuestCaller<'_>, timeout_ms: Option<u64>) -> BoxedCall<'_, (Option<Received>,)> {
    let state = caller.data_mut();
    state.record_call(HostCall::Receive);
    match state.process().try_receive() {
        Ok(message) => {
            let received = state.received(message);
            Box::new(ready(Ok((Some(received),))))
        }
        Err(wait) if timeout_ms.is_none() => Box::new(ReceiveFuture { caller, wait }),
        Err(_) => Box::new(async move { Ok((caller.data_mut().receive_within(timeout_ms).await,)) }),
    }
}

/// Future of a guest that waits for any message.
struct ReceiveFuture<'a> {
    caller: GuestCaller<'a>,
    wait: ReceiveWait,
}

impl Future for ReceiveFuture<'_> {
    type Output = wasmtime::Result<(Option<Received>,)>;

    // Not inlined: the polling loop must not cache thread-local state of this function, see the module `fiber`.
    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if std::mem::replace(&mut self.wait, ReceiveWait::Receive) == ReceiveWait::Recorded {
            return Poll::Pending;
        }
        let state = self.caller.data_mut();
        let message = std::task::ready!(Pin::new(&mut state.ctx.receive()).poll(cx));
        Poll::Ready(Ok((Some(state.received(message)),)))
    }
}
