//! Storage format of messages and of the progress of subscriptions.
//!
//! ```text
//!   h           ▸ version, next position, oldest row, whether there was ever a subscription, number of commits
//!   m position  ▸ version, key, attributes, payload
//!   s name      ▸ version, start, floor, dead letters, finished ranges, attempts
//! ```
//!
//! Numbers are little-endian base 128 (LEB128); positions in keys are 8 bytes, big-endian.

use std::sync::Arc;

use bytes::Bytes;

use super::progress::Progress;
use rusm_runtime::topic::Message;

/// Format version of every value.
const VERSION: u8 = 1;
/// Maximum number of messages that a topic may hold.
const HELD_MAX: u64 = 1 << 24;
/// Maximum overhead of a record beside its payload.
pub(super) const RECORD_BYTES_MAX: usize = 160 * 1024;

pub(super) const HEADER_KEY: &[u8] = b"h";
pub(super) const MESSAGES: &[u8] = b"m";
pub(super) const SUBSCRIPTIONS: &[u8] = b"s";

pub(super) fn message_key(position: u64) -> Vec<u8> {
    [MESSAGES, &position.to_be_bytes()].concat()
}

/// Returns the position encoded in a message's key.
pub(super) fn position(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.strip_prefix(MESSAGES)?.try_into().ok()?))
}

pub(super) fn subscription_key(name: &str) -> Vec<u8> {
    [SUBSCRIPTIONS, name.as_bytes()].concat()
}

/// Header of a durable topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TopicHeader {
    /// Position of the next message.
    pub(super) next: u64,
    /// Lower bound of the position of the oldest row.
    pub(super) oldest: u64,
    /// True once there has been a subscription.
    pub(super) had_subscriber: bool,
    /// Number of commits, to detect a commit that was undone; 0 in topics written before this field existed.
    pub(super) commits: u64,
}

impl TopicHeader {
    pub(super) fn encode(self) -> Bytes {
        let mut out = vec![VERSION];
        put(&mut out, self.next);
        put(&mut out, self.oldest);
        put(&mut out, u64::from(self.had_subscriber));
        put(&mut out, self.commits);
        out.into()
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut from = Decoder::begin(value)?;
        let (next, oldest, had_subscriber) = (from.number()?, from.number()?, from.number()? != 0);
        Some(Self { next, oldest, had_subscriber, commits: from.number().unwrap_or(0) })
    }
}

