//! The data of a call: the request, and the destination of its reply.

use std::fmt;

use tokio::sync::oneshot;

use crate::links::signal::MonitorRef;
use crate::process::pid::Pid;

/// A call as the callee receives it.
#[derive(Debug)]
pub struct Request<Q, R> {
    /// Contents of the request.
    pub request: Q,
    /// Destination of the reply.
    pub reply: ReplyTo<R>,
}

/// Destination of the reply to one call; may be stored or passed to another process.
///
/// Dropping it sends nothing: the caller continues to wait until its timeout or the callee's end.
#[must_use = "the caller waits for its reply"]
pub struct ReplyTo<R>(pub(super) ReplyTarget<R>);

pub(super) enum ReplyTarget<R> {
    Process(Pid, MonitorRef),
    Outside(oneshot::Sender<R>),
}

impl<R> fmt::Debug for ReplyTo<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ReplyTarget::Process(caller, reference) => write!(f, "ReplyTo({caller}, {reference:?})"),
            ReplyTarget::Outside(_) => f.write_str("ReplyTo(outside)"),
        }
    }
}

impl<R> ReplyTo<R> {
    pub(crate) const fn process(caller: Pid, reference: MonitorRef) -> Self {
        Self(ReplyTarget::Process(caller, reference))
    }

    pub(crate) fn outside() -> (Self, oneshot::Receiver<R>) {
        let (give, take) = oneshot::channel();
        (Self(ReplyTarget::Outside(give)), take)
    }
}
