//! The messages that a process leaves in a full mailbox when it ends: a process drops them in parts.
//!
//! ```text
//!   end of a process ─▶ up to 1,024 messages: dropped at once
//!                  └──▶ the others: Leftover ─▶ a new process: drops 256 ─▶ yields ─▶ drops 256 ..
//! ```
//!
//! A drop takes up to a microsecond, so the processes on the same scheduler would wait for a full mailbox for tens of
//! milliseconds.

#![expect(unsafe_code, reason = "moves the queue of an ended process to another one")]

use std::sync::Arc;

use crate::mailbox::queue::{Backlog, NodePool};
use crate::process::context::Context;
use crate::runtime::handle::Handle;
use crate::runtime::panics;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler;

/// Maximum number of messages that the end of a process drops itself.
pub(crate) const DROPPED_AT_ONCE_MAX: usize = 1_024;

/// Number of messages that are dropped without interruption afterwards.
const PART: usize = 256;

/// Messages that no process will receive. They count toward the memory of all mailboxes until they are dropped.
pub(crate) struct Leftover {
    shared: Arc<RuntimeShared>,
    backlog: Backlog,
}

// SAFETY: it owns the nodes of its backlog alone, and messages are `Send`.
unsafe impl Send for Leftover {}

impl Leftover {
    pub(crate) fn new(shared: &Arc<RuntimeShared>, backlog: Backlog) -> Self {
        Self { shared: Arc::clone(shared), backlog }
    }

    /// Starts a process that drops the messages. At the process limit, they are dropped at once.
    pub(crate) fn drop_in_parts(mut self) {
        let runtime = Handle::new(Arc::clone(&self.shared));
        let drop_all = |ctx: Context| async move {
            ctx.set_label("messages of ended processes");
            while self.drop_some(PART) {
                ctx.yield_now().await;
            }
        };
        // A spawn that fails drops the closure, and the messages with it.
        runtime.spawn(drop_all).ok();
    }

    /// Drops the oldest messages, at most `limit`. Returns false if there were fewer.
    fn drop_some(&mut self, limit: usize) -> bool {
        let local = scheduler::local().filter(|local| local.shared.number == self.shared.number);
        for _ in 0..limit {
            let Some(envelope) = self.backlog.pop() else { return false };
            self.shared.release_mail(local, envelope.heap());
            panics::contain(|| match local {
                Some(local) => drop(envelope.open(&local.nodes)),
                None => drop(envelope.open(&NodePool::new())),
            });
        }
        true
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        while self.drop_some(PART) {}
    }
}
