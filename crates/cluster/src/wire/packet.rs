//! A packet of any type.

use bytes::Bytes;

use super::control::{Ack, Ping, Pong};
use super::cursor::{Cursor, WireError};
use super::hello::{Hello, HelloAck};
use super::limits::PACKET_BYTES_MAX;
use super::packet_type::{ACK, HELLO, HELLO_ACK, PING, PONG, STREAM};
use super::stream::Stream;

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A node introduces itself.
    Hello(Hello),
    /// It does so, and answers the other's HELLO.
    HelloAck(HelloAck),
    /// Frames have arrived.
    Ack(Ack),
    /// Asks for an answer.
    Ping(Ping),
    /// The answer.
    Pong(Pong),
    /// Frames, not yet decoded.
    Stream(Stream),
    /// A type of a newer version: to be ignored.
    Unknown(u8),
}

impl Packet {
    /// Returns true for the bytes of a HELLO.
    pub(crate) fn is_hello(packet: &[u8]) -> bool {
        packet.first() == Some(&HELLO)
    }

    /// Reads a packet, except for the frames of a stream packet. Bytes after the last field are left: a newer version
    /// may have added fields.
    ///
    /// # Errors
    /// [`WireError`] if the bytes are not a packet.
    pub fn decode(bytes: Bytes) -> Result<Self, WireError> {
        if bytes.len() > PACKET_BYTES_MAX {
            return Err(WireError::TooLarge { field: "the length", value: bytes.len(), limit: PACKET_BYTES_MAX });
        }
        let mut cursor = Cursor::new(bytes);
        match cursor.u8("the type")? {
            HELLO => Hello::read(&mut cursor).map(Self::Hello),
            HELLO_ACK => HelloAck::read(&mut cursor).map(Self::HelloAck),
            ACK => Ack::read(&mut cursor).map(Self::Ack),
            PING => Ping::read(&mut cursor).map(Self::Ping),
            PONG => Pong::read(&mut cursor).map(Self::Pong),
            STREAM => Stream::read(cursor).map(Self::Stream),
            other => Ok(Self::Unknown(other)),
        }
    }
}
