//! Replies that a process has dropped in its turn. Their callers are told after the turn, or after the process's end.
//!
//! ```text
//!   ReplyTo dropped in a poll, or with the future or the mailbox of a process that ends ──▶ listed here
//!   turn over: parked, or ended and its monitors told ──▶ deliver: NoReply, if the caller still waits
//! ```

use std::any::Any;
use std::cell::{Cell, RefCell};

use crate::links::signal::MonitorRef;
use crate::process::pid::Pid;
use crate::runtime::panics;
use crate::runtime::shared::RuntimeShared;

/// A dropped reply.
pub(crate) enum DroppedReply {
    /// The calling process, and the reference of its call.
    Process(Pid, MonitorRef),
    /// The sender of a reply to a caller outside, which its drop tells.
    Outside(Box<dyn Any + Send>),
}

/// The dropped replies of the current turn of a scheduler.
#[derive(Default)]
pub(crate) struct DroppedReplies {
    is_used: Cell<bool>,
    list: RefCell<Vec<DroppedReply>>,
}

impl DroppedReplies {
    /// Tells the caller after the turn.
    pub(crate) fn defer(&self, reply: DroppedReply) {
        self.list.borrow_mut().push(reply);
        self.is_used.set(true);
    }

    /// Tells the callers.
    #[inline]
    pub(in crate::scheduler) fn deliver(&self, shared: &RuntimeShared) {
        if self.is_used.get() {
            self.deliver_all(shared);
        }
    }

    #[cold]
    fn deliver_all(&self, shared: &RuntimeShared) {
        self.is_used.set(false);
        for reply in self.list.take() {
            match reply {
                DroppedReply::Process(caller, reference) => shared.deliver_no_reply(caller, reference),
                DroppedReply::Outside(sender) => panics::contain(|| drop(sender)),
            }
        }
    }
}
