//! Configuration of topics, and the errors of their creation and search.

use thiserror::Error;

use crate::links::name::{NameError, check_name};
use crate::topic::message::PAYLOAD_MAX_BYTES;
use crate::topic::retention::{LogLimits, Retention};

/// Bounds of a topic, and its policy for unread messages.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{Message, PublishError, TopicConfig};
///
/// let small = TopicConfig { messages: 1, ..TopicConfig::default() };
/// let topic = runtime.topics().create_with("small", small)?;
/// let _kept = topic.create_subscription("kept", Default::default())?;
/// topic.try_publish(Message::new("fits"))?;
/// assert!(matches!(topic.try_publish(Message::new("does not")), Err(PublishError::Full { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// Maximum number of messages, between 1 and 2²⁴; default 65,536. More absorbs longer bursts but uses memory.
    pub messages: usize,
    /// Maximum number of bytes, between 1 KiB and 1 TiB; default 64 MiB. A payload may have at most half of it, and at
    /// most [`PAYLOAD_MAX_BYTES`].
    pub bytes: usize,
    /// Policy for messages that no subscriber is waiting to read; default [`Retention::Forget`].
    pub retention: Retention,
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self { messages: 65_536, bytes: 64 << 20, retention: Retention::Forget }
    }
}

impl TopicConfig {
    /// Returns the maximum length of a payload, without key and attributes.
    pub(crate) fn payload_max(&self) -> usize {
        PAYLOAD_MAX_BYTES.min(self.bytes / 2)
    }
}

impl From<&TopicConfig> for LogLimits {
    fn from(config: &TopicConfig) -> Self {
        Self { messages: config.messages, bytes: config.bytes, retention: config.retention }
    }
}

/// Error returned if no topic has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("topic {name:?} does not exist")]
pub struct UnknownTopic {
    /// The requested name.
    pub name: String,
}

/// Error returned if a topic could not be created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The name is taken. Use [`TopicsHandle::find`](crate::topic::TopicsHandle::find) to get the topic.
    #[error("topic {name:?} already exists")]
    Taken {
        /// The name.
        name: String,
    },
    /// The name is empty or too long.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A bound is out of range.
    #[error("a bound of {value} {what} is not between {min} and {max}")]
    Bound {
        /// Unit of the bound.
        what: &'static str,
        /// The given bound.
        value: usize,
        /// The minimum.
        min: usize,
        /// The maximum.
        max: usize,
    },
}

/// Checks the name and the bounds of a topic.
///
/// # Errors
/// [`CreateError`] with the name or the bound that is not valid.
pub fn check(name: &str, config: &TopicConfig) -> Result<(), CreateError> {
    check_name("topic", name)?;
    let within = |what, value: usize, min: usize, max: usize| {
        if (min..=max).contains(&value) { Ok(()) } else { Err(CreateError::Bound { what, value, min, max }) }
    };
    within("messages", config.messages, 1, 1 << 24)?;
    within("bytes", config.bytes, 1024, 1 << 40)
}
