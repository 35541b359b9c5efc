//! Data of publishers: configuration and account. `Topic::publisher` checks the ranges.

use std::time::Duration;

use thiserror::Error;

/// Batch sizes and limits of a publisher.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::topic::PublisherConfig;
///
/// // Few messages, each as soon as possible.
/// let config = PublisherConfig { batch_messages: 1, batch_delay: Duration::ZERO, ..PublisherConfig::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublisherConfig {
    /// Number of messages at which a batch is published, between 1 and 10,000; default 100. Larger batches take the topic's
    /// lock less often. What has gathered while the topic was full is published together.
    pub batch_messages: usize,
    /// Number of bytes at which a batch is published, between 1 and 1 GiB; default 1 MB. The message that reaches it
    /// is included.
    pub batch_bytes: usize,
    /// Longest time that a message waits for others, up to an hour; default 10 ms. It does not wait while a reader is
    /// idle; subscribers that drop the newest messages do not count.
    pub batch_delay: Duration,
    /// Maximum number of messages that are gathered or wait for room in the topic, between 1 and 2²⁴; default 1,000.
    pub outstanding_messages: usize,
    /// Maximum number of their bytes, between 1 and 1 TiB; default 10 MB. A larger message is accepted when there is
    /// no other.
    pub outstanding_bytes: usize,
}

impl Default for PublisherConfig {
    fn default() -> Self {
        Self {
            batch_messages: 100,
            batch_bytes: 1_000_000,
            batch_delay: Duration::from_millis(10),
            outstanding_messages: 1000,
            outstanding_bytes: 10_000_000,
        }
    }
}

/// Error returned by [`Topic::publisher`](crate::topic::Topic::publisher) for a value of [`PublisherConfig`] out of
/// range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} of {value} is not between {min} and {max}")]
pub struct PublisherConfigError {
    /// Name of the value.
    pub what: &'static str,
    /// The given value.
    pub value: u128,
    /// The minimum.
    pub min: u128,
    /// The maximum.
    pub max: u128,
}

/// Numbers of the messages that a publisher accepted, by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherAccount {
    /// Number of messages accepted.
    pub accepted: u64,
    /// Number of messages that are in the topic.
    pub published: u64,
    /// Number of messages that the topic refused.
    pub refused: u64,
    /// Number of messages that are gathered or wait for room.
    pub outstanding: u64,
    /// Number of their bytes.
    pub outstanding_bytes: usize,
    /// Number of batches published.
    pub batches: u64,
}

impl PublisherAccount {
    /// Returns true if every accepted message is accounted for.
    pub const fn is_exact(&self) -> bool {
        self.accepted == self.published + self.refused + self.outstanding
    }
}
