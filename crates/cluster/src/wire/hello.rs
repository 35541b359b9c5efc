//! The handshake: identity, versions and window of a node.

use bytes::{BufMut, Bytes, BytesMut};

use super::cursor::{Cursor, WireError};
use super::limits::{TARGET_MESSAGES, WINDOW_BYTES, WINDOW_FRAMES};
use super::packet_type;
use super::version::{Features, Version};
use crate::identity::{BootId, Epoch, NODE_NAME_BYTES_MAX, NodeName};

/// First bytes of a HELLO after its type.
const MAGIC: &[u8] = b"rusm";

/// First packet of a node: its identity and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest and newest version that the sender speaks.
    pub versions: (Version, Version),
    /// Abilities of the sender.
    pub features: Features,
    /// Boot id of the sender.
    pub boot: BootId,
    /// Number of the session that the sender proposes.
    pub epoch: Epoch,
    /// Maximum number of frames that the receiver of this HELLO may have in flight.
    pub window_frames: u32,
    /// Maximum number of bytes that the receiver of this HELLO may have in flight.
    pub window_bytes: u32,
    /// Maximum number of messages for one process that may wait until it takes them.
    pub target_messages: u32,
    /// Name of the sender.
    pub from: NodeName,
    /// Name of the node that this HELLO is for.
    pub to: NodeName,
    /// Maximum length of the messages that all processes of the sender together may have waiting, in bytes. `None` from
    /// nodes that are older than this field.
    pub held_bytes: Option<u64>,
}

/// The answer to a HELLO: a HELLO of its own, and the proof that the other one arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloAck {
    /// HELLO of the answering node.
    pub hello: Hello,
    /// Boot id in the HELLO that is answered.
    pub echo_boot: BootId,
    /// Epoch in the HELLO that is answered.
    pub echo_epoch: Epoch,
}

impl Hello {
    /// Returns the bytes of the packet.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(160);
        out.put_u8(packet_type::HELLO);
        self.put(&mut out);
        out.freeze()
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_slice(MAGIC);
        out.put_u16_le(self.versions.0.0);
        out.put_u16_le(self.versions.1.0);
        out.put_u64_le(self.features.0);
        out.put_u128_le(self.boot.0);
        out.put_u64_le(self.epoch.0);
        out.put_u32_le(self.window_frames);
        out.put_u32_le(self.window_bytes);
        out.put_u32_le(self.target_messages);
        for name in [&self.from, &self.to] {
            out.put_u8(name.as_str().len() as u8);
            out.put_slice(name.as_str().as_bytes());
        }
        if let Some(held_bytes) = self.held_bytes {
            out.put_u64_le(held_bytes);
        }
    }

    /// Reads a HELLO. Bytes after its last field belong to fields of newer versions, and are left.
    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, WireError> {
        if cursor.take(MAGIC.len(), "the magic")? != MAGIC {
            return Err(WireError::Invalid("the magic"));
        }
        let hello = Self {
            versions: (Version(cursor.u16("the oldest version")?), Version(cursor.u16("the newest version")?)),
            features: Features(cursor.u64("the features")?),
            boot: BootId(cursor.u128("the boot id")?),
            epoch: Epoch(cursor.u64("the epoch")?),
            window_frames: cursor.u32("the window in frames")?,
            window_bytes: cursor.u32("the window in bytes")?,
            target_messages: cursor.u32("the credit of a target")?,
            from: name(cursor, "the sender's name")?,
            to: name(cursor, "the receiver's name")?,
            held_bytes: if cursor.is_empty() { None } else { Some(cursor.u64("the credit of all targets")?) },
        };
        let is_within = |value: u32, (min, max): (u32, u32)| (min..=max).contains(&value);
        if hello.versions.0 > hello.versions.1 {
            return Err(WireError::Invalid("the range of versions"));
        }
        if !is_within(hello.window_frames, WINDOW_FRAMES) || !is_within(hello.window_bytes, WINDOW_BYTES) {
            return Err(WireError::Invalid("the window"));
        }
        if !is_within(hello.target_messages, TARGET_MESSAGES) {
            return Err(WireError::Invalid("the credit of a target"));
        }
        if hello.held_bytes == Some(0) {
            return Err(WireError::Invalid("the credit of all targets"));
        }
        if hello.epoch.0 == 0 || hello.epoch.0 == u64::MAX {
            return Err(WireError::Invalid("the epoch"));
        }
        Ok(hello)
    }
}

impl HelloAck {
    /// Returns the bytes of the packet.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(192);
        out.put_u8(packet_type::HELLO_ACK);
        out.put_u128_le(self.echo_boot.0);
        out.put_u64_le(self.echo_epoch.0);
        self.hello.put(&mut out);
        out.freeze()
    }

    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, WireError> {
        let echo_boot = BootId(cursor.u128("the echoed boot id")?);
        let echo_epoch = Epoch(cursor.u64("the echoed epoch")?);
        Ok(Self { hello: Hello::read(cursor)?, echo_boot, echo_epoch })
    }
}

fn name(cursor: &mut Cursor, field: &'static str) -> Result<NodeName, WireError> {
    let length = usize::from(cursor.u8(field)?);
    if length > NODE_NAME_BYTES_MAX {
        return Err(WireError::TooLarge { field, value: length, limit: NODE_NAME_BYTES_MAX });
    }
    let bytes = cursor.take(length, field)?;
    let text = std::str::from_utf8(&bytes).ok();
    text.and_then(|text| NodeName::new(text).ok()).ok_or(WireError::Invalid(field))
}
