//! Questions to hosts of keyed processes, and their answers.
//!
//! ```text
//!   question: type u8, key                answer: type u8, and for a live process: slot u32, generation u32, node
//!   question: type u8, entries            answer: type u8, and a byte for each entry: 1 if the asking host may forget it
//!   entry:    length of the key u16, key, length of the state u32, state
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::kind::{KEY_BYTES_MAX, STATE_BYTES_MAX};

/// A question to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question<'a> {
    /// Where is the process of the key? Start it if it is not live.
    Find(&'a str),
    /// Is the process of the key live here?
    Has(&'a str),
    /// Keep the state of keys that belong here from now on.
    Adopt(Vec<(&'a str, &'a [u8])>),
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
    /// For each entry: this host has it, so the asking one may forget it.
    Adopted(Vec<bool>),
}

impl<'a> Question<'a> {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        match self {
            Self::Find(key) => {
                out.put_u8(1);
                out.put_slice(key.as_bytes());
            }
            Self::Has(key) => {
                out.put_u8(2);
                out.put_slice(key.as_bytes());
            }
            Self::Adopt(entries) => {
                out.put_u8(3);
                for (key, state) in entries {
                    out.put_u16_le(key.len() as u16);
                    out.put_slice(key.as_bytes());
                    out.put_u32_le(state.len() as u32);
                    out.put_slice(state);
                }
            }
        }
        out.freeze()
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match kind {
            1 => Some(Self::Find(key(rest)?)),
            2 => Some(Self::Has(key(rest)?)),
            3 => entries(rest).map(Self::Adopt),
            _ => None,
        }
    }
}

fn key(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|key| key.len() <= KEY_BYTES_MAX)
}

fn entries(mut bytes: &[u8]) -> Option<Vec<(&str, &[u8])>> {
    fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = bytes.split_at_checked(len)?;
        *bytes = rest;
        Some(taken)
    }
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let len = bytes.try_get_u16_le().ok()?.into();
        let key = key(take(&mut bytes, len)?)?;
        let len = usize::try_from(bytes.try_get_u32_le().ok()?).ok().filter(|len| *len <= STATE_BYTES_MAX)?;
        entries.push((key, take(&mut bytes, len)?));
    }
    Some(entries)
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
            Self::Adopted(entries) => {
                out.put_u8(6);
                out.extend(entries.iter().map(|is_adopted| u8::from(*is_adopted)));
            }
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
            6 => Some(Self::Adopted(bytes.iter().map(|byte| *byte == 1).collect())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_read_back() {
        let adopt = Question::Adopt(vec![("cart 7", b"state"), ("", b"")]);
        for question in [Question::Find("cart 7"), Question::Has(""), adopt, Question::Adopt(Vec::new())] {
            assert_eq!(Question::decode(&question.encode()), Some(question));
        }
        // A length that is longer than the rest.
        assert_eq!(Question::decode(b"\x03\x01\0k\xff\0\0\0s"), None);
        let live = Answer::Live { node: "north".to_owned(), slot: 7, generation: 9 };
        for answer in
            [live, Answer::No, Answer::Wait, Answer::Starting, Answer::Refused, Answer::Adopted(vec![true, false])]
        {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        assert_eq!((Question::decode(b""), Question::decode(b"\x09x"), Answer::decode(b"\x01\0")), (None, None, None));
    }
}
