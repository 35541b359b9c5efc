//! Versions and features of the wire, and how two nodes agree on them.

use std::fmt;

/// A version of the wire. Two nodes speak the newest one that both of them know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub u16);

impl Version {
    /// The oldest version that this build speaks.
    pub const OLDEST: Self = Self(1);
    /// The newest version that this build speaks. Version 2 added PING and PONG, version 3 the credit of all processes in
    /// HELLO.
    pub const NEWEST: Self = Self(3);

    /// Returns the newest version in both ranges, which include their ends.
    pub fn negotiated(ours: (Self, Self), theirs: (Self, Self)) -> Option<Self> {
        let (oldest, newest) = (ours.0.max(theirs.0), ours.1.min(theirs.1));
        (oldest <= newest).then_some(newest)
    }

    /// Returns true if nodes of this version say what all their processes together may have waiting.
    pub const fn has_held_bytes(self) -> bool {
        self.0 >= 3
    }

    /// Returns true if nodes of this version send PING and answer it.
    pub const fn has_ping(self) -> bool {
        self.0 >= 2
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A set of optional abilities of a node. A session has those that both nodes have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features(pub u64);

impl Features {
    /// No ability.
    pub const NONE: Self = Self(0);
    /// Names that are unique in the cluster.
    pub const NAMES: Self = Self(1);
    /// Groups with members on several nodes.
    pub const GROUPS: Self = Self(1 << 1);
    /// Processes started by their key.
    pub const KEYED: Self = Self(1 << 2);
    /// Modules of guests that travel by their hash.
    pub const CODE: Self = Self(1 << 3);
    /// Topics with subscribers on several nodes.
    pub const TOPICS: Self = Self(1 << 4);

    /// Returns the features of both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the features that both sets have.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns true if this set has all features of the other.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The two lanes of a link. A link keeps the order of the packets within the stream lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// HELLO, ACK, PING: small, urgent, in any order.
    Control,
    /// Frames, in order.
    Stream,
}
