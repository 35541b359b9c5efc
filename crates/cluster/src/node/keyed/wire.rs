//! Questions to hosts of keyed processes, and their answers.
//!
//! ```text
//!   question: type u8, key                answer: type u8, and for a live process: slot u32, generation u32, node
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// A question to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question<'a> {
    /// Where is the process of the key? Start it if it is not live.
    Find(&'a str),
    /// Is the process of the key live here?
    Has(&'a str),
}

/// The answer of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The process is live on this node.
    Live {
        /// Node.
        node: String,
        /// Slot of its pid.
        slot: u32,
        /// Generation of its pid.
        generation: u32,
    },
    /// It is not live here.
    No,
    /// It is about to end, or not yet resolved: ask again.
    Wait,
    /// This host is about to start it.
    Starting,
    /// It cannot be started.
    Refused,
}

impl<'a> Question<'a> {
    pub(super) fn encode(self) -> Bytes {
        let (kind, key) = match self {
            Self::Find(key) => (1, key),
            Self::Has(key) => (2, key),
        };
        let mut out = BytesMut::with_capacity(1 + key.len());
        out.put_u8(kind);
        out.put_slice(key.as_bytes());
        out.freeze()
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, key) = bytes.split_first()?;
        let key = std::str::from_utf8(key).ok().filter(|key| key.len() <= super::kind::KEY_BYTES_MAX)?;
        match kind {
            1 => Some(Self::Find(key)),
            2 => Some(Self::Has(key)),
            _ => None,
        }
    }
}

impl Answer {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(32);
        match self {
            Self::Live { node, slot, generation } => {
                out.put_u8(1);
                out.put_u32_le(*slot);
                out.put_u32_le(*generation);
                out.put_slice(node.as_bytes());
            }
            Self::No => out.put_u8(2),
            Self::Wait => out.put_u8(3),
            Self::Starting => out.put_u8(4),
            Self::Refused => out.put_u8(5),
        }
        out.freeze()
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        match bytes.try_get_u8().ok()? {
            1 => {
                let (slot, generation) = (bytes.try_get_u32_le().ok()?, bytes.try_get_u32_le().ok()?);
                Some(Self::Live { node: std::str::from_utf8(bytes).ok()?.to_owned(), slot, generation })
            }
            2 => Some(Self::No),
            3 => Some(Self::Wait),
            4 => Some(Self::Starting),
            5 => Some(Self::Refused),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_read_back() {
        for question in [Question::Find("cart 7"), Question::Has("")] {
            assert_eq!(Question::decode(&question.encode()), Some(question));
        }
        let live = Answer::Live { node: "north".to_owned(), slot: 7, generation: 9 };
        for answer in [live, Answer::No, Answer::Wait, Answer::Starting, Answer::Refused] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        assert_eq!((Question::decode(b""), Question::decode(b"\x09x"), Answer::decode(b"\x01\0")), (None, None, None));
    }
}
