//! Messages and their size limits.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

/// Maximum length of a payload, in bytes.
pub const PAYLOAD_MAX_BYTES: usize = 10_000_000;
/// Maximum length of an ordering key, in bytes.
pub const ORDERING_KEY_MAX_BYTES: usize = 1024;
/// Maximum number of attributes of a message.
pub const ATTRIBUTES_MAX: usize = 100;
/// Maximum length of an attribute name, in bytes.
pub const ATTRIBUTE_NAME_MAX_BYTES: usize = 256;
/// Maximum length of an attribute value, in bytes.
pub const ATTRIBUTE_VALUE_MAX_BYTES: usize = 1024;

/// Error returned for a message that the topic cannot accept, no matter how much room it has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The payload is too long. Store it elsewhere and send a reference, or split it.
    #[error("payload of {bytes} bytes is longer than {max} bytes")]
    Payload {
        /// Length of the payload in bytes.
        bytes: usize,
        /// Longest payload that the topic accepts, in bytes.
        max: usize,
    },
    /// The message as a whole is too large. Shorten the payload or drop attributes.
    #[error("message of {bytes} bytes, key and attributes included, is larger than its topic, which holds {max} bytes")]
    Whole {
        /// Size of the message in bytes.
        bytes: usize,
        /// Capacity of the topic in bytes.
        max: usize,
    },
    /// The ordering key is too long.
    #[error("ordering key of {bytes} bytes is longer than {ORDERING_KEY_MAX_BYTES} bytes")]
    OrderingKey {
        /// Length of the key in bytes.
        bytes: usize,
    },
    /// There are too many attributes.
    #[error("{count} attributes are more than {ATTRIBUTES_MAX}")]
    Attributes {
        /// Number of attributes.
        count: usize,
    },
    /// The attribute name is empty or too long.
    #[error("attribute name of {bytes} bytes is not between 1 and {ATTRIBUTE_NAME_MAX_BYTES} bytes")]
    AttributeName {
        /// Length of the name in bytes.
        bytes: usize,
    },
    /// The attribute value is too long. Put it into the payload.
    #[error("attribute value of {bytes} bytes is longer than {ATTRIBUTE_VALUE_MAX_BYTES} bytes")]
    AttributeValue {
        /// Length of the value in bytes.
        bytes: usize,
    },
}

/// A message: a payload of shared bytes that are never copied, an optional ordering key, and attributes.
///
/// Cheap to clone.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::topic::Message;
///
/// let order = Message::new("tea").with_key("customer 7").with_attribute("priority", "high");
/// assert_eq!((order.key(), order.attribute("priority")), (Some("customer 7"), Some("high")));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    payload: Bytes,
    key: Option<Arc<str>>,
    /// Behind a pointer, because few messages have attributes.
    attributes: Option<Arc<Attributes>>,
}

type Attributes = Vec<(String, String)>;

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("payload_bytes", &self.payload.len())
            .field("key", &self.key())
            .field("attributes", &self.attributes())
            .finish_non_exhaustive()
    }
}

