//! Frames: what a runtime hands to the network for another node, and receives from it.

use bytes::Bytes;

use crate::process::pid::Pid;

/// A process of a known node: slot and generation of its pid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// Slot in the process table of its node.
    pub slot: u32,
    /// Generation of the slot.
    pub generation: u32,
}

impl Address {
    /// The node itself: requests that the runtime answers, such as a spawn.
    pub const NODE: Self = Self { slot: 0, generation: 0 };

    /// Returns the pid of this process on the node with this index.
    pub const fn on(self, node: u32) -> Pid {
        Pid::from_parts(node, self.slot, self.generation)
    }
}

impl From<Pid> for Address {
    fn from(pid: Pid) -> Self {
        Self { slot: pid.slot(), generation: pid.generation() }
    }
}

/// Kind of a [`Frame`]. The number of a kind never changes its meaning. Kinds below 128 count against the credit of the
/// receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A message of bytes; the payload is the message.
    Bytes = 1,
    /// A message of bytes with a tag.
    Tagged = 2,
    /// A message of an exported type.
    Value = 3,
    /// A request of a call.
    Request = 4,
    /// First frame of a connection: the types that the node exports.
    Hello = 128,
    /// The reply to a request.
    Reply = 129,
    /// A request was dropped without a reply.
    NoReply = 130,
    /// An exit signal that a process sent.
    Exit = 131,
    /// A process links itself to another.
    Link = 132,
    /// A process removes a link.
    Unlink = 133,
    /// A linked process has ended.
    LinkExit = 134,
    /// A process monitors another.
    Monitor = 135,
    /// A process ends a monitor.
    Demonitor = 136,
    /// A monitored process has ended.
    Down = 137,
    /// A process has joined a group.
    Join = 138,
    /// A process has left a group.
    Leave = 139,
    /// A process asks a node for something, for example for a spawn.
    Ask = 140,
    /// The answer of a node.
    Answer = 141,
    /// A message from the node that receives this was dropped: its bytes were not valid for its type.
    Undecodable = 142,
}

impl Kind {
    const ALL: [Self; 19] = [
        Self::Bytes,
        Self::Tagged,
        Self::Value,
        Self::Request,
        Self::Hello,
        Self::Reply,
        Self::NoReply,
        Self::Exit,
        Self::Link,
        Self::Unlink,
        Self::LinkExit,
        Self::Monitor,
        Self::Demonitor,
        Self::Down,
        Self::Join,
        Self::Leave,
        Self::Ask,
        Self::Answer,
        Self::Undecodable,
    ];

    /// Returns the kind with this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }

    /// Returns the number of the kind.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns true if frames of this kind count against the credit of their receiver: they enter its mailbox like
    /// messages of local senders. Other frames are always accepted.
    pub const fn needs_credit(self) -> bool {
        self.byte() < 128
    }
}

/// A message or a signal between processes of two nodes, or a message between their runtimes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Kind of the frame.
    pub kind: Kind,
    /// Sending process, on the node that sends the frame.
    pub from: Address,
    /// Receiving process, on the node that receives the frame.
    pub to: Address,
    /// Content, which only runtimes read.
    pub payload: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_kind_reads_back_as_the_kind() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_byte(kind.byte()), Some(kind));
        }
        assert_eq!((Kind::from_byte(0), Kind::from_byte(5), Kind::from_byte(255)), (None, None, None));
    }
}
