//! Calls: a request that carries the destination of its reply, and the wait for that reply.
//!
//! ```text
//!   caller: monitor ─▶ Request { reply: ReplyTo, .. } ──▶ callee
//!                Reply ◀── only if the monitor exists ──── ReplyTo::send
//!             NoReply  ◀── only if the monitor exists ──── ReplyTo dropped
//!                Down  ◀── only if the monitor exists ──── the callee's end
//! ```
//!
//! A call is identified by the reference of a monitor on the callee. A reply removes the monitor under the caller's
//! lock, and so do a dropped request and the callee's end: exactly one of the three reaches the caller. A timeout removes the monitor as
//! well, so neither arrives after it. The wait checks only messages that arrived after the call began, so its cost
//! does not depend on the length of the mailbox.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::links::signal::{Down, MonitorRef, NoReply};
use crate::mailbox::message::Message;
use crate::mailbox::request::{RemoteReply, Reply, ReplyTarget, ReplyTo, Request};
use crate::mailbox::unreceived::Wanted;
use crate::process::context::Context;
use crate::process::error::TrySendError;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::running::Search;
use crate::runtime::config::defaults::CALL_TIMEOUT;
use crate::runtime::handle::{Handle, Watch};
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::{self, Local};
use crate::time::timers::timer::CallRef;

/// Error returned by a call that received no reply.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use std::time::Duration;
///
/// use rusm::{CallError, Request};
///
/// runtime.block_on(|ctx| async move {
///     let silent = ctx.spawn(|ctx| async move {
///         drop(ctx.receive_of::<Request<(), ()>>().await);
///         ctx.receive().await;
///     });
///     let answer = ctx.call::<(), ()>(silent, (), Duration::from_secs(5)).await;
///     assert_eq!(answer, Err(CallError::Dropped { to: silent }));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// The callee, or another process that it had passed the request to, dropped it without a reply.
    #[error("{to} dropped the request without a reply")]
    Dropped {
        /// Pid of the callee.
        to: Pid,
    },
    /// The callee waits for the start of the caller, so it cannot reply; see
    /// [`Context::start_link`](crate::Context::start_link).
    #[error("{to} waits until {caller} has started, so it cannot answer")]
    AwaitsStart {
        /// Pid of the callee.
        to: Pid,
        /// Pid of the caller.
        caller: Pid,
    },
    /// The callee ended before it replied.
    #[error("{to} ended before it replied: {reason}")]
    Ended {
        /// Pid of the callee.
        to: Pid,
        /// Exit reason of the callee.
        reason: ExitReason,
    },
    /// The node of the callee cannot be reached, or was lost before the reply arrived: the callee may have received the
    /// request.
    #[error("no connection to the node of {to}")]
    NoConnection {
        /// Pid of the callee.
        to: Pid,
    },
    /// The callee is on another node, and the types of the call are not exported by both nodes; see
    /// [`Exports::call`](crate::remote::Exports::call).
    #[error("a call with {request} cannot be sent to {to} on another node: export it on both nodes")]
    NotPortable {
        /// Pid of the callee.
        to: Pid,
        /// Rust type of the request.
        request: &'static str,
    },
}

impl CallError {
    pub(crate) fn ended(to: Pid, reason: ExitReason) -> Self {
        match reason {
            ExitReason::NoProcess => Self::NoProcess { to },
            ExitReason::NoConnection if to.node() != 0 => Self::NoConnection { to },
            reason => Self::Ended { to, reason },
        }
    }

    pub(crate) fn unanswered(to: Pid, why: Unanswered) -> Self {
        match why {
            Unanswered::Ended(reason) => Self::ended(to, reason),
            Unanswered::Dropped => Self::Dropped { to },
        }
    }
}

/// Why no reply comes.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The callee has ended.
    Ended(ExitReason),
    /// The request was dropped.
    Dropped,
}

impl Unanswered {
    /// Returns the exit reason of the callee, which only its end can have caused.
    pub(crate) fn into_reason(self) -> ExitReason {
        match self {
            Self::Ended(reason) => reason,
            Self::Dropped => ExitReason::Killed,
        }
    }
}

