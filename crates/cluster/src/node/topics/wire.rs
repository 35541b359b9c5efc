//! Batches of messages of a topic, as they go from node to node.
//!
//! ```text
//!   version u8, node (u8, text), missed u64, then messages to the end:
//!   key (u16, text), number of attributes u8, each name and value (u16, text), payload (u32, bytes)
//! ```

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use rusm_runtime::topic::Message;

use crate::wire::WireError;
use crate::wire::cursor::Cursor;

/// Attribute of a message that was published on another node: the name of that node.
pub const ORIGIN: &str = "rusm-node";

const VERSION: u8 = 1;

/// Messages to be sent.
pub(super) struct Batch {
    out: BytesMut,
    /// Position of the number of missed messages.
    missed_at: usize,
    count: u64,
}

impl Batch {
    pub(super) fn new(node: &str) -> Self {
        let mut out = BytesMut::with_capacity(1024);
        out.put_u8(VERSION);
        out.put_u8(node.len() as u8);
        out.put_slice(node.as_bytes());
        let missed_at = out.len();
        out.put_u64_le(0);
        Self { out, missed_at, count: 0 }
    }

    pub(super) fn push(&mut self, message: &Message) {
        self.count += 1;
        let mut text = |text: &str| {
            // The limits of a topic are far below.
            self.out.put_u16_le(text.len() as u16);
            self.out.put_slice(text.as_bytes());
        };
        // An empty key stands for none.
        text(message.key().unwrap_or(""));
        self.out.put_u8(message.attributes().len() as u8);
        for (name, value) in message.attributes() {
            for part in [name, value] {
                self.out.put_u16_le(part.len() as u16);
                self.out.put_slice(part.as_bytes());
            }
        }
        self.out.put_u32_le(message.payload().len() as u32);
        self.out.put_slice(message.payload());
    }

    pub(super) fn bytes(&self) -> usize {
        self.out.len()
    }

    pub(super) const fn len(&self) -> u64 {
        self.count
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes. `missed` is the number of messages that were dropped before these.
    pub(super) fn encode(mut self, missed: u64) -> Bytes {
        self.out[self.missed_at..self.missed_at + 8].copy_from_slice(&missed.to_le_bytes());
        self.out.freeze()
    }
}

/// Reads a batch: the node that has sent it, the number of missed messages, and the messages, whose payloads are not copied.
pub(super) fn decode(bytes: Bytes) -> Option<(Arc<str>, u64, Vec<Message>)> {
    let mut cursor = Cursor::new(bytes);
    let mut read = || -> Result<_, WireError> {
        if cursor.u8("the version of a batch")? != VERSION {
            return Err(WireError::Invalid("the version of a batch"));
        }
        let length = usize::from(cursor.u8("the length of a node")?);
        let node = text(&cursor.take(length, "a node")?)?;
        let missed = cursor.u64("the missed messages")?;
        let mut messages = Vec::new();
        while !cursor.is_empty() {
            messages.push(message(&mut cursor)?);
        }
        Ok((node.into(), missed, messages))
    };
    read().ok()
}

fn message(cursor: &mut Cursor) -> Result<Message, WireError> {
    let short = |cursor: &mut Cursor| {
        let length = usize::from(cursor.u16("the length of a text")?);
        text(&cursor.take(length, "a text")?)
    };
    let key = short(cursor)?;
    let mut attributes = Vec::new();
    for _ in 0..cursor.u8("the number of attributes")? {
        attributes.push((short(cursor)?, short(cursor)?));
    }
    let length = cursor.u32("the length of a payload")? as usize;
    let message = Message::new(cursor.take(length, "a payload")?);
    let message = if key.is_empty() { message } else { message.with_key(key) };
    Ok(attributes.into_iter().fold(message, |message, (name, value)| message.with_attribute(name, value)))
}

fn text(bytes: &[u8]) -> Result<String, WireError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_not_utf8| WireError::Invalid("a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> [Message; 2] {
        let full = Message::new("tea").with_key("k").with_attribute("a", "1").with_attribute("b", "");
        [full, Message::new("")]
    }

    fn batch() -> Bytes {
        let mut batch = Batch::new("north");
        for message in &messages() {
            batch.push(message);
        }
        assert_eq!(batch.len(), 2);
        batch.encode(7)
    }

    #[test]
    fn a_batch_reads_back_and_its_bytes_never_change() {
        let hex: String = batch().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));

        let full = "01006b02010061010031010062000003000000746561";
        assert_eq!(hex, format!("01056e6f7274680700000000000000{full}00000000000000"));
        let (node, missed, read) = decode(batch()).unwrap();
        assert_eq!((&*node, missed, read.as_slice()), ("north", 7, &messages()[..]));
    }

    #[test]
    fn mutated_batches_are_read_without_a_panic() {
        rusm_fuzz::Fuzz::new("cluster-topic").seed(batch()).run(|input| drop(decode(Bytes::copy_from_slice(input))));
    }
}
