//! The data of a call: the request, and the destination of its reply.

use std::fmt;
use std::mem;

use tokio::sync::oneshot;

use crate::links::signal::MonitorRef;
use crate::process::pid::Pid;

/// A call as the callee receives it.
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
    /// The reply was sent.
    Done,
}

impl<R: Send + 'static> fmt::Debug for ReplyTo<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ReplyTarget::Process { slot, generation, reference, .. } => {
                write!(f, "ReplyTo({}, {reference:?})", Pid::local(*slot, *generation))
            }
            ReplyTarget::Outside(_) => f.write_str("ReplyTo(outside)"),
            ReplyTarget::Done => f.write_str("ReplyTo(done)"),
        }
    }
}

impl<R: Send + 'static> ReplyTo<R> {
    pub(crate) const fn process(runtime: u32, caller: Pid, reference: MonitorRef) -> Self {
        Self(ReplyTarget::Process { runtime, slot: caller.slot(), generation: caller.generation(), reference })
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