impl<R: Send + 'static> ReplyTo<R> {
    /// Sends the reply. Returns the value if the caller no longer waits for it.
    #[inline]
    pub fn send(self, by: &impl Caller, value: R) -> Option<R> {
        match self.into_target() {
            ReplyTarget::Process { slot, generation, reference, .. } => {
                by.with_shared(|shared| reply(shared, Pid::local(slot, generation), reference, value))
            }
            ReplyTarget::Outside(caller) => caller.send(value).err(),
            ReplyTarget::Remote(remote) => reply_remote(by, &remote, value),
            ReplyTarget::Done => Some(value),
        }
    }
}

#[cold]
#[inline(never)]
fn reply_remote<R: Send + 'static>(by: &impl Caller, remote: &RemoteReply, value: R) -> Option<R> {
    let sent = by.with_shared(|shared| shared.reply_remote(remote, &value));
    if sent { None } else { Some(value) }
}

fn reply<R: Send + 'static>(shared: &RuntimeShared, caller: Pid, reference: MonitorRef, value: R) -> Option<R> {
    shared.deliver_reply(caller, reference, value, |value| Reply { reference, value })
}

/// A party that can call, send and reply: a process through its [`Context`], or code outside through a [`Handle`], for
/// example in the state of an HTTP handler. An [`Arc`] of either is one, too.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::actor::Address;
/// use rusm::{CallError, Caller, ReplyTo};
///
/// /// Works in a process, with its `Context`, and elsewhere, with a `Handle`.
/// async fn total(by: &impl Caller, counter: Address<ReplyTo<u64>>) -> Result<u64, CallError> {
///     counter.call(by, |reply| reply).await
/// }
/// ```
pub trait Caller: Sealed {
    /// Sends a request and waits at most `timeout` for its reply; see [`Context::call`].
    ///
    /// # Errors
    /// [`CallError`] as of [`Context::call`].
    fn call<Q: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        request: Q,
        timeout: Duration,
    ) -> impl Future<Output = Result<R, CallError>> + Send;

    /// Like [`call`](Self::call), with a timeout of [5 s](crate::defaults::CALL_TIMEOUT).
    ///
    /// # Errors
    /// [`CallError`] as of [`Context::call`].
    fn request<Q: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        request: Q,
    ) -> impl Future<Output = Result<R, CallError>> + Send {
        self.call(to, request, CALL_TIMEOUT)
    }

    /// Sends a message, and waits while the receiver's mailbox is full; see [`Context::send`].
    fn deliver<T: Send + 'static>(&self, to: Pid, message: T) -> impl Future<Output = ()> + Send;

    /// Sends a message without waiting; see [`Context::try_send`].
    ///
    /// # Errors
    /// [`TrySendError`] with the reason why it was not sent.
    fn try_deliver<T: Send + 'static>(&self, to: Pid, message: T) -> Result<(), TrySendError>;
}

#[doc(hidden)]
#[expect(unnameable_types, reason = "seals `Caller`: only the types listed in its summary implement it")]
pub trait Sealed: Sync {
    #[expect(private_bounds, reason = "not callable from outside the crate")]
    fn with_shared<T>(&self, act: impl FnOnce(&RuntimeShared) -> T) -> T;

    /// Sends the message that `make` creates with the destination of its reply, and waits at most `timeout` for it.
    fn call_with<M: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        timeout: Duration,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> impl Future<Output = Result<R, CallError>> + Send;

    /// Sends a request to stop, and waits at most `timeout` for the end; returns the exit reason.
    fn stop<T: Send + 'static>(
        &self,
        to: Pid,
        request: T,
        timeout: Duration,
    ) -> impl Future<Output = Result<ExitReason, CallError>> + Send;
}

impl Sealed for Context {
    #[expect(private_bounds, reason = "not callable from outside the crate")]
    fn with_shared<T>(&self, act: impl FnOnce(&RuntimeShared) -> T) -> T {
        act(&self.running().local.shared)
    }

