//! Kinds of messages. The session only distinguishes messages, which need credit of their target, from signals.

use std::fmt;

/// Kind of a message: 1 to 127 wait for credit of their target, signals from 128 on never do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(pub u8);

impl Kind {
    /// The first kind of a message.
    pub const MESSAGE: Self = Self(1);
    /// The first kind of a signal.
    pub const SIGNAL: Self = Self(128);
    /// A message between the registries of names. Kinds from 192 on are those of the cluster; smaller ones are those of
    /// the runtime.
    pub const NAME: Self = Self(192);
    /// A message about what nodes say about themselves.
    pub const VITALS: Self = Self(193);

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
