//! The data of a call: the request, and the destination of its reply.
//!
//! ```text
//!   ReplyTo::send ─▶ reply
//!   dropped ─▶ in a process: listed in its scheduler ─▶ after its turn, or its end: "no reply" ─▶ caller
//!         └──▶ elsewhere: at once
//! ```
//!
//! A process that ends drops its requests. Its callers should learn the exit reason, so the end is delivered first: then
//! the monitor is gone, and the late "no reply" has no effect.

use std::fmt;
use std::mem;

use tokio::sync::oneshot;

use crate::links::signal::MonitorRef;
use crate::process::pid::Pid;
use crate::runtime::directory;
use crate::runtime::panics;
use crate::scheduler;
use crate::scheduler::dropped_replies::DroppedReply;

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
pub struct ReplyTo<R: Send + 'static>(ReplyTarget<R>);

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

impl<R: Send + 'static> Drop for ReplyTo<R> {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.0, ReplyTarget::Done) {
            dropped(mem::replace(&mut self.0, ReplyTarget::Done));
        }
    }
}

#[cold]
fn dropped<R: Send + 'static>(target: ReplyTarget<R>) {
    let local = scheduler::local().filter(|local| local.is_running_any());
    match target {
        ReplyTarget::Process { runtime, slot, generation, reference } => {
            let caller = Pid::local(slot, generation);
            match local.filter(|local| local.shared.number == runtime) {
                Some(local) => local.dropped_replies.defer(DroppedReply::Process(caller, reference)),
                // While a runtime stops, its processes and their messages are only freed.
                None => {
                    if let Some(shared) = directory::find(runtime).filter(|shared| !shared.is_stopped()) {
                        shared.deliver_no_reply(caller, reference);
                    }
                }
            }
        }
        ReplyTarget::Outside(sender) => match local {
            Some(local) => local.dropped_replies.defer(DroppedReply::Outside(Box::new(sender))),
            None => panics::contain(|| drop(sender)),
        },
        ReplyTarget::Done => {}
    }
}