    async fn call_with<M: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        timeout: Duration,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> Result<R, CallError> {
        if timeout == Duration::MAX {
            return self.call_unbounded(to, make).await;
        }
        self.within(timeout, self.call_unbounded(to, make)).await.unwrap_or(Err(CallError::Timeout { to, timeout }))
    }

    async fn stop<T: Send + 'static>(&self, to: Pid, request: T, timeout: Duration) -> Result<ExitReason, CallError> {
        if to == self.pid() {
            return Err(CallError::CallingSelf { pid: to });
        }
        if self.is_awaited_by(to) {
            return Err(CallError::AwaitsStart { to, caller: self.pid() });
        }
        let stopped = async {
            let end = PendingReply::<()>::of(self, to);
            if to.node() != 0 {
                // No request does this for a stop.
                self.running().local.shared.send_monitor(self.pid(), end.reference, to);
            }
            self.send(to, request).await;
            end.await.map_or_else(Unanswered::into_reason, |()| ExitReason::Normal)
        };
        self.within(timeout, stopped).await.ok_or(CallError::Timeout { to, timeout })
    }
}

impl Sealed for Handle {
    #[expect(private_bounds, reason = "not callable from outside the crate")]
    fn with_shared<T>(&self, act: impl FnOnce(&RuntimeShared) -> T) -> T {
        act(&self.shared)
    }

    async fn call_with<M: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        timeout: Duration,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> Result<R, CallError> {
        if to.node() != 0 {
            return Box::pin(self.call_remote(to, timeout, make)).await;
        }
        self.refuse_own_wait(to)?;
        let (reply, replied) = ReplyTo::outside();
        let mut end = self.watch(to);
        let message = make(reply);
        let answer = async {
            self.send(to, message).await;
            reply_or_end(replied, &mut end).await.map_err(|why| CallError::unanswered(to, why))
        };
        self.within(timeout, answer).await.unwrap_or(Err(CallError::Timeout { to, timeout }))
    }

    async fn stop<T: Send + 'static>(&self, to: Pid, request: T, timeout: Duration) -> Result<ExitReason, CallError> {
        self.refuse_own_wait(to)?;
        let end = self.watch(to);
        let stopped = async {
            self.send(to, request).await;
            end.await
        };
        self.within(timeout, stopped).await.ok_or(CallError::Timeout { to, timeout })
    }
}

impl Context {
    /// Returns true if `parent` waits for the start of this process.
    fn is_awaited_by(&self, parent: Pid) -> bool {
        self.parent() == Some(parent) && {
            let running = self.running();
            running.local.shared.awaits_start(running.slot, self.pid(), parent)
        }
    }

    async fn call_unbounded<M: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> Result<R, CallError> {
        if to == self.pid() {
            return Err(CallError::CallingSelf { pid: to });
        }
        if self.is_awaited_by(to) {
            return Err(CallError::AwaitsStart { to, caller: self.pid() });
        }
        // No await of its own for remote calls: it would make the future of each local call larger.
        if to.node() != 0 && !self.running().local.shared.is_sendable::<M>(to) {
            return Err(CallError::NotPortable { to, request: std::any::type_name::<M>() });
        }
        let answer = PendingReply::<R>::of(self, to);
        self.send(to, make(answer.reply_to())).await;
        answer.await.map_err(|why| CallError::unanswered(to, why))
    }
}

impl Caller for Context {
    #[inline]
    fn call<Q: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        request: Q,
        timeout: Duration,
    ) -> impl Future<Output = Result<R, CallError>> + Send {
        Self::call(self, to, request, timeout)
    }

    #[inline]
    fn deliver<T: Send + 'static>(&self, to: Pid, message: T) -> impl Future<Output = ()> + Send {
        self.send(to, message)
    }

    fn try_deliver<T: Send + 'static>(&self, to: Pid, message: T) -> Result<(), TrySendError> {
        self.try_send(to, message)
    }
}

