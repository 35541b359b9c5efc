//! Questions to hosts of keyed processes, and their answers.
//!
//! ```text
//!   find:   type u8 = 1, view u64, key                  answer: type u8, and for a live process:
//!   has:    type u8 = 2, view u64, length of the node u8, node, key     version u64, slot u32, generation u32, node
//!   adopt:  type u8 = 3, offers                        answer: type u8, and a byte for each offer: 1 if it may be forgotten
//!   view:   digest of the known hosts: equal on nodes that know the same ones
//!   offer:  version u64, length of the key u16, key, length of the state u32, state
//! ```
//!
//! Nodes of the version before speak it too, so the fields of a type never change. A new question gets a new type; a host that
//! does not know it refuses.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::kind::{KEY_BYTES_MAX, STATE_BYTES_MAX};

/// A question to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question<'a> {
    /// Where is the process of the key? Start it if it is not live.
    Find {
        /// Digest of the hosts that the asking node knows.
        view: u64,
        /// The key.
        key: &'a str,
    },
    /// Is the process of the key live here, or its state kept? The asking node is about to start it.
    Has {
        /// Digest of the hosts that the asking node knows.
        view: u64,
        /// The asking node.
        node: &'a str,
        /// The key.
        key: &'a str,
    },
    /// Keep the state of keys that belong here from now on.
    Adopt(Vec<Offer<'a>>),
}

/// A key and its state, offered to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer<'a> {
    pub(super) key: &'a str,
    pub(super) version: u64,
    pub(super) state: &'a [u8],
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
        /// Version of the state that it was started with.
        version: u64,
    },
    /// It is not live here, and its state is not kept here.
    No,
    /// It cannot be decided now, for example because the process is about to end or the nodes know different hosts: ask
    /// again.
    Wait,
    /// It cannot be started.
    Refused,
    /// For each offer: this host has it, so the asking one may forget it.
    Adopted(Vec<bool>),
}

impl<'a> Question<'a> {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        match self {
            Self::Find { view, key } => {
                out.put_u8(1);
                out.put_u64_le(*view);
                out.put_slice(key.as_bytes());
            }
            Self::Has { view, node, key } => {
                out.put_u8(2);
                out.put_u64_le(*view);
                out.put_u8(node.len() as u8);
                out.put_slice(node.as_bytes());
                out.put_slice(key.as_bytes());
            }
            Self::Adopt(offers) => {
                out.put_u8(3);
                for Offer { key, version, state } in offers {
                    out.put_u64_le(*version);
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
        let (kind, mut rest) = bytes.split_first()?;
        match kind {
            1 => Some(Self::Find { view: rest.try_get_u64_le().ok()?, key: key(rest)? }),
            2 => {
                let view = rest.try_get_u64_le().ok()?;
                let (len, rest) = rest.split_first()?;
                let (node, rest) = rest.split_at_checked((*len).into())?;
                Some(Self::Has { view, node: std::str::from_utf8(node).ok()?, key: key(rest)? })
            }
            3 => offers(rest).map(Self::Adopt),
            _ => None,
        }
    }
}

fn key(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|key| key.len() <= KEY_BYTES_MAX)
}

fn offers(mut bytes: &[u8]) -> Option<Vec<Offer<'_>>> {
    fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = bytes.split_at_checked(len)?;
        *bytes = rest;
        Some(taken)
    }
    let mut offers = Vec::new();
    while !bytes.is_empty() {
        let version = bytes.try_get_u64_le().ok()?;
        let len = bytes.try_get_u16_le().ok()?.into();
        let key = key(take(&mut bytes, len)?)?;
        let len = usize::try_from(bytes.try_get_u32_le().ok()?).ok().filter(|len| *len <= STATE_BYTES_MAX)?;
        offers.push(Offer { key, version, state: take(&mut bytes, len)? });
    }
    Some(offers)
}

impl Answer {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(32);
        match self {
            Self::Live { node, slot, generation, version } => {
                out.put_u8(1);
                out.put_u64_le(*version);
                out.put_u32_le(*slot);
                out.put_u32_le(*generation);
                out.put_slice(node.as_bytes());
            }
            Self::No => out.put_u8(2),
            Self::Wait => out.put_u8(3),
            Self::Refused => out.put_u8(4),
            Self::Adopted(offers) => {
                out.put_u8(5);
                out.extend(offers.iter().map(|is_adopted| u8::from(*is_adopted)));
            }
        }
        out.freeze()
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        match bytes.try_get_u8().ok()? {
            1 => {
                let version = bytes.try_get_u64_le().ok()?;
                let (slot, generation) = (bytes.try_get_u32_le().ok()?, bytes.try_get_u32_le().ok()?);
                Some(Self::Live { node: std::str::from_utf8(bytes).ok()?.to_owned(), slot, generation, version })
            }
            2 => Some(Self::No),
            3 => Some(Self::Wait),
            4 => Some(Self::Refused),
            5 => Some(Self::Adopted(bytes.iter().map(|byte| *byte == 1).collect())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    #[test]
    fn the_bytes_of_questions_and_answers_never_change() {
        let offer = Offer { key: "k", version: 3, state: b"s" };
        let live = Answer::Live { node: "n".to_owned(), slot: 7, generation: 9, version: 4 };
        let questions = [
            (Question::Find { view: 5, key: "k" }, "0105000000000000006b"),
            (Question::Has { view: 5, node: "n", key: "k" }, "020500000000000000016e6b"),
            (Question::Adopt(vec![offer]), "03030000000000000001006b0100000073"),
        ];
        let answers = [
            (live, "01040000000000000007000000090000006e"),
            (Answer::No, "02"),
            (Answer::Wait, "03"),
            (Answer::Refused, "04"),
            (Answer::Adopted(vec![true, false]), "050100"),
        ];
        for (question, bytes) in questions {
            assert_eq!(hex(&question.encode()), bytes, "{question:?}");
        }
        for (answer, bytes) in answers {
            assert_eq!(hex(&answer.encode()), bytes, "{answer:?}");
        }
    }

    #[test]
    fn questions_and_answers_read_back() {
        let offer = |key, version, state| Offer { key, version, state };
        let adopt = Question::Adopt(vec![offer("cart 7", 3, b"state"), offer("", u64::MAX, b"")]);
        let has = |node, key| Question::Has { view: 5, node, key };
        let find = Question::Find { view: 5, key: "cart 7" };
        for question in [find, has("north", "cart 7"), has("", ""), adopt, Question::Adopt(Vec::new())] {
            assert_eq!(Question::decode(&question.encode()), Some(question));
        }
        // A length that is longer than the rest.
        assert_eq!(Question::decode(b"\x03\0\0\0\0\0\0\0\0\x01\0k\xff\0\0\0s"), None);
        assert_eq!(Question::decode(b"\x02\0\0\0\0\0\0\0\0\x09north"), None);
        let live = Answer::Live { node: "north".to_owned(), slot: 7, generation: 9, version: 4 };
        for answer in [live, Answer::No, Answer::Wait, Answer::Refused, Answer::Adopted(vec![true, false])] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        assert_eq!((Question::decode(b""), Question::decode(b"\x09x"), Answer::decode(b"\x01\0")), (None, None, None));
    }
}
