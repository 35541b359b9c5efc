//! Things that a process holds beyond its side table, such as tables and keys of registries, and gives up at its end.

use std::sync::Arc;

use crate::mailbox::queue::Envelope;
use crate::process::pid::Pid;

/// Something that processes hold, and that learns of their end.
pub(crate) trait Holding: Send + Sync {
    /// Called when a process that holds this has ended, before its end is announced.
    fn holder_ended(self: Arc<Self>, holders: &dyn Holders, pid: Pid);
}

/// The processes that can hold something.
pub(crate) trait Holders {
    /// Lets a process hold something. Returns false if it has ended.
    fn pass_on(&self, to: Pid, holding: Arc<dyn Holding>) -> bool;

    /// Delivers a message even if the mailbox is full.
    fn tell(&self, to: Pid, envelope: Envelope);
}
