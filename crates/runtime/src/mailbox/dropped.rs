//! What the drop of a [`ReplyTo`] means: its caller learns that no reply comes.
//!
//! ```text
//!   ReplyTo dropped ─▶ by a process: listed in its scheduler ─▶ after its turn, or its end: NoReply ─▶ caller
//!                 └──▶ by other code: at once
//! ```
//!
//! A process that ends drops its requests. Its callers should learn the exit reason, so the end is delivered first: then
//! the monitor is gone, and the late `NoReply` has no effect.

use std::mem;

use crate::mailbox::request::{ReplyTarget, ReplyTo};
use crate::process::pid::Pid;
use crate::runtime::{directory, panics};
use crate::scheduler;
use crate::scheduler::dropped_replies::DroppedReply;

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
                Some(local) => local.defer_dropped_reply(DroppedReply::Process(caller, reference)),
                // While a runtime stops, its processes and their messages are only freed.
                None => {
                    if let Some(shared) = directory::find(runtime).filter(|shared| !shared.is_stopped()) {
                        shared.deliver_no_reply(caller, reference);
                    }
                }
            }
        }
        ReplyTarget::Remote(remote) => match local.filter(|local| local.shared.number == remote.runtime) {
            Some(local) => local.defer_dropped_reply(DroppedReply::Remote(remote)),
            None => {
                if let Some(shared) = directory::find(remote.runtime).filter(|shared| !shared.is_stopped()) {
                    shared.no_reply_remote(&remote);
                }
            }
        },
        ReplyTarget::Outside(sender) => match local {
            Some(local) => local.defer_dropped_reply(DroppedReply::Outside(Box::new(sender))),
            None => panics::contain(|| drop(sender)),
        },
        ReplyTarget::Done => {}
    }
}
