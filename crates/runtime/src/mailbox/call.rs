//! Calls: a request that carries the destination of its reply, and the wait for that reply.
//!
//! ```text
//!   caller: monitor ─▶ Request { reply: ReplyTo, .. } ──▶ callee
//!                Reply ◀── only if the monitor exists ──── ReplyTo::send
//!                Down  ◀── only if the monitor exists ──── the callee's end
//! ```
//!
//! A call is identified by the reference of a monitor on the callee. A reply removes the monitor under the caller's
//! lock, and so does the callee's end: exactly one of the two reaches the caller. A timeout removes the monitor as
//! well, so neither arrives after it. The wait checks only messages that arrived after the call began, so its cost
//! does not depend on the length of the mailbox.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::links::signal::{Down, MonitorRef};
use crate::mailbox::message::{INLINE_MESSAGE_BYTES, Message};
use crate::mailbox::request::{ReplyTarget, ReplyTo, Request};
use crate::process::context::Context;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::running::Search;
use crate::runtime::handle::{Handle, Watch};
use crate::runtime::shared::RuntimeShared;

/// Error returned by a call that received no reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// A process called itself; it would wait forever.
    #[error("process {pid} called itself")]
    CallingSelf {
        /// Pid of the caller.
        pid: Pid,
    },
    /// The callee does not exist or has ended.
    #[error("no process {to}")]
    NoProcess {
        /// Pid of the callee.
        to: Pid,
    },
    /// No reply arrived in time. The callee may have received the request; a later reply is discarded.
    #[error("no reply from {to} within {timeout:?}")]
    Timeout {
        /// Pid of the callee.
        to: Pid,
        /// Time that the caller waited.
        timeout: Duration,
    },
    /// The callee ended before it replied.
    #[error("{to} ended before it replied: {reason}")]
    Ended {
        /// Pid of the callee.
        to: Pid,
        /// Exit reason of the callee.
        reason: ExitReason,
    },
}

impl CallError {
    pub(crate) fn ended(to: Pid, reason: ExitReason) -> Self {
        if reason == ExitReason::NoProcess { Self::NoProcess { to } } else { Self::Ended { to, reason } }
    }
}

// A request of two words is sent without an allocation.
const _: () = assert!(size_of::<Request<[u64; 2], ()>>() <= INLINE_MESSAGE_BYTES);

/// A reply in the mailbox of the caller.
struct Reply<R> {
    reference: MonitorRef,
    value: R,
}

impl<R: Send + 'static> ReplyTo<R> {
    /// Sends the reply. Returns the value if the caller no longer waits for it.
    pub fn send(self, by: &impl Caller, value: R) -> Option<R> {
        match self.0 {
            ReplyTarget::Process(caller, reference) => by.with_shared(|shared| reply(shared, caller, reference, value)),
            ReplyTarget::Outside(caller) => caller.send(value).err(),
        }
    }
}

fn reply<R: Send + 'static>(shared: &RuntimeShared, caller: Pid, reference: MonitorRef, value: R) -> Option<R> {
    shared.deliver_reply(caller, reference, value, |value| Reply { reference, value })
}

/// A party that can call and reply: a process through its [`Context`], or a thread outside through a [`Handle`].
pub trait Caller: Sealed {
    /// Sends a request and waits for its reply, without a timeout.
    fn request<Q: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        request: Q,
    ) -> impl Future<Output = Result<R, CallError>> + Send;
}

#[doc(hidden)]
#[expect(unnameable_types, reason = "seals `Caller`: only the types listed in its summary implement it")]
pub trait Sealed: Sync {
    #[expect(private_bounds, reason = "not callable from outside the crate")]
    fn with_shared<T>(&self, act: impl FnOnce(&RuntimeShared) -> T) -> T;
}

impl Sealed for Context {
    #[expect(private_bounds, reason = "not callable from outside the crate")]
    fn with_shared<T>(&self, act: impl FnOnce(&RuntimeShared) -> T) -> T {
        act(&self.running().local.shared)
    }
}

impl Sealed for Handle {
    #[expect(private_bounds, reason = "not callable from outside the crate")]
    fn with_shared<T>(&self, act: impl FnOnce(&RuntimeShared) -> T) -> T {
        act(&self.shared)
    }
}

impl Caller for Context {
    async fn request<Q: Send + 'static, R: Send + 'static>(&self, to: Pid, request: Q) -> Result<R, CallError> {
        if to == self.pid() {
            return Err(CallError::CallingSelf { pid: to });
        }
        let answer = PendingReply::<R>::of(self, to);
        self.send(to, Request { request, reply: answer.reply_to() }).await;
        answer.await.map_err(|reason| CallError::ended(to, reason))
    }
}

impl Caller for Handle {
    async fn request<Q: Send + 'static, R: Send + 'static>(&self, to: Pid, request: Q) -> Result<R, CallError> {
        let (reply, replied) = ReplyTo::outside();
        let end = self.watch(to);
        self.send(to, Request { request, reply }).await;
        reply_or_end(replied, end).await.map_err(|reason| CallError::ended(to, reason))
    }
}

