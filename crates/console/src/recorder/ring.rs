//! Recorded instants in bounded memory: compressed in groups, and the oldest group goes first.
//!
//! ```text
//!   group: [ instant: each message as a whole ][ instant: differences to the first ] ...      up to `GROUP` instants
//! ```
//!
//! Every instant needs only its own bytes and the first message of its kind in the group, so a seek restores one
//! instant and no others.

use std::collections::VecDeque;

use super::delta::{Reference, unpack};

/// Instants of a group. More compress better; fewer make the steps smaller in which memory is freed.
const GROUP: usize = 32;

/// A kind of message; equal kinds compress well.
pub(super) type Kind = u8;

/// One message of an instant.
#[derive(Clone, Debug)]
struct Part {
    kind: Kind,
    packed: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct Instant {
    at_ms: u64,
    parts: Box<[Part]>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    instants: Vec<Instant>,
    bytes: usize,
}

/// The instants of some time, oldest first.
#[derive(Debug)]
pub(super) struct Ring {
    groups: VecDeque<Group>,
    /// Bytes of all groups.
    bytes: usize,
    /// First messages of the newest group.
    references: Vec<(Kind, Reference)>,
    scratch: Vec<u8>,
    span_ms: u64,
    bytes_max: usize,
}

impl Ring {
    /// Creates a ring of instants up to `span_ms` old, in at most `bytes_max` bytes.
    pub(super) const fn new(span_ms: u64, bytes_max: usize) -> Self {
        Self { groups: VecDeque::new(), bytes: 0, references: Vec::new(), scratch: Vec::new(), span_ms, bytes_max }
    }

    /// Returns the memory that the ring takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let references: usize = self.references.iter().map(|(_, reference)| reference.bytes()).sum();
        self.bytes + references + self.scratch.capacity() + self.groups.capacity() * size_of::<Group>()
    }

    /// Adds an instant, which must not be older than the newest one. Drops the oldest instants if they are too old or
    /// the memory is used up; returns false if there is no memory for this one.
    pub(super) fn push(&mut self, at_ms: u64, messages: &[(Kind, &str)]) -> bool {
        if self.groups.back().is_none_or(|group| group.instants.len() >= GROUP) {
            self.groups.push_back(Group::default());
            self.references.clear();
        }
        let parts: Vec<Part> = messages.iter().map(|&(kind, text)| self.part(kind, text)).collect();
        let instant = Instant { at_ms, parts: parts.into_boxed_slice() };
        let bytes = instant_bytes(&instant);
        if let Some(group) = self.groups.back_mut() {
            group.instants.push(instant);
            group.bytes += bytes;
            self.bytes += bytes;
        }
        self.evict(at_ms);
        !self.groups.is_empty()
    }

    fn part(&mut self, kind: Kind, text: &str) -> Part {
        let known = self.references.iter().find(|(other, _)| *other == kind);
        let packed = if let Some((_, reference)) = known {
            reference.pack(text.as_bytes(), &mut self.scratch)
        } else {
            let packed = Reference::empty(text.len()).pack(text.as_bytes(), &mut self.scratch);
            self.references.push((kind, Reference::new(text.as_bytes())));
            packed
        };
        Part { kind, packed: packed.into_boxed_slice() }
    }

    fn evict(&mut self, now_ms: u64) {
        while let Some(group) = self.groups.front() {
            let is_old = group.instants.last().is_none_or(|last| last.at_ms + self.span_ms < now_ms);
            if !is_old && self.bytes() <= self.bytes_max {
                return;
            }
            self.bytes -= group.bytes;
            self.groups.pop_front();
            if self.groups.is_empty() {
                // Not even the newest group fits.
                self.references.clear();
                self.scratch = Vec::new();
                self.groups = VecDeque::new();
            }
        }
    }

