//! Short messages between guests: they travel inline in the message, without an allocation.
//!
//! Only guests can read this form, so a sender first checks that the receiver is one. Most messages between processes
//! are short enough.

use std::ops::Deref;

use bytes::Bytes;

use rusm_runtime::INLINE_MESSAGE_BYTES;

const WORDS: usize = INLINE_MESSAGE_BYTES / 8 - 1;
/// Maximum number of bytes beside the tag and the length.
const INLINE_BYTES_MAX: usize = WORDS * 8 - 1;

/// A short message with its tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InlineBytes {
    pub(crate) tag: u64,
    /// The bytes; the last byte holds their number.
    words: [[u8; 8]; WORDS],
}

// A larger value would be boxed, which this form is meant to avoid.
const _: () = assert!(size_of::<InlineBytes>() <= INLINE_MESSAGE_BYTES);

impl InlineBytes {
    /// Converts bytes to this form if they are short enough.
    ///
    /// Loads whole words, which stay in registers until they are written to the message: writing single bytes and then
    /// reading them as words stalls the processor.
    #[inline]
    pub(crate) fn new(tag: u64, body: &[u8]) -> Option<Self> {
        if body.len() > INLINE_BYTES_MAX {
            return None;
        }
        let mut words = [0, 8, 16, 24].map(|from| word(body.get(from..).unwrap_or_default()));
        words[WORDS - 1] |= (body.len() as u64) << 56;
        Some(Self { tag, words: words.map(u64::to_le_bytes) })
    }
}

/// Returns the first eight bytes as a number; missing ones are zero.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

impl Deref for InlineBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let [.., len] = self.words[WORDS - 1];
        self.words.as_flattened().get(..len.into()).unwrap_or_default()
    }
}

/// Bytes received by a guest, in the form in which they arrived.
#[derive(Clone, Debug)]
pub(crate) enum ReceivedBytes {
    Inline(InlineBytes),
    Heap(Bytes),
}

impl Default for ReceivedBytes {
    fn default() -> Self {
        Self::Heap(Bytes::new())
    }
}

impl<B: Into<Bytes>> From<B> for ReceivedBytes {
    fn from(bytes: B) -> Self {
        Self::Heap(bytes.into())
    }
}

impl Deref for ReceivedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(short) => short,
            Self::Heap(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_comes_out_as_it_went_in_and_the_rest_does_not_go_in() {
        let bytes: Vec<u8> = (1..=INLINE_BYTES_MAX as u8 + 1).collect();
        for len in 0..=INLINE_BYTES_MAX {
            let short = InlineBytes::new(7, &bytes[..len]).expect("it fits");
            assert_eq!((short.tag, &*short), (7, &bytes[..len]));
            assert_eq!(*ReceivedBytes::Inline(short), bytes[..len]);
        }
        assert!(InlineBytes::new(7, &bytes).is_none());
        assert!(InlineBytes::new(7, &[0; 256]).is_none());
        assert_eq!(*ReceivedBytes::from(bytes.clone()), bytes);
        assert!(ReceivedBytes::default().is_empty());
    }
}