pub(super) fn encode_message(message: &Message) -> Bytes {
    let mut out = Vec::with_capacity(message.bytes() + 16);
    out.push(VERSION);
    // Length plus one; 0 stands for a message without a key.
    put(&mut out, message.key().map_or(0, |key| key.len() as u64 + 1));
    out.extend_from_slice(message.key().unwrap_or_default().as_bytes());
    put(&mut out, message.attributes().len() as u64);
    for text in message.attributes().iter().flat_map(|(name, value)| [name, value]) {
        put(&mut out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(message.payload());
    out.into()
}

pub(super) fn decode_message(value: &Bytes) -> Option<Message> {
    let mut from = Decoder::begin(value)?;
    let key_bytes = from.number()?;
    let key = if key_bytes > 0 { Some(Arc::<str>::from(from.text(key_bytes - 1)?)) } else { None };
    let attributes = from.number()?;
    let mut rare = Vec::new();
    for _ in 0..attributes {
        let mut text = || {
            let bytes = from.number()?;
            from.text(bytes).map(str::to_owned)
        };
        rare.push((text()?, text()?));
    }
    let mut message = Message::new(value.slice_ref(from.rest));
    if let Some(key) = key {
        message = message.with_key(key);
    }
    Some(rare.into_iter().fold(message, |message, (name, value)| message.with_attribute(name, value)))
}

pub(super) fn encode_progress(progress: &Progress) -> Bytes {
    let mut out = vec![VERSION];
    for number in [progress.start, progress.floor, progress.dead_lettered] {
        put(&mut out, number);
    }
    let ranges = ranges(progress.done.iter().copied());
    put(&mut out, ranges.len() as u64);
    let mut last = progress.floor;
    for (from, to) in ranges {
        put(&mut out, from - last);
        put(&mut out, to - from);
        last = to;
    }
    put(&mut out, progress.attempts.len() as u64);
    let mut last = progress.floor;
    for (position, attempts) in &progress.attempts {
        put(&mut out, position - last);
        put(&mut out, (*attempts).into());
        last = *position;
    }
    out.into()
}

pub(super) fn decode_progress(value: &[u8]) -> Option<Progress> {
    let mut from = Decoder::begin(value)?;
    let (start, floor, dead_lettered) = (from.number()?, from.number()?, from.number()?);
    let mut progress = Progress { start, floor, dead_lettered, ..Progress::default() };
    // Validate before expanding the ranges: a few bytes can claim millions of positions.
    let (mut ranges, mut done, mut last) = (Vec::new(), 0_u64, floor);
    for _ in 0..from.number()? {
        let first = last.checked_add(from.number()?)?;
        last = first.checked_add(from.number()?)?;
        done = done.checked_add(last - first).filter(|done| *done <= HELD_MAX)?;
        ranges.push(first..last);
    }
    let mut last = floor;
    for _ in 0..from.number()? {
        last = last.checked_add(from.number()?)?;
        progress.attempts.insert(last, u32::try_from(from.number()?).ok()?);
    }
    let is_whole = from.rest.is_empty() && start <= floor && dead_lettered <= (floor - start).saturating_add(done);
    if !is_whole {
        return None;
    }
    progress.done = ranges.into_iter().flatten().collect();
    Some(progress)
}

/// Merges consecutive positions into half-open ranges.
fn ranges(positions: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for position in positions {
        match ranges.last_mut() {
            Some((_, to)) if *to == position => *to += 1,
            _ => ranges.push((position, position + 1)),
        }
    }
    ranges
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn begin(value: &'a [u8]) -> Option<Self> {
        Some(Self { rest: value.strip_prefix(&[VERSION])? })
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self, bytes: u64) -> Option<&'a str> {
        let (text, rest) = self.rest.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.rest = rest;
        std::str::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_written(
            payload in prop::collection::vec(any::<u8>(), 0..300),
            key in prop::option::of(".{0,20}"),
            attributes in prop::collection::vec((".{1,9}", ".{0,200}"), 0..5),
        ) {
            let mut message = Message::new(payload);
            if let Some(key) = key {
                message = message.with_key(key);
            }
            let message = attributes.into_iter().fold(message, |message, (name, value)| message.with_attribute(name, value));

            prop_assert_eq!(decode_message(&encode_message(&message)), Some(message));
        }

        #[test]
        fn progress_is_read_as_it_was_written_and_nonsense_is_none(
            start in 0..1_u64 << 60,
            passed in 0..1000_u64,
            done in prop::collection::btree_set(1..100_u64, 0..40),
            attempts in prop::collection::btree_map(0..100_u64, any::<u32>(), 0..40),
            cut in 0..50_usize,
        ) {
            let floor = start + passed;
            let progress = Progress {
                start,
                floor,
                dead_lettered: passed / 2,
                done: done.into_iter().map(|offset| floor + offset).collect(),
                attempts: attempts.into_iter().map(|(offset, attempts)| (floor + offset, attempts)).collect(),
            };
            let written = encode_progress(&progress);

            prop_assert_eq!(decode_progress(&written), Some(progress));
            let cut = cut.min(written.len() - 1);
            prop_assert_eq!(decode_progress(&written[..cut]), None);
        }

        #[test]
        fn bytes_of_chance_are_never_more_than_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let value = Bytes::from([&[VERSION], &bytes[..]].concat());

            drop((decode_message(&value), decode_progress(&value), TopicHeader::decode(&value)));
        }
    }
}