impl Caller for Handle {
    async fn call<Q, R>(&self, to: Pid, request: Q, timeout: Duration) -> Result<R, CallError>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        Self::call(self, to, request, timeout).await
    }

    async fn deliver<T: Send + 'static>(&self, to: Pid, message: T) {
        self.send(to, message).await;
    }

    fn try_deliver<T: Send + 'static>(&self, to: Pid, message: T) -> Result<(), TrySendError> {
        self.try_send(to, message)
    }
}

/// For a context that several parts of a process share, such as the one of an HTTP request.
impl<C: Caller + Send> Caller for Arc<C> {
    fn call<Q: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        request: Q,
        timeout: Duration,
    ) -> impl Future<Output = Result<R, CallError>> + Send {
        C::call(self, to, request, timeout)
    }

    fn deliver<T: Send + 'static>(&self, to: Pid, message: T) -> impl Future<Output = ()> + Send {
        C::deliver(self, to, message)
    }

    fn try_deliver<T: Send + 'static>(&self, to: Pid, message: T) -> Result<(), TrySendError> {
        C::try_deliver(self, to, message)
    }
}

impl<C: Sealed + Send> Sealed for Arc<C> {
    #[expect(private_bounds, reason = "not callable from outside the crate")]
    fn with_shared<T>(&self, act: impl FnOnce(&RuntimeShared) -> T) -> T {
        C::with_shared(self, act)
    }

    fn call_with<M: Send + 'static, R: Send + 'static>(
        &self,
        to: Pid,
        timeout: Duration,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> impl Future<Output = Result<R, CallError>> + Send {
        C::call_with(self, to, timeout, make)
    }

    fn stop<T: Send + 'static>(
        &self,
        to: Pid,
        request: T,
        timeout: Duration,
    ) -> impl Future<Output = Result<ExitReason, CallError>> + Send {
        C::stop(self, to, request, timeout)
    }
}

impl Handle {
    /// Refuses a call that waits for the process in which this handle is used: it calls itself, or `to` waits for its start.
    fn refuse_own_wait(&self, to: Pid) -> Result<(), CallError> {
        let local = scheduler::local().filter(|local| Arc::ptr_eq(&local.shared, &self.shared));
        let Some(caller) = local.and_then(Local::running) else { return Ok(()) };
        if caller.pid() == to {
            return Err(CallError::CallingSelf { pid: to });
        }
        let is_starting = self.shared.awaits_start(caller.slot, caller.pid(), to);
        if is_starting { Err(CallError::AwaitsStart { to, caller: caller.pid() }) } else { Ok(()) }
    }

    /// Sends a request from outside and waits at most `timeout` for its reply, in any executor; see [`Context::call`].
    ///
    /// # Errors
    /// [`CallError`] as of [`Context::call`].
    pub async fn call<Q, R>(&self, to: Pid, request: Q, timeout: Duration) -> Result<R, CallError>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        self.call_with(to, timeout, |reply| Request { request, reply }).await
    }

    /// Waits at most `timeout`. The timer is set only if the future is not ready at once.
    pub(crate) async fn within<T>(&self, timeout: Duration, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut elapsed = None;
        let mut timer = OutsideTimer { runtime: self, call: None };
        poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(value));
            }
            if timeout == Duration::MAX {
                return Poll::Pending;
            }
            let elapsed = elapsed.get_or_insert_with(|| timer.set(timeout));
            Pin::new(elapsed).poll(cx).map(|_| None)
        })
        .await
    }
}

/// Timer of a wait outside of processes; cancelled when it is dropped.
struct OutsideTimer<'a> {
    runtime: &'a Handle,
    call: Option<CallRef>,
}

impl OutsideTimer<'_> {
    fn set(&mut self, timeout: Duration) -> oneshot::Receiver<()> {
        let (elapse, elapsed) = oneshot::channel();
        let shared = &self.runtime.shared;
        let at_ns = shared.now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        self.call = Some(shared.call_at(at_ns, move || drop(elapse)));
        elapsed
    }
}

