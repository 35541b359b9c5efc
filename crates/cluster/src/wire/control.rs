//! The small packets of a session that is up: ACK, PING, PONG.

use bytes::{BufMut, Bytes, BytesMut};

use super::cursor::{Cursor, WireError};
use super::packet_type;

/// All frames before a number have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Tag of the session.
    pub tag: u64,
    /// Number of the first frame that has not arrived.
    pub frames: u64,
}

/// Asks for a PONG and an ACK. Since version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Tag of the session.
    pub tag: u64,
    /// Time of the sender, in nanoseconds since its start.
    pub sent_ns: u64,
}

/// The answer to a PING. Since version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// Tag of the session.
    pub tag: u64,
    /// `sent_ns` of the PING.
    pub sent_ns: u64,
    /// Time of day at the sender of the PONG, in nanoseconds since 1970; 0 if it does not say.
    pub wall_ns: u64,
}

impl Ack {
    /// Returns the bytes of the packet.
    pub fn encode(self) -> Bytes {
        words(packet_type::ACK, &[self.tag, self.frames])
    }

    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, WireError> {
        Ok(Self { tag: cursor.u64("the tag")?, frames: cursor.u64("the number of frames")? })
    }
}

impl Ping {
    /// Returns the bytes of the packet.
    pub fn encode(self) -> Bytes {
        words(packet_type::PING, &[self.tag, self.sent_ns])
    }

    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, WireError> {
        Ok(Self { tag: cursor.u64("the tag")?, sent_ns: cursor.u64("the time of a ping")? })
    }
}

impl Pong {
    /// Returns the bytes of the packet.
    pub fn encode(self) -> Bytes {
        words(packet_type::PONG, &[self.tag, self.sent_ns, self.wall_ns])
    }

    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, WireError> {
        let tag = cursor.u64("the tag")?;
        Ok(Self { tag, sent_ns: cursor.u64("the time of a ping")?, wall_ns: cursor.u64("the time of a pong")? })
    }
}

fn words(packet_type: u8, words: &[u64]) -> Bytes {
    let mut out = BytesMut::with_capacity(1 + 8 * words.len());
    out.put_u8(packet_type);
    for word in words {
        out.put_u64_le(*word);
    }
    out.freeze()
}
