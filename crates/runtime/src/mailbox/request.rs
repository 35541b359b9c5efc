//! The data of a call: the request, and the destination of its reply.

use std::fmt;
use std::mem;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::links::signal::MonitorRef;
use crate::process::pid::Pid;

/// A call as the callee receives it.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use std::time::Duration;
///
/// use rusm::Request;
///
/// runtime.block_on(|ctx| async move {
///     let doubling = ctx.spawn(|ctx| async move {
///         let Request { request, reply } = ctx.receive_of::<Request<u32, u32>>().await;
///         reply.send(&ctx, request * 2);
///     });
///     assert_eq!(ctx.call::<u32, u32>(doubling, 21, Duration::from_secs(5)).await, Ok(42));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Request<Q, R: Send + 'static> {
    /// Contents of the request.
    pub request: Q,
    /// Destination of the reply.
    pub reply: ReplyTo<R>,
}

/// Destination of the reply to one call; may be stored or passed to another process.
///
/// Dropping it tells the caller so: its call returns [`CallError::Dropped`](crate::CallError::Dropped).
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::actor::Address;
/// use rusm::ReplyTo;
///
/// runtime.block_on(|ctx| async move {
///     let lengths: Address<(String, ReplyTo<usize>)> = ctx
///         .spawn_typed(|ctx, mut inbox: rusm::actor::Inbox<(String, ReplyTo<usize>)>| async move {
///             let (text, reply) = inbox.receive(&ctx).await;
///             // Another process could answer as well, or this one later.
///             reply.send(&ctx, text.len());
///         })
///         .expect("there is room for a process");
///     assert_eq!(lengths.call(&ctx, |reply| ("four".to_owned(), reply)).await, Ok(4));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the caller waits for its reply"]
pub struct ReplyTo<R: Send + 'static>(pub(super) ReplyTarget<R>);

pub(super) enum ReplyTarget<R> {
    /// A process of the runtime with this number.
    Process {
        runtime: u32,
        slot: u32,
        generation: u32,
        reference: MonitorRef,
    },
    Outside(oneshot::Sender<R>),
    /// A process of another node.
    Remote(Box<RemoteReply>),
    /// The reply was sent.
    Done,
}

/// Caller of a request that came from another node.
#[derive(Clone, Debug)]
pub(crate) struct RemoteReply {
    /// Number of the runtime that received the request.
    pub(crate) runtime: u32,
    pub(crate) caller: Pid,
    /// Reference of the call on the node of the caller.
    pub(crate) reference: MonitorRef,
    /// Process that received the request.
    pub(crate) callee: Pid,
    /// Name under which the call is exported.
    pub(crate) call: Arc<str>,
}

/// A reply in the mailbox of the caller.
pub(crate) struct Reply<R> {
    pub(crate) reference: MonitorRef,
    pub(crate) value: R,
}

impl<R: Send + 'static> fmt::Debug for ReplyTo<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ReplyTarget::Process { slot, generation, reference, .. } => {
                write!(f, "ReplyTo({}, {reference:?})", Pid::local(*slot, *generation))
            }
            ReplyTarget::Outside(_) => f.write_str("ReplyTo(outside)"),
            ReplyTarget::Remote(remote) => write!(f, "ReplyTo({}, {:?})", remote.caller, remote.reference),
            ReplyTarget::Done => f.write_str("ReplyTo(done)"),
        }
    }
}

impl<R: Send + 'static> ReplyTo<R> {
    pub(crate) const fn process(runtime: u32, caller: Pid, reference: MonitorRef) -> Self {
        Self(ReplyTarget::Process { runtime, slot: caller.slot(), generation: caller.generation(), reference })
    }

    pub(crate) fn remote(reply: RemoteReply) -> Self {
        Self(ReplyTarget::Remote(Box::new(reply)))
    }

    /// Returns the process that waits for the reply, and the reference of its call; `None` for a caller outside.
    pub(crate) fn caller(&self) -> Option<(Pid, MonitorRef)> {
        match &self.0 {
            ReplyTarget::Process { slot, generation, reference, .. } => {
                Some((Pid::local(*slot, *generation), *reference))
            }
            ReplyTarget::Remote(remote) => Some((remote.caller, remote.reference)),
            ReplyTarget::Outside(_) | ReplyTarget::Done => None,
        }
    }

    pub(crate) fn outside() -> (Self, oneshot::Receiver<R>) {
        let (give, take) = oneshot::channel();
        (Self(ReplyTarget::Outside(give)), take)
    }

    /// Takes the destination, so that the drop tells the caller nothing.
    #[inline]
    pub(super) fn into_target(mut self) -> ReplyTarget<R> {
        mem::replace(&mut self.0, ReplyTarget::Done)
    }

    /// Drops it without telling the caller.
    pub(crate) fn forget(self) {
        drop(self.into_target());
    }
}
