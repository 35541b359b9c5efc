//! Compression of a text against an earlier text of the same kind.
//!
//! ```text
//!   reference ++ text:   [ literals ][ copy of what stands at some place ]  [ literals ][ copy ] ...
//! ```
//!
//! Two messages of the same type have the same keys and mostly the same values in the same places. So a copy usually
//! continues where the previous one ended, and its place costs one byte: places are stored relative to that point.

use thiserror::Error;

/// Copies of fewer bytes cost as much as literals.
const COPY_MIN: usize = 6;
/// Number of bits of a hash, for the longest texts.
const HASH_BITS_MAX: u32 = 13;
/// Number of bits of a hash, for short texts.
const HASH_BITS_MIN: u32 = 7;
/// Longest text, so that a damaged length cannot exhaust the memory.
const TEXT_MAX: usize = 16 << 20;

/// Error returned for bytes that [`Reference::pack`] did not make with this reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not compressed against this text")]
pub(super) struct DeltaError;

/// A text against which others are compressed.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    text: Vec<u8>,
    /// For each hash, one more than the last place with it; 0 for none. As many as the text needs, because most texts
    /// are short and every use reads the whole table.
    places: Vec<u32>,
}

impl Reference {
    /// Creates an empty reference to compress a text of this length.
    pub(super) fn empty(len: usize) -> Self {
        let bits = len.max(1).ilog2().clamp(HASH_BITS_MIN, HASH_BITS_MAX);
        Self { text: Vec::new(), places: vec![0; 1 << bits] }
    }

    pub(super) fn new(text: &[u8]) -> Self {
        let Self { mut places, .. } = Self::empty(text.len());
        let bits = places.len().ilog2();
        for at in 0..text.len().saturating_sub(3) {
            places[hash(text, at, bits)] = at as u32 + 1;
        }
        Self { text: text.to_vec(), places }
    }

    /// Returns the memory that the reference takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.places.len() * size_of::<u32>()
    }

    /// Compresses a text. `scratch` is memory that is used again.
    pub(super) fn pack(&self, text: &[u8], scratch: &mut Vec<u8>) -> Vec<u8> {
        scratch.clear();
        scratch.extend_from_slice(&self.text);
        scratch.extend_from_slice(text);
        let (all, base) = (&scratch[..], self.text.len());
        let mut places = self.places.clone();
        let bits = places.len().ilog2();
        let mut out = Vec::with_capacity(text.len() / 4 + 16);
        put(&mut out, text.len() as u64);
        // The next copy is expected to start at `expected`, for a text that differs in single values only.
        let (mut at, mut literal_from, mut copied_to, mut copied_at) = (base, base, 0_usize, base);
        while at + COPY_MIN <= all.len() {
            let expected = copied_to + (at - copied_at);
            let hash = hash(all, at, bits);
            let found = std::mem::replace(&mut places[hash], at as u32 + 1);
            let expected_len = if expected < base { match_len(all, expected, at) } else { 0 };
            let (place, len) = match found.checked_sub(1) {
                Some(place) if expected_len < COPY_MIN => (place as usize, match_len(all, place as usize, at)),
                _ => (expected, expected_len),
            };
            if len < COPY_MIN {
                at += 1;
                continue;
            }
            put(&mut out, (at - literal_from) as u64);
            out.extend_from_slice(&all[literal_from..at]);
            put(&mut out, len as u64);
            put(&mut out, zigzag((place.cast_signed() - expected.cast_signed()) as i64));
            at += len;
            (literal_from, copied_to, copied_at) = (at, place + len, at);
        }
        put(&mut out, (all.len() - literal_from) as u64);
        out.extend_from_slice(&all[literal_from..]);
        out.shrink_to_fit();
        out
    }
}

/// Restores a text.
///
/// # Errors
/// [`DeltaError`] if `packed` was not made with this reference.
pub(super) fn unpack(reference: &[u8], packed: &[u8]) -> Result<Vec<u8>, DeltaError> {
    let mut rest = packed;
    let len = take(&mut rest)? as usize;
    if len > TEXT_MAX {
        return Err(DeltaError);
    }
    let base = reference.len();
    let mut all = Vec::with_capacity(base + len);
    all.extend_from_slice(reference);
    let (mut copied_to, mut copied_at) = (0_usize, base);
    loop {
        let literals = take(&mut rest)? as usize;
        all.extend_from_slice(rest.get(..literals).ok_or(DeltaError)?);
        rest = &rest[literals..];
        if all.len() >= base + len {
            break;
        }
        let count = take(&mut rest)? as usize;
        let expected = copied_to + (all.len() - copied_at);
        let place = expected.checked_add_signed(unzigzag(take(&mut rest)?) as isize).ok_or(DeltaError)?;
        if place >= all.len() || count > base + len - all.len() {
            return Err(DeltaError);
        }
        // Byte by byte: a copy may overlap its own start.
        for at in place..place + count {
            all.push(all[at]);
        }
        (copied_to, copied_at) = (place + count, all.len());
    }
    if all.len() == base + len && rest.is_empty() { Ok(all.split_off(base)) } else { Err(DeltaError) }
}

fn hash(text: &[u8], at: usize, bits: u32) -> usize {
    let word = u32::from_le_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
    (word.wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
}

/// Returns the number of equal bytes from two places on.
fn match_len(all: &[u8], place: usize, at: usize) -> usize {
    all[at..].iter().zip(&all[place..]).take_while(|(a, b)| a == b).count()
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(rest: &mut &[u8]) -> Result<u64, DeltaError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(DeltaError)?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(DeltaError)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(reference: &str, text: &str) -> Vec<u8> {
        Reference::new(reference.as_bytes()).pack(text.as_bytes(), &mut Vec::new())
    }

    #[test]
    fn a_message_with_a_few_new_numbers_takes_a_fraction() {
        let message = |shift: u64| {
            let row = |n: u64| format!(r#"["<0.{n}.1>","worker","waiting",{},{},0,4096,null]"#, n * 7 + shift, n * 991);
            format!("[{}]", (0..100).map(row).collect::<Vec<_>>().join(","))
        };

        let packed = packed(&message(0), &message(3));

        assert!(packed.len() * 4 < message(3).len(), "{} of {}", packed.len(), message(3).len());
    }

    #[test]
    fn a_text_that_repeats_itself_is_short_without_a_reference() {
        let text = "abcdefgh".repeat(1000);

        let packed = packed("", &text);

        assert!(packed.len() < 40, "{}", packed.len());
        assert_eq!(unpack(b"", &packed), Ok(text.into_bytes()));
    }

    proptest! {
        #[test]
        fn every_text_comes_back(reference in "[abc]{0,200}|.{0,40}", text in "[abc]{0,200}|.{0,40}") {
            let packed = packed(&reference, &text);

            prop_assert_eq!(unpack(reference.as_bytes(), &packed), Ok(text.into_bytes()));
        }

        #[test]
        fn damaged_bytes_never_panic(reference in ".{0,40}", packed in proptest::collection::vec(any::<u8>(), 0..60)) {
            drop(unpack(reference.as_bytes(), &packed));
        }
    }
}
