//! Kinds of messages. The session only distinguishes messages, which need credit of their target, from signals.

use std::fmt;

/// Kind of a message: 1 to 127 wait for credit of their target, signals from 128 on never do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(pub u8);

impl Kind {
    /// A message to a process.
    pub const MESSAGE: Self = Self(1);
    /// A request that awaits a reply.
    pub const CALL: Self = Self(2);
    /// The reply to a call.
    pub const REPLY: Self = Self(3);
    /// A request to the node to spawn a process.
    pub const SPAWN: Self = Self(4);
    /// A message of a topic.
    pub const PUBLISH: Self = Self(5);
    /// An exit signal.
    pub const EXIT: Self = Self(128);
    /// A request to link.
    pub const LINK: Self = Self(129);
    /// The end of a link.
    pub const UNLINK: Self = Self(130);
    /// A request to monitor.
    pub const MONITOR: Self = Self(131);
    /// The end of a monitor.
    pub const DEMONITOR: Self = Self(132);
    /// The down signal of a monitor.
    pub const DOWN: Self = Self(133);
    /// The answer to [`Self::SPAWN`].
    pub const SPAWNED: Self = Self(134);
    /// A message between the registries of names.
    pub const NAME: Self = Self(135);
    /// A message between the registries of groups.
    pub const GROUP: Self = Self(136);

    /// Returns true for signals: they never wait for credit of their target.
    pub const fn is_signal(self) -> bool {
        self.0 >= 128
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kind {}", self.0)
    }
}