impl Drop for OutsideTimer<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.runtime.shared.cancel_call(call);
        }
    }
}

/// Waits, outside of processes, for a reply or for the end of the process that should reply.
pub(crate) async fn reply_or_end<R>(replied: oneshot::Receiver<R>, end: &mut Watch) -> Result<R, Unanswered> {
    let (mut replied, mut end) = (pin!(replied), Pin::new(end));
    poll_fn(|cx| match replied.as_mut().poll(cx) {
        Poll::Ready(Ok(value)) => Poll::Ready(Ok(value)),
        // The `ReplyTo` was dropped. If it was dropped because its process ended, the end was reported before.
        Poll::Ready(Err(_)) => Poll::Ready(Err(match end.as_mut().poll(cx) {
            Poll::Ready(reason) => Unanswered::Ended(reason),
            Poll::Pending => Unanswered::Dropped,
        })),
        Poll::Pending => end.as_mut().poll(cx).map(|reason| Err(Unanswered::Ended(reason))),
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
    /// # use rusm_runtime as rusm;
    /// # use std::time::Duration;
    /// # use rusm::{Config, Request, Runtime};
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
        // As `call_with`, without a future around that of the call: each costs a few nanoseconds.
        if timeout == Duration::MAX {
            return self.call_unbounded(to, |reply| Request { request, reply }).await;
        }
        let answer = self.call_unbounded(to, |reply| Request { request, reply });
        self.within(timeout, answer).await.unwrap_or(Err(CallError::Timeout { to, timeout }))
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

    pub(crate) fn reply_to(&self) -> ReplyTo<R> {
        ReplyTo::process(self.context.running().local.shared.number, self.context.pid(), self.reference)
    }
}

fn is_reply_to<R: 'static>(message: &Message, reference: MonitorRef) -> bool {
    match message.downcast_ref::<Reply<R>>() {
        Some(reply) => reply.reference == reference,
        None => match message.downcast_ref::<Down>() {
            Some(down) => down.reference == reference,
            None => message.downcast_ref::<NoReply>().is_some_and(|none| none.reference == reference),
        },
    }
}

impl<R: Send + 'static> Future for PendingReply<'_, R> {
    type Output = Result<R, Unanswered>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (running, reference) = (this.context.running(), this.reference);
        let Some(message) =
            running.receive_deterministic(&mut this.search, |message| is_reply_to::<R>(message, reference))
        else {
            running.record_wait_for_reply(cx);
            if reference.is_start() {
                running.note_wait(Wanted::Start(this.target));
            }
            return Poll::Pending;
        };
        this.is_done = true;
        Poll::Ready(match message.downcast::<Reply<R>>() {
            Ok(reply) => {
                running.local.shared.remove_monitored_by(this.target, reference);
                Ok(reply.value)
            }
            Err(message) => Err(if let Ok(down) = message.downcast::<Down>() {
                Unanswered::Ended(down.reason)
            } else {
                running.local.shared.remove_monitored_by(this.target, reference);
                Unanswered::Dropped
            }),
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
        if self.context.is_running() && self.reference.is_start() {
            self.context.running().local.shared.unreceived.forget_start(self.context.pid());
        }
        if self.context.is_running() && !self.context.demonitor(self.reference) {
            let reference = self.reference;
            // The answer removed the monitor only on this side; remove it on the target's side.
            self.context.running().local.shared.remove_monitored_by(self.target, reference);
            drop(self.context.running().take_match(self.search, &mut |message| is_reply_to::<R>(message, reference)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Request;
    use crate::mailbox::message::INLINE_MESSAGE_BYTES;

    /// Not asserted in the library: with `tokio_unstable` and tokio's `tracing`, the channel of the reply is larger, and a
    /// program that runs tokio-console has to compile all the same.
    #[test]
    fn a_request_of_two_words_is_sent_without_an_allocation() {
        assert!(size_of::<Request<[u64; 2], ()>>() <= INLINE_MESSAGE_BYTES);
    }
}
