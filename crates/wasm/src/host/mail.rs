//! Sending and receiving of components. The generated bindings allocate a future for these two calls even if there is
//! nothing to wait for, so they are linked by hand.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList};

use super::words;
use crate::bindings::rusm::runtime::types::{Error, Pid, Received};
use crate::state::State;
use crate::vitals::HostCall;
use rusm_runtime::embed::guest::Pause;

type Guest<'a> = StoreContextMut<'a, State>;
type Sent = (Result<(), Error>,);
/// A call that may have to wait.
type Call<'a, T> = Box<dyn Future<Output = wasmtime::Result<T>> + Send + 'a>;

/// A completed send, zero-sized: boxing it allocates nothing.
struct Done;

impl Future for Done {
    type Output = wasmtime::Result<Sent>;

    fn poll(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok((Ok(()),)))
    }
}

/// Replaces the two functions of the generated bindings.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut process = linker.instance("rusm:runtime/process@0.1.0")?;
    process.func_wrap_async("send", |guest: Guest<'_>, (to, tag, body): (Pid, u64, WasmList<u8>)| {
        send(guest, to, tag, &body)
    })?;
    process.func_wrap_async("receive", |guest: Guest<'_>, (timeout_ms,): (Option<u64>,)| receive(guest, timeout_ms))?;
    linker.allow_shadowing(false);
    Ok(())
}

fn send<'a>(mut guest: Guest<'a>, to: Pid, tag: u64, body: &WasmList<u8>) -> Call<'a, Sent> {
    let (state, body) = (guest.data(), body.as_le_slice(&guest));
    state.asks(HostCall::Send);
    if let Err(error) = state.fits(body) {
        return Box::new(ready(Ok((Err(error),))));
    }
    let to = words::pid_of(to);
    match state.post(to, tag, body) {
        Ok(()) => Box::new(Done),
        Err(unsent) => Box::new(async move { Ok((guest.data_mut().post_later(to, tag, unsent).await,)) }),
    }
}

fn receive(mut guest: Guest<'_>, timeout_ms: Option<u64>) -> Call<'_, (Option<Received>,)> {
    let state = guest.data_mut();
    state.asks(HostCall::Receive);
    match state.process().take_now() {
        Ok(message) => {
            let received = state.received(message);
            Box::new(ready(Ok((Some(received),))))
        }
        Err(pause) if timeout_ms.is_none() => Box::new(Receiving { guest, pause }),
        Err(_) => Box::new(async move { Ok((guest.data_mut().receive_within(timeout_ms).await,)) }),
    }
}

/// Future of a guest that waits for any message.
struct Receiving<'a> {
    guest: Guest<'a>,
    pause: Pause,
}

impl Future for Receiving<'_> {
    type Output = wasmtime::Result<(Option<Received>,)>;

    // Not inlined: the polling loop must not cache thread-local state of this function, see the module `fiber`.
    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if std::mem::replace(&mut self.pause, Pause::Ask) == Pause::Noted {
            return Poll::Pending;
        }
        let state = self.guest.data_mut();
        let message = std::task::ready!(Pin::new(&mut state.ctx.receive()).poll(cx));
        Poll::Ready(Ok((Some(state.received(message)),)))
    }
}
