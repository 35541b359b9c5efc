//! Replies that a process has dropped in its turn. Their callers are told after the turn, or after the process's end.
//!
//! ```text
//!   ReplyTo dropped in a poll, or with the future or the mailbox of a process that ends ──▶ listed here
//!   turn over: parked, or ended and its monitors told ──▶ before another process is taken from the queue:
//!                                                         NoReply, if the caller still waits
//! ```

use std::any::Any;

use crate::links::signal::MonitorRef;
use crate::mailbox::request::RemoteReply;
use crate::process::pid::Pid;
use crate::runtime::panics;
use crate::scheduler::Local;

/// A dropped reply.
pub(crate) enum DroppedReply {
    /// The calling process, and the reference of its call.
    Process(Pid, MonitorRef),
    /// The sender of a reply to a caller outside, which its drop tells.
    Outside(Box<dyn Any + Send>),
    /// A caller on another node.
    Remote(Box<RemoteReply>),
}

impl Local {
    /// Tells the caller of the dropped reply after the turn of the running process.
    pub(crate) fn defer_dropped_reply(&self, reply: DroppedReply) {
        self.dropped_replies.borrow_mut().push(reply);
        // The next search for work looks here first. This way no poll has to check it.
        self.polls_until_check.set(0);
    }

    /// Tells the callers of dropped replies.
    #[inline]
    pub(in crate::scheduler) fn deliver_dropped_replies(&self) {
        if !self.dropped_replies.borrow().is_empty() {
            self.deliver_listed_replies();
        }
    }

    #[cold]
    fn deliver_listed_replies(&self) {
        for reply in self.dropped_replies.take() {
            match reply {
                DroppedReply::Process(caller, reference) => self.shared.deliver_no_reply(caller, reference),
                DroppedReply::Remote(remote) => self.shared.no_reply_remote(&remote),
                DroppedReply::Outside(sender) => panics::contain(|| drop(sender)),
            }
        }
    }
}
