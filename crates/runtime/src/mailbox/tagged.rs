//! Bytes with a tag by which their receiver selects them; and the same bytes counted against the quota of the guest
//! that sent them.

use std::sync::Arc;

use bytes::Bytes;

/// Bytes with a tag: a message that its receiver can select without reading its content.
///
/// A tag of 0 means no tag. A guest sends bytes without a tag to a native process as plain [`Bytes`].
///
/// ```
/// # use rusm_runtime as rusm;
/// use bytes::Bytes;
/// use rusm::{Message, TaggedBytes};
///
/// let message = Message::new(TaggedBytes { tag: 7, body: Bytes::from_static(b"seven") });
/// assert_eq!(message.downcast_ref::<TaggedBytes>().map(|tagged| tagged.tag), Some(7));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedBytes {
    /// Kind of the message, as agreed by sender and receiver.
    pub tag: u64,
    /// Content of the message.
    pub body: Bytes,
}

/// A quota that counts the bytes of messages until they are received or dropped.
pub trait Charge: Send + Sync {
    /// Releases the bytes of a message that was received or dropped.
    fn release(&self, bytes: u64);
}

/// Bytes with a tag that count against a quota of their sender until they are received or dropped.
#[expect(missing_debug_implementations, reason = "never printed")]
pub struct ChargedBytes {
    /// The tag; 0 for none.
    pub tag: u64,
    body: Box<[u8]>,
    quota: Arc<dyn Charge>,
}

impl ChargedBytes {
    /// Creates a message from bytes that `quota` has already counted.
    pub fn new(tag: u64, body: Box<[u8]>, quota: Arc<dyn Charge>) -> Self {
        Self { tag, body, quota }
    }

    /// Returns the bytes, and releases them from the quota.
    pub fn into_body(mut self) -> Vec<u8> {
        let body = std::mem::take(&mut self.body);
        self.quota.release(body.len() as u64);
        body.into_vec()
    }
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for ChargedBytes {
    fn drop(&mut self) {
        if !self.body.is_empty() {
            self.quota.release(self.body.len() as u64);
        }
    }
}
