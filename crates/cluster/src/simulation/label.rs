//! Labels of messages, from which the receiver reads where they belong.

use bytes::{BufMut, Bytes, BytesMut};

use crate::identity::{BootId, Epoch};

/// Length of a label, in bytes.
pub(super) const LABEL_BYTES: usize = 48;

/// The content of a message: in which session, and as which message of its pair of processes, it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// Life of the sender.
    pub(super) from: BootId,
    /// Session at the sender.
    pub(super) epoch: Epoch,
    /// Life of the receiver, as the sender knows it.
    pub(super) to: BootId,
    /// Number of the message within its session and its pair of processes, counted from 0.
    pub(super) number: u32,
    /// Length of the message, in bytes.
    pub(super) length: u32,
}

impl Label {
    /// Returns a message of the length of the label.
    pub(super) fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.length as usize);
        out.put_u128_le(self.from.0);
        out.put_u64_le(self.epoch.0);
        out.put_u128_le(self.to.0);
        out.put_u32_le(self.number);
        out.put_u32_le(self.length);
        out.put_bytes(self.number as u8, self.length as usize - LABEL_BYTES);
        out.freeze()
    }

    /// Reads a message. `None` if it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (from, rest) = bytes.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (length, filling) = rest.split_first_chunk()?;
        let label = Self {
            from: BootId(u128::from_le_bytes(*from)),
            epoch: Epoch(u64::from_le_bytes(*epoch)),
            to: BootId(u128::from_le_bytes(*to)),
            number: u32::from_le_bytes(*number),
            length: u32::from_le_bytes(*length),
        };
        let is_whole = bytes.len() == label.length as usize && filling.iter().all(|byte| *byte == label.number as u8);
        is_whole.then_some(label)
    }
}
