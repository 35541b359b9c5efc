//! Messages between registries.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::event::NAME_BYTES_MAX;
use super::grants::Refusal;
use crate::identity::Address;
use crate::wire::WireError;
use crate::wire::cursor::Cursor;

/// Maximum of an epoch: room for those that follow it.
const EPOCH_MAX: u64 = 1 << 62;

/// A message about one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameMessage {
    pub(super) name: Arc<str>,
    /// Fencing epoch of the claim that the message is about.
    pub(super) epoch: u64,
    pub(super) content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The sender asks for the name.
    Claim,
    /// The sender grants it to the receiver.
    Granted,
    /// The sender does not.
    Refused(Refusal),
    /// The sender gives its claim up.
    Release,
    /// A process of the sender owns the name.
    Owned(Address),
    /// It no longer does, or may not act as the owner.
    Unowned,
}

impl NameMessage {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(32 + self.name.len());
        let (content_type, value) = match self.content {
            Content::Claim => (1, 0),
            Content::Granted => (2, 0),
            Content::Refused(Refusal::Taken) => (3, 0),
            Content::Refused(Refusal::Old { last }) => (4, last),
            Content::Refused(Refusal::NotYet) => (5, 0),
            Content::Release => (6, 0),
            Content::Owned(process) => (7, process.0),
            Content::Unowned => (8, 0),
        };
        out.put_u8(content_type);
        out.put_u64_le(self.epoch);
        out.put_u64_le(value);
        out.put_u8(self.name.len() as u8);
        out.put_slice(self.name.as_bytes());
        out.freeze()
    }

    pub(super) fn decode(bytes: Bytes) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(bytes);
        let content_type = cursor.u8("the type of a message about a name")?;
        let (epoch, value) = (cursor.u64("the epoch of a name")?, cursor.u64("the value of a name")?);
        if epoch > EPOCH_MAX || content_type == 4 && value > EPOCH_MAX {
            return Err(WireError::Invalid("the epoch of a name"));
        }
        let length = usize::from(cursor.u8("the length of a name")?);
        let name = cursor.take(length, "a name")?;
        let name = std::str::from_utf8(&name).ok().filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()));
        let content = match content_type {
            1 => Content::Claim,
            2 => Content::Granted,
            3 => Content::Refused(Refusal::Taken),
            4 => Content::Refused(Refusal::Old { last: value }),
            5 => Content::Refused(Refusal::NotYet),
            6 => Content::Release,
            7 => Content::Owned(Address(value)),
            8 => Content::Unowned,
            _ => return Err(WireError::Invalid("the type of a message about a name")),
        };
        Ok(Self { name: name.ok_or(WireError::Invalid("a name"))?.into(), epoch, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<NameMessage> {
        let contents = [
            Content::Claim,
            Content::Granted,
            Content::Refused(Refusal::Taken),
            Content::Refused(Refusal::Old { last: 9 }),
            Content::Refused(Refusal::NotYet),
            Content::Release,
            Content::Owned(Address::new(2, 1)),
            Content::Unowned,
        ];
        contents.map(|content| NameMessage { name: "leader".into(), epoch: 7, content }).into()
    }

    #[test]
    fn the_bytes_of_messages_about_names_never_change() {
        let types = ["01", "02", "03", "04", "05", "06", "07", "08"];
        let values = ["00", "00", "00", "09", "00", "00", "0100000002", "00"];
        for ((message, content_type), value) in messages().iter().zip(types).zip(values) {
            let hex: String = message.encode().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
            assert_eq!(hex, format!("{content_type}0700000000000000{value:0<16}066c6561646572"));
            assert_eq!(NameMessage::decode(message.encode()).as_ref(), Ok(message));
        }
    }

    #[test]
    fn mutated_messages_about_names_are_read_without_a_panic() {
        let fuzz =
            messages().iter().fold(rusm_fuzz::Fuzz::new("cluster-names"), |fuzz, message| fuzz.seed(message.encode()));
        fuzz.run(|input| drop(NameMessage::decode(Bytes::copy_from_slice(input))));
    }

    #[test]
    fn an_epoch_that_leaves_no_room_for_another_is_not_read() {
        let message = NameMessage { name: "leader".into(), epoch: u64::MAX, content: Content::Claim };

        assert_eq!(NameMessage::decode(message.encode()), Err(WireError::Invalid("the epoch of a name")));
    }
}
