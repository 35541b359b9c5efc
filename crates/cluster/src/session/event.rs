//! Messages, packets and events of a session.

use bytes::Bytes;
use thiserror::Error;

use crate::identity::{Address, Epoch, Identity};
use crate::wire::{Features, Kind, Lane, Version};

/// News of the link to the other node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// The link sees the other node.
    Up,
    /// The link has lost it.
    Down,
}

/// A message to a process of the other node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Kind of the message.
    pub kind: Kind,
    /// Sending process, on this node.
    pub from: Address,
    /// Receiving process, on the other node.
    pub to: Address,
    /// Content.
    pub payload: Bytes,
}

/// A message from a process of the other node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The session that delivered it, to be given back with the credit.
    pub epoch: Epoch,
    /// Kind of the message.
    pub kind: Kind,
    /// Sending process, on the other node.
    pub from: Address,
    /// Receiving process, on this node.
    pub to: Address,
    /// Content.
    pub payload: Bytes,
}

/// A packet for the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Lane of the link.
    pub lane: Lane,
    /// Bytes of the packet.
    pub packet: Bytes,
}

/// The other end of a session that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Name and boot id of the other node.
    pub identity: Identity,
    /// Number of the session at this node.
    pub epoch: Epoch,
    /// Number of the session at the other node.
    pub peer_epoch: Epoch,
    /// Version that both nodes speak.
    pub version: Version,
    /// Features that both nodes have.
    pub features: Features,
}

/// Event of a session, for its owner, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session is up: messages may be sent.
    Up(PeerInfo),
    /// A message arrived.
    Deliver(Incoming),
    /// There is room for a message that was handed back as busy: for this target, or for all of them.
    Room {
        /// The target; `None` if the pair of nodes was full.
        to: Option<Address>,
    },
    /// The session is over. Exactly once for each [`Self::Up`].
    Down(DownReason),
    /// The other node cannot have a session with this one. Once for each life of it.
    Refused(RefusedReason),
    /// The leave of this node is over: the session is closed.
    Left {
        /// Number of frames that the other node did not acknowledge.
        unacknowledged: u64,
    },
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum DownReason {
    /// The link has lost the other node.
    #[error("the link lost the node")]
    LinkLost,
    /// A packet is missing.
    #[error("a packet was lost")]
    Gap,
    /// The other node has begun another session.
    #[error("the node began another session")]
    OtherEpoch,
    /// The other node has restarted.
    #[error("the node restarted")]
    Restarted,
    /// Nothing was acknowledged for longer than the lease.
    #[error("the node acknowledges nothing")]
    NoProgress,
    /// Nothing was received for longer than the lease.
    #[error("the node is silent")]
    Silent,
    /// The other node left, or this one did.
    #[error("the node left")]
    Left,
    /// More signals wait than the session may hold.
    #[error("too many signals wait for the node")]
    Overflow,
    /// The other node sent what no node may send.
    #[error("the node broke the protocol")]
    Protocol,
}

/// Why two nodes cannot have a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum RefusedReason {
    /// Each node speaks other versions of the wire.
    #[error("it speaks versions {} to {} of the wire, and this node speaks {} to {}", theirs.0, theirs.1, ours.0, ours.1)]
    Version {
        /// Oldest and newest version of the other node.
        theirs: (Version, Version),
        /// Oldest and newest version of this node.
        ours: (Version, Version),
    },
}

/// Error returned by [`Session::send`](super::Session::send), with the message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct SendError {
    /// Why the message was not accepted.
    pub reason: SendErrorReason,
    /// The message.
    pub message: Outgoing,
}

/// Why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendErrorReason {
    /// No room now: wait for [`Event::Room`].
    #[error("no room for the message")]
    Busy(Busy),
    /// The session is not up.
    #[error("the node is not connected")]
    NotUp,
    /// This node is leaving.
    #[error("this node is leaving the cluster")]
    Leaving,
    /// The message is too long to be sent.
    #[error("a message has at most {limit} bytes, and this one has {length}")]
    TooLarge {
        /// Length of the message, in bytes.
        length: usize,
        /// Maximum length, in bytes.
        limit: usize,
    },
}

/// The part that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// The receiving process has not taken what was sent to it.
    Target,
    /// Too much is in flight between the two nodes.
    Pair,
}
