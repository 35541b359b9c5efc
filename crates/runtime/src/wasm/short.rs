//! Messages from guest to guest that are a few bytes long: they travel in the message itself, without `Bytes` around them.
//!
//! Only guests read this form, so a sender looks first whether its receiver is one. Most of what processes tell each other
//! is shorter than this.

use std::ops::Deref;

use bytes::Bytes;

use crate::INLINE_MESSAGE_BYTES;

const WORDS: usize = INLINE_MESSAGE_BYTES / 8 - 1;
/// Bytes beside a tag and a length.
const SHORT_BYTES: usize = WORDS * 8 - 1;

/// A message of a few bytes, with its tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortBytes {
    pub(crate) tag: u64,
    /// The bytes; the last of all says how many there are.
    words: [[u8; 8]; WORDS],
}

// Larger ones would have to be boxed, which is what this spares.
const _: () = assert!(size_of::<ShortBytes>() <= INLINE_MESSAGE_BYTES);

impl ShortBytes {
    /// The bytes in this form, if they are few enough.
    ///
    /// They are taken in by words, which stay in registers until they are written to where the message lies: single bytes
    /// that are written and then read as words stall the processor.
    #[inline]
    pub(crate) fn new(tag: u64, body: &[u8]) -> Option<Self> {
        if body.len() > SHORT_BYTES {
            return None;
        }
        let mut words = [0, 8, 16, 24].map(|from| word(body.get(from..).unwrap_or_default()));
        words[WORDS - 1] |= (body.len() as u64) << 56;
        Some(Self { tag, words: words.map(u64::to_le_bytes) })
    }
}

/// The first eight bytes, or those that there are, as a number.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

impl Deref for ShortBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let [.., len] = self.words[WORDS - 1];
        self.words.as_flattened().get(..len.into()).unwrap_or_default()
    }
}

/// Bytes that a guest was given, in the form in which they came.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Short(ShortBytes),
    Long(Bytes),
}

impl Default for Given {
    fn default() -> Self {
        Self::Long(Bytes::new())
    }
}

impl<B: Into<Bytes>> From<B> for Given {
    fn from(bytes: B) -> Self {
        Self::Long(bytes.into())
    }
}

impl Deref for Given {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(short) => short,
            Self::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_comes_out_as_it_went_in_and_the_rest_does_not_go_in() {
        let bytes: Vec<u8> = (1..=SHORT_BYTES as u8 + 1).collect();
        for len in 0..=SHORT_BYTES {
            let short = ShortBytes::new(7, &bytes[..len]).expect("it fits");
            assert_eq!((short.tag, &*short), (7, &bytes[..len]));
            assert_eq!(*Given::Short(short), bytes[..len]);
        }
        assert!(ShortBytes::new(7, &bytes).is_none());
        assert!(ShortBytes::new(7, &[0; 256]).is_none());
        assert_eq!(*Given::from(bytes.clone()), bytes);
        assert!(Given::default().is_empty());
    }
}