    /// Returns the times of the oldest and of the newest instant.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let first = self.groups.front()?.instants.first()?.at_ms;
        let last = self.groups.back()?.instants.last()?.at_ms;
        Some((first, last))
    }

    /// Returns the newest instant at or before a time, else the oldest one: its time, and its messages by kind.
    pub(super) fn seek(&self, at_ms: u64) -> Option<(u64, Vec<(Kind, String)>)> {
        let starts_later = |group: &Group| group.instants.first().is_none_or(|first| first.at_ms > at_ms);
        let group = self.groups.partition_point(|group| !starts_later(group)).saturating_sub(1);
        let group = self.groups.get(group)?;
        let at = group.instants.partition_point(|instant| instant.at_ms <= at_ms).saturating_sub(1);
        let instant = group.instants.get(at)?;
        let messages = instant.parts.iter().filter_map(|part| Some((part.kind, group.text(part, at)?)));
        Some((instant.at_ms, messages.collect()))
    }
}

impl Group {
    /// Restores a message of the instant with this index.
    fn text(&self, part: &Part, index: usize) -> Option<String> {
        let part_of = |instant: &Instant| instant.parts.iter().position(|other| other.kind == part.kind);
        let (first, place) =
            self.instants.iter().enumerate().find_map(|(at, instant)| Some((at, part_of(instant)?)))?;
        let whole = unpack(b"", &self.instants[first].parts[place].packed).ok()?;
        let text = if first == index { whole } else { unpack(&whole, &part.packed).ok()? };
        String::from_utf8(text).ok()
    }
}

fn instant_bytes(instant: &Instant) -> usize {
    let parts: usize = instant.parts.iter().map(|part| size_of::<Part>() + part.packed.len()).sum();
    // A vector of instants may have room for twice as many.
    2 * size_of::<Instant>() + parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn instant() -> impl Strategy<Value = (u64, Vec<(Kind, String)>)> {
        let messages = proptest::collection::btree_map(0..4_u8, "[ab,]{0,300}|.{0,30}", 0..4);
        (0..400_u64, messages.prop_map(|messages| messages.into_iter().collect()))
    }

    fn pushed(ring: &mut Ring, instants: &[(u64, Vec<(Kind, String)>)], mut each: impl FnMut(&Ring)) -> Vec<u64> {
        let mut at_ms = 0;
        let mut times = Vec::new();
        for (after_ms, messages) in instants {
            at_ms += after_ms + 1;
            let texts: Vec<(Kind, &str)> = messages.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
            ring.push(at_ms, &texts);
            times.push(at_ms);
            each(ring);
        }
        times
    }

    proptest! {
        // Each instant compresses several texts, which takes long without optimisation.
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn memory_never_exceeds_its_limit(
            instants in proptest::collection::vec(instant(), 0..120), limit in 0..300_000_usize, span in 0..30_000_u64,
        ) {
            let mut ring = Ring::new(span, limit);
            let mut worst = 0;

            pushed(&mut ring, &instants, |ring| worst = worst.max(ring.bytes()));

            prop_assert!(worst <= limit, "{} over {}", worst, limit);
        }

        #[test]
        fn a_seek_returns_the_newest_instant_not_after_it_exactly_as_it_was(
            instants in proptest::collection::vec(instant(), 1..120), at in 0..30_000_u64,
        ) {
            let mut ring = Ring::new(10_000, 1 << 30);
            let times = pushed(&mut ring, &instants, |_| {});
            let (oldest, newest) = ring.span().unwrap();

            let (found, messages) = ring.seek(at).unwrap();

            let due = times.iter().copied().filter(|time| *time >= oldest && *time <= at).max().unwrap_or(oldest);
            prop_assert_eq!((found, newest), (due, *times.last().unwrap()));
            let index = times.iter().position(|time| *time == due).unwrap();
            prop_assert_eq!(&messages, &instants[index].1);
        }

        #[test]
        fn the_oldest_goes_first_and_nothing_within_the_span_is_lost(
            instants in proptest::collection::vec(instant(), 1..200), span in 0..20_000_u64,
        ) {
            let mut ring = Ring::new(span, 1 << 30);
            let times = pushed(&mut ring, &instants, |_| {});
            let (oldest, newest) = ring.span().unwrap();

            let kept = times.iter().filter(|time| **time >= oldest).count();
            let total: usize = ring.groups.iter().map(|group| group.instants.len()).sum();
            prop_assert_eq!(kept, total, "a gap in the middle");
            prop_assert!(times.iter().filter(|time| **time + span >= newest).all(|time| *time >= oldest));
        }
    }
}