/// Waits, outside of processes, for a reply or for the end of the process that should reply.
pub(crate) async fn reply_or_end<R>(replied: oneshot::Receiver<R>, end: Watch) -> Result<R, ExitReason> {
    let (mut replied, mut end) = (Some(pin!(replied)), pin!(end));
    poll_fn(|cx| {
        match replied.as_mut().map(|reply| reply.as_mut().poll(cx)) {
            Some(Poll::Ready(Ok(value))) => return Poll::Ready(Ok(value)),
            // The `ReplyTo` was dropped, so no reply can come. The callee may be ending, or it only dropped the
            // request: keep waiting for its end.
            Some(Poll::Ready(Err(_))) => replied = None,
            Some(Poll::Pending) | None => {}
        }
        end.as_mut().poll(cx).map(Err)
    })
    .await
}

impl Context {
    /// Sends a request and waits at most `timeout` for its reply.
    ///
    /// The callee receives a [`Request<Q, R>`](Request). A `timeout` of zero sends the request and does not wait;
    /// [`Duration::MAX`] waits forever.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rusm_runtime::{Config, Request, Runtime};
    /// # let runtime = Runtime::start(Config::default())?;
    /// let doubler = runtime.spawn(|ctx| async move {
    ///     loop {
    ///         let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
    ///         reply.send(&ctx, request * 2);
    ///     }
    /// })?;
    /// let (give, take) = std::sync::mpsc::channel();
    /// runtime.spawn(move |ctx| async move {
    ///     let doubled: Result<u64, _> = ctx.call(doubler, 21_u64, Duration::from_secs(5)).await;
    ///     give.send(doubled)
    /// })?;
    /// assert_eq!(take.recv()?, Ok(42));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CallError`] if the callee has ended or ends before it replies, if a process calls itself, or after `timeout`.
    pub async fn call<Q, R>(&self, to: Pid, request: Q, timeout: Duration) -> Result<R, CallError>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        if timeout == Duration::MAX {
            return self.request(to, request).await;
        }
        self.within(timeout, self.request(to, request)).await.unwrap_or(Err(CallError::Timeout { to, timeout }))
    }
}

/// Future of an answer, or of the end of the monitored process. Dropping it ends the monitor and removes its messages.
#[must_use = "futures do nothing unless awaited"]
pub(crate) struct PendingReply<'a, R: 'static> {
    context: &'a Context,
    target: Pid,
    reference: MonitorRef,
    search: Search,
    is_done: bool,
    kind: PhantomData<fn() -> R>,
}

impl<'a, R: Send + 'static> PendingReply<'a, R> {
    /// Monitors `target` and returns the future of its answer.
    pub(crate) fn of(context: &'a Context, target: Pid) -> Self {
        let running = context.running();
        let search = running.search_from_end();
        let reference = running.local.shared.monitor_for_call(running.slot, context.pid(), target);
        Self::by(context, target, reference, search)
    }

    /// Returns the future for the existing monitor `reference` on `target`; `search` looks for its message.
    pub(crate) fn by(context: &'a Context, target: Pid, reference: MonitorRef, search: Search) -> Self {
        Self { context, target, reference, search, is_done: false, kind: PhantomData }
    }

    fn reply_to(&self) -> ReplyTo<R> {
        ReplyTo::process(self.context.pid(), self.reference)
    }
}

fn is_reply_to<R: 'static>(message: &Message, reference: MonitorRef) -> bool {
    match message.downcast_ref::<Reply<R>>() {
        Some(reply) => reply.reference == reference,
        None => message.downcast_ref::<Down>().is_some_and(|down| down.reference == reference),
    }
}

impl<R: Send + 'static> Future for PendingReply<'_, R> {
    type Output = Result<R, ExitReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (running, reference) = (this.context.running(), this.reference);
        let Some(message) =
            running.receive_deterministic(&mut this.search, |message| is_reply_to::<R>(message, reference))
        else {
            running.record_wait_for_reply(cx);
            return Poll::Pending;
        };
        this.is_done = true;
        Poll::Ready(match message.downcast::<Reply<R>>() {
            Ok(reply) => {
                running.local.shared.remove_monitored_by(this.target, reference);
                Ok(reply.value)
            }
            Err(message) => Err(message.downcast::<Down>().map_or(ExitReason::NoProcess, |down| down.reason)),
        })
    }
}

impl<R> Drop for PendingReply<'_, R> {
    fn drop(&mut self) {
        if !self.is_done {
            self.abandon();
        }
    }
}

impl<R> PendingReply<'_, R> {
    #[cold]
    fn abandon(&self) {
        // If a stopped runtime drops its processes, it drops their monitors and mailboxes too.
        if self.context.is_running() && !self.context.demonitor(self.reference) {
            let reference = self.reference;
            // The answer removed the monitor only on this side; remove it on the target's side.
            self.context.running().local.shared.remove_monitored_by(self.target, reference);
            drop(self.context.running().take_match(self.search, &mut |message| is_reply_to::<R>(message, reference)));
        }
    }
}
