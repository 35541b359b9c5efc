//! The next message of a process, already as the type that it expects.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use crate::links::signal::{Down, Exit};
use crate::mailbox::message::Message;
use crate::process::context::Context;
use crate::process::running::Search;

/// Future of the next message, as an `M` or as any other message.
#[must_use = "futures do nothing unless awaited: no message is received"]
pub(crate) struct Next<'a, M> {
    context: &'a Context,
    kind: PhantomData<fn() -> M>,
}

impl<'a, M> Next<'a, M> {
    pub(crate) const fn of(context: &'a Context) -> Self {
        Self { context, kind: PhantomData }
    }
}

impl<M> fmt::Debug for Next<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({})", self.context.pid())
    }
}

impl<M: 'static> Future for Next<'_, M> {
    type Output = Result<M, Message>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let running = self.context.running();
        if running.is_preempted(cx) {
            return Poll::Pending;
        }
        if let Some(message) = running.receive_typed() {
            return Poll::Ready(message);
        }
        running.record_wait_for_message(cx);
        Poll::Pending
    }
}

/// Like [`Next`]; a [`Down`] or an [`Exit`] stays in the mailbox.
#[must_use = "futures do nothing unless awaited: no message is received"]
pub(super) struct NextForInbox<'a, M> {
    context: &'a Context,
    search: Search,
    kind: PhantomData<fn() -> M>,
}

impl<'a, M> NextForInbox<'a, M> {
    pub(super) const fn of(context: &'a Context) -> Self {
        Self { context, search: Search::START, kind: PhantomData }
    }
}

impl<M: 'static> Future for NextForInbox<'_, M> {
    type Output = Result<M, Message>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let running = self.context.running();
        if running.is_preempted(cx) {
            return Poll::Pending;
        }
        if let Some(message) = running.receive_typed_match(&mut self.search, is_for_inbox::<M>) {
            return Poll::Ready(message);
        }
        running.record_wait_for_message(cx);
        Poll::Pending
    }
}

fn is_for_inbox<M: 'static>(message: &Message) -> bool {
    message.is::<M>() || !message.is::<Down>() && !message.is::<Exit>()
}
