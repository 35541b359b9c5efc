//! Sending and receiving of core modules: the calls made for each message.
//!
//! A call that may wait is a future that the engine polls. A call that need not wait returns a future that is ready,
//! and a box of a zero-sized future allocates nothing. Only a guest that waits has its future allocated.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use wasmtime::{Caller, Linker};

use super::calls::timeout;
use super::{MODULE, memory, pid, status};
use crate::bindings::rusm::runtime::process::Host as Process;
use crate::bindings::rusm::runtime::types::Received;
use crate::host::words;
use crate::state::State;
use crate::vitals::HostCall;
use rusm_runtime::embed::guest::Pause;

type Guest<'a> = Caller<'a, State>;
/// A call with an integer result that may have to wait.
type Number<'a> = Box<dyn Future<Output = i32> + Send + 'a>;

/// A ready result, as a zero-sized future.
struct Now<const NUMBER: i32>;

impl<const NUMBER: i32> Future for Now<NUMBER> {
    type Output = i32;

    fn poll(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<i32> {
        Poll::Ready(NUMBER)
    }
}

/// Kind of an item that is a message of bytes.
const MESSAGE: i32 = 1;

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "send", |guest: Guest<'_>, (to, tag, p, n): (i64, i64, i32, i32)| {
        send(guest, to, tag as u64, (p, n))
    })?;
    linker.func_wrap_async(MODULE, "receive", |guest: Guest<'_>, (ms,): (i64,)| receive(guest, ms))?;
    linker.func_wrap_async(MODULE, "receive_tagged", |mut guest: Guest<'_>, (tag, ms): (i64, i64)| {
        Box::new(async move {
            let received = Process::receive_tagged(guest.data_mut(), tag as u64, timeout(ms)).await;
            guest.data_mut().item.take(received.map(Received::Message))
        })
    })?;
    Ok(())
}

fn send(mut guest: Guest<'_>, to: i64, tag: u64, place: (i32, i32)) -> Number<'_> {
    let Some((state, bytes)) = memory::find(&mut guest, place) else {
        let error = memory::refused(&mut guest, place);
        return Box::new(ready(status(guest.data_mut(), error)));
    };
    state.asks(HostCall::Send);
    if let Err(error) = state.fits(bytes) {
        return Box::new(ready(status(state, error)));
    }
    let to = words::pid_of(pid(to));
    match state.post(to, tag, &*bytes) {
        Ok(()) => Box::new(Now::<{ super::OK }>),
        Err(unsent) => Box::new(async move {
            let sent = guest.data_mut().post_later(to, tag, unsent).await;
            super::done(guest.data_mut(), sent)
        }),
    }
}

fn receive(mut guest: Guest<'_>, ms: i64) -> Number<'_> {
    let state = guest.data_mut();
    state.asks(HostCall::Receive);
    match state.process().take_now() {
        Ok(message) => match state.item_of(message) {
            MESSAGE => Box::new(Now::<MESSAGE>),
            kind => Box::new(ready(kind)),
        },
        Err(pause) if ms < 0 => Box::new(Receiving { guest, pause }),
        Err(_) => Box::new(async move {
            let state = guest.data_mut();
            let received = state.receive_within(timeout(ms)).await;
            state.item.take(received)
        }),
    }
}

/// Future of a guest that waits for any message.
struct Receiving<'a> {
    guest: Guest<'a>,
    pause: Pause,
}

impl Future for Receiving<'_> {
    type Output = i32;

    // Not inlined: the polling loop must not cache thread-local state of this function, see the module `fiber`.
    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<i32> {
        if std::mem::replace(&mut self.pause, Pause::Ask) == Pause::Noted {
            return Poll::Pending;
        }
        let state = self.guest.data_mut();
        let message = std::task::ready!(Pin::new(&mut state.ctx.receive()).poll(cx));
        Poll::Ready(state.item_of(message))
    }
}