impl Message {
    /// Creates a message with this payload.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { payload: payload.into(), key: None, attributes: None }
    }

    /// Adds an ordering key. Ordered subscriptions deliver the messages of a key one batch after the other. Publishers
    /// of many messages with one key should pass clones of one `Arc`, which avoids an allocation per message.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        Arc::make_mut(self.attributes.get_or_insert_default()).push((name.into(), value.into()));
        self
    }

    /// Returns the payload.
    #[inline]
    pub const fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Consumes the message and returns its payload.
    pub fn into_payload(self) -> Bytes {
        self.payload
    }

    /// Returns the ordering key.
    #[inline]
    pub fn key(&self) -> Option<&str> {
        self.shared_key().map(|key| &**key)
    }

    #[inline]
    pub(super) fn shared_key(&self) -> Option<&Arc<str>> {
        self.key.as_ref()
    }

    /// Returns the attributes in the order in which they were added.
    pub fn attributes(&self) -> &[(String, String)] {
        self.attributes.as_ref().map_or(&[], |attributes| attributes)
    }

    /// Returns the value of an attribute. If several have that name, the last one counts.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes().iter().rev().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    /// Returns the size that counts against the bounds of a topic: payload, key and attributes.
    #[inline]
    pub fn bytes(&self) -> usize {
        let attributes = self.attributes.as_ref().map_or(0, |attributes| bytes_of(attributes));
        self.payload.len() + self.key.as_ref().map_or(0, |key| key.len()) + attributes
    }

    /// Checks the message against a topic that holds `bytes_max` bytes and accepts payloads of up to `payload_max`
    /// bytes.
    pub(super) fn check(&self, payload_max: usize, bytes_max: usize) -> Result<(), MessageError> {
        if self.payload.len() > payload_max {
            return Err(MessageError::Payload { bytes: self.payload.len(), max: payload_max });
        }
        if self.key.is_none() && self.attributes.is_none() {
            return Ok(());
        }
        if let Some(key) = self.key.as_ref().filter(|key| key.len() > ORDERING_KEY_MAX_BYTES) {
            return Err(MessageError::OrderingKey { bytes: key.len() });
        }
        check_attributes(self.attributes())?;
        let bytes = self.bytes();
        if bytes > bytes_max { Err(MessageError::Whole { bytes, max: bytes_max }) } else { Ok(()) }
    }
}

impl From<Bytes> for Message {
    fn from(payload: Bytes) -> Self {
        Self::new(payload)
    }
}

fn bytes_of(attributes: &Attributes) -> usize {
    attributes.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn check_attributes(attributes: &[(String, String)]) -> Result<(), MessageError> {
    if attributes.len() > ATTRIBUTES_MAX {
        return Err(MessageError::Attributes { count: attributes.len() });
    }
    for (name, value) in attributes {
        if name.is_empty() || name.len() > ATTRIBUTE_NAME_MAX_BYTES {
            return Err(MessageError::AttributeName { bytes: name.len() });
        }
        if value.len() > ATTRIBUTE_VALUE_MAX_BYTES {
            return Err(MessageError::AttributeValue { bytes: value.len() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_refused_with_its_number() {
        let refusal = |message: Message| message.check(PAYLOAD_MAX_BYTES, 1 << 20).map_err(|error| error.to_string());

        assert_eq!(refusal(Message::new(vec![0; PAYLOAD_MAX_BYTES])), Ok(()));
        assert_eq!(
            refusal(Message::new(vec![0; 1 << 20]).with_key("k")),
            Err("message of 1048577 bytes, key and attributes included, is larger than its topic, which holds 1048576 bytes".into())
        );
        assert_eq!(
            refusal(Message::new(vec![0; 20_000_000])),
            Err("payload of 20000000 bytes is longer than 10000000 bytes".into())
        );
        assert_eq!(
            refusal(Message::new("").with_key("k".repeat(1 << 20))),
            Err("ordering key of 1048576 bytes is longer than 1024 bytes".into())
        );
        assert_eq!(
            refusal(Message::new("").with_attribute("", "v")),
            Err("attribute name of 0 bytes is not between 1 and 256 bytes".into())
        );
        assert_eq!(
            refusal(Message::new("").with_attribute("n", "v".repeat(1025))),
            Err("attribute value of 1025 bytes is longer than 1024 bytes".into())
        );
        let many = (0..101).fold(Message::new(""), |message, n| message.with_attribute(n.to_string(), ""));
        assert_eq!(refusal(many), Err("101 attributes are more than 100".into()));
    }

    #[test]
    fn key_and_attributes_count_as_bytes() {
        let message = Message::new("payload").with_key("key").with_attribute("a", "1").with_attribute("a", "2");

        assert_eq!(message.bytes(), 7 + 3 + 4);
        assert_eq!(message.attribute("a"), Some("2"));
        assert_eq!(message.attribute("b"), None);
        assert_eq!(message.clone().key(), Some("key"));
    }
}
