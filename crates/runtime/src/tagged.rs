//! Bytes with a number that their receiver selects them by.

use bytes::Bytes;

/// Bytes with a tag: a message that its receiver can select without looking into it.
///
/// A tag of 0 says nothing; such bytes travel as plain [`Bytes`] where it makes no difference.
///
/// ```
/// use bytes::Bytes;
/// use rusm_runtime::{Message, TaggedBytes};
///
/// let message = Message::new(TaggedBytes { tag: 7, body: Bytes::from_static(b"seven") });
/// assert_eq!(message.downcast_ref::<TaggedBytes>().map(|tagged| tagged.tag), Some(7));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedBytes {
    /// What the message is about, in words that sender and receiver agree on.
    pub tag: u64,
    /// The message.
    pub body: Bytes,
}
