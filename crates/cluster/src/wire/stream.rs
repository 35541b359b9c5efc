//! The frames of a stream packet.

use bytes::{BufMut, Bytes, BytesMut};

use super::cursor::{Cursor, WireError};
use super::kind::Kind;
use super::limits::{CHUNK_BYTES_MAX, CREDIT_ENTRIES_MAX, MESSAGE_BYTES_MAX};
use super::packet_type;
use crate::identity::Address;

const DATA: u8 = 0;
const FIRST: u8 = 1;
const NEXT: u8 = 2;
const CREDIT: u8 = 3;
const BYE: u8 = 4;

/// Consecutive frames of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Tag of the session.
    pub tag: u64,
    /// Number of the first frame, counted from 0 in each session.
    pub first: u64,
    /// The frames.
    pub frames: Frames,
}

/// The undecoded frames of a packet: an iterator over them, which ends after the first error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames(Bytes);

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message.
    Data {
        /// Kind of the message.
        kind: Kind,
        /// Sending process.
        from: Address,
        /// Receiving process.
        to: Address,
        /// Content.
        payload: Bytes,
    },
    /// The first chunk of a long message.
    First {
        /// Kind of the message.
        kind: Kind,
        /// Sending process.
        from: Address,
        /// Receiving process.
        to: Address,
        /// Length of the message, in bytes.
        total: u32,
        /// The first bytes.
        chunk: Bytes,
    },
    /// The next chunk of the long message between two processes.
    Next {
        /// Sending process.
        from: Address,
        /// Receiving process.
        to: Address,
        /// The next bytes.
        chunk: Bytes,
    },
    /// Messages that processes of the sender of this frame have taken.
    Credit(Vec<Credit>),
    /// The sender leaves: nothing follows.
    Bye,
}

/// Credit that a process gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The process.
    pub to: Address,
    /// Number of messages taken since the last credit.
    pub messages: u32,
    /// Their length, in bytes.
    pub bytes: u64,
}

impl Stream {
    /// Writes what precedes the frames.
    pub fn put_header(out: &mut BytesMut, tag: u64, first: u64) {
        out.put_u8(packet_type::STREAM);
        out.put_u64_le(tag);
        out.put_u64_le(first);
    }

    pub(super) fn read(mut cursor: Cursor) -> Result<Self, WireError> {
        let (tag, first) = (cursor.u64("the tag")?, cursor.u64("the number of the first frame")?);
        Ok(Self { tag, first, frames: Frames(cursor.into_rest()) })
    }
}

impl Iterator for Frames {
    type Item = Result<Frame, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut cursor = Cursor::new(std::mem::take(&mut self.0));
        if cursor.is_empty() {
            return None;
        }
        let frame = Frame::read(&mut cursor);
        if frame.is_ok() {
            self.0 = cursor.into_rest();
        }
        Some(frame)
    }
}

impl Frame {
    /// Writes the frame.
    pub fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Data { kind, from, to, payload } => {
                put_head(out, DATA, 17 + payload.len());
                out.put_u8(kind.0);
                put_pair(out, *from, *to);
                out.put_slice(payload);
            }
            Self::First { kind, from, to, total, chunk } => {
                put_head(out, FIRST, 21 + chunk.len());
                out.put_u8(kind.0);
                put_pair(out, *from, *to);
                out.put_u32_le(*total);
                out.put_slice(chunk);
            }
            Self::Next { from, to, chunk } => {
                put_head(out, NEXT, 16 + chunk.len());
                put_pair(out, *from, *to);
                out.put_slice(chunk);
            }
            Self::Credit(entries) => {
                put_head(out, CREDIT, entries.len() * 20);
                for entry in entries {
                    out.put_u64_le(entry.to.0);
                    out.put_u32_le(entry.messages);
                    out.put_u64_le(entry.bytes);
                }
            }
            Self::Bye => put_head(out, BYE, 0),
        }
    }

    fn read(cursor: &mut Cursor) -> Result<Self, WireError> {
        let frame_type = cursor.u8("the type of a frame")?;
        let length = cursor.u32("the length of a frame")? as usize;
        let mut body = Cursor::new(cursor.take(length, "a frame")?);
        let body = &mut body;
        Ok(match frame_type {
            DATA => {
                let (kind, from, to) = (kind(body)?, address(body, "the sender")?, address(body, "the receiver")?);
                Self::Data { kind, from, to, payload: chunk(body)? }
            }
            FIRST => {
                let (kind, from, to) = (kind(body)?, address(body, "the sender")?, address(body, "the receiver")?);
                let total = body.u32("the length of a message")?;
                if total as usize > MESSAGE_BYTES_MAX {
                    let field = "the length of a message";
                    return Err(WireError::TooLarge { field, value: total as usize, limit: MESSAGE_BYTES_MAX });
                }
                Self::First { kind, from, to, total, chunk: chunk(body)? }
            }
            NEXT => {
                let (from, to) = (address(body, "the sender")?, address(body, "the receiver")?);
                Self::Next { from, to, chunk: chunk(body)? }
            }
            CREDIT => Self::Credit(credit(body)?),
            BYE => Self::Bye,
            _ => return Err(WireError::Invalid("the type of a frame")),
        })
    }
}

fn put_head(out: &mut BytesMut, frame_type: u8, length: usize) {
    out.put_u8(frame_type);
    out.put_u32_le(length as u32);
}

fn put_pair(out: &mut BytesMut, from: Address, to: Address) {
    out.put_u64_le(from.0);
    out.put_u64_le(to.0);
}

fn kind(body: &mut Cursor) -> Result<Kind, WireError> {
    match body.u8("the kind of a message")? {
        0 => Err(WireError::Invalid("the kind of a message")),
        kind => Ok(Kind(kind)),
    }
}

fn address(body: &mut Cursor, field: &'static str) -> Result<Address, WireError> {
    body.u64(field).map(Address)
}

fn chunk(body: &mut Cursor) -> Result<Bytes, WireError> {
    let chunk = std::mem::replace(body, Cursor::new(Bytes::new())).into_rest();
    if chunk.len() > CHUNK_BYTES_MAX {
        return Err(WireError::TooLarge { field: "a chunk", value: chunk.len(), limit: CHUNK_BYTES_MAX });
    }
    Ok(chunk)
}

fn credit(body: &mut Cursor) -> Result<Vec<Credit>, WireError> {
    let mut entries = Vec::new();
    while !body.is_empty() {
        if entries.len() == CREDIT_ENTRIES_MAX {
            return Err(WireError::TooLarge { field: "credit", value: entries.len() + 1, limit: CREDIT_ENTRIES_MAX });
        }
        let to = address(body, "the target of credit")?;
        entries.push(Credit { to, messages: body.u32("a number of messages")?, bytes: body.u64("their length")? });
    }
    Ok(entries)
}
