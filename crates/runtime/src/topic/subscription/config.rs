//! Data of subscriptions: configuration, errors, accounts and leases.

use std::time::Duration;

use thiserror::Error;

use super::in_flight::AckId;
use super::retry::Retry;
use crate::links::name::NameError;
use crate::topic::message::Message;
use crate::topic::registry::config::UnknownTopic;

/// Longest time between a delivery and its acknowledgement, including extensions.
pub const ACK_DEADLINE_MAX: Duration = Duration::from_hours(1);

/// Configuration of a subscription.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::topic::{DeadLetter, Retry, SubscriptionConfig};
///
/// let config = SubscriptionConfig {
///     ack_deadline: Duration::from_secs(30),
///     ordered: true,
///     retry: Retry { first: Duration::from_millis(100), longest: Duration::from_secs(10) },
///     dead_letter: Some(DeadLetter { topic: "failed".to_owned(), attempts_max: 5 }),
///     ..SubscriptionConfig::default()
/// };
/// # assert!(config.outstanding_max > 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionConfig {
    /// Time for a consumer to acknowledge, at most [`ACK_DEADLINE_MAX`]; default 10 s. A short one retries soon, but
    /// redelivers messages that only take long.
    pub ack_deadline: Duration,
    /// Maximum number of messages leased to a consumer; default 1,000. More keeps it busy, fewer spreads work among
    /// consumers.
    pub outstanding_max: usize,
    /// Number of leased bytes at which a consumer gets no more messages; default 100 MB.
    pub outstanding_max_bytes: usize,
    /// Deliver the messages of a key one batch after the other; default false.
    pub ordered: bool,
    /// Maximum number of messages that wait for a retry or behind others of their key; default 10,000. Beyond it, the
    /// subscription stops reading the log. More lets other messages pass slow or failing ones for longer, but uses
    /// memory.
    pub queued_max: usize,
    /// Delay before a message is delivered again; default zero.
    pub retry: Retry,
    /// Policy for messages without attempts left; default `None`: they are retried forever.
    pub dead_letter: Option<DeadLetter>,
    /// Begin with the oldest message that the topic still has instead of the next one; default false.
    pub oldest: bool,
    /// Seed of the jitter in [`Retry`].
    pub seed: u64,
}

impl Default for SubscriptionConfig {
    fn default() -> Self {
        Self {
            ack_deadline: Duration::from_secs(10),
            outstanding_max: 1000,
            outstanding_max_bytes: 100_000_000,
            ordered: false,
            queued_max: 10_000,
            retry: Retry::default(),
            dead_letter: None,
            oldest: false,
            seed: 0,
        }
    }
}

/// Destination of messages without attempts left.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{AckStatus, DeadLetter, Message, Overflow, SubscriptionConfig};
///
/// let (orders, failed) = (runtime.topics().create("orders")?, runtime.topics().create("failed")?);
/// let dead_letter = Some(DeadLetter { topic: "failed".to_owned(), attempts_max: 1 });
/// let billing = orders.create_subscription("billing", SubscriptionConfig { dead_letter, ..Default::default() })?;
/// let mut failures = failed.subscribe(Overflow::Block);
/// orders.blocking_publish(Message::new("tea"))?;
///
/// let mut consumer = billing.consumer();
/// let lease = consumer.blocking_next()?;
/// assert_eq!(consumer.nack(lease.id), AckStatus::Done);
/// assert_eq!(failures.blocking_next()?.payload(), "tea");
/// assert_eq!(billing.account().dead_lettered, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Topic to which they are published, with the cause, attempts, topic and subscription as attributes.
    pub topic: String,
    /// Maximum number of attempts per message.
    pub attempts_max: u32,
}

/// Error returned if a subscription could not be created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubscribeError {
    /// The name is taken.
    #[error("topic {topic:?} already has a subscription {name:?}")]
    Taken {
        /// Name of the topic.
        topic: String,
        /// Name of the subscription.
        name: String,
    },
    /// The name is empty or too long.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The dead-letter topic does not exist. Create it first.
    #[error(transparent)]
    DeadLetters(#[from] UnknownTopic),
    /// A topic cannot be its own dead-letter topic: its dead letters would be delivered again.
    #[error("topic {topic:?} cannot be its own dead-letter topic")]
    OwnDeadLetters {
        /// Name of the topic.
        topic: String,
    },
    /// The dead-letter topic accepts shorter payloads than this topic.
    #[error("topic {topic:?} accepts payloads of at most {max} bytes, but its dead letters may have {needed}")]
    SmallDeadLetters {
        /// Name of the dead-letter topic.
        topic: String,
        /// Longest payload that it accepts, in bytes.
        max: usize,
        /// Longest payload that it must accept, in bytes.
        needed: usize,
    },
    /// A value is out of range.
    #[error("{what} of {value} is not between {min} and {max}")]
    Range {
        /// Name of the value.
        what: &'static str,
        /// The given value.
        value: u128,
        /// The minimum.
        min: u128,
        /// The maximum.
        max: u128,
    },
}

/// Error returned if acknowledgements are not on disk yet; they may be lost if the node ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("acknowledgements of topic {topic:?} are not stored yet: {why}")]
pub struct FlushError {
    /// Name of the topic.
    pub topic: String,
    /// Error of the store.
    pub why: String,
}

/// Error returned if the subscription does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("topic {topic:?} has no subscription {name:?}")]
pub struct UnknownSubscription {
    /// Name of the topic.
    pub topic: String,
    /// Name of the subscription.
    pub name: String,
}

/// Numbers of the messages published since a subscription began, by what happened to them.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{Message, SubscriptionConfig};
///
/// let orders = runtime.topics().create("orders")?;
/// let billing = orders.create_subscription("billing", SubscriptionConfig::default())?;
/// for order in ["tea", "milk", "bread"] {
///     orders.blocking_publish(Message::new(order))?;
/// }
/// let mut consumer = billing.consumer();
/// let (first, _second) = (consumer.blocking_next()?, consumer.blocking_next()?);
/// consumer.ack(first.id);
///
/// let account = billing.account();
/// assert_eq!((account.published, account.acked, account.outstanding, account.backlog), (3, 1, 1, 1));
/// assert!(account.is_exact());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionAccount {
    /// Number of messages published.
    pub published: u64,
    /// Number of messages acknowledged.
    pub acked: u64,
    /// Number of messages leased to consumers.
    pub outstanding: u64,
    /// Number of messages to be delivered, for the first time or again.
    pub backlog: u64,
    /// Number of messages that were dead-lettered.
    pub dead_lettered: u64,
    /// Number of messages dropped: deleted with the subscription, or dead-lettered to a durable topic that closed
    /// before storing them. A durable subscription delivers the latter again after a restart of the node.
    pub dropped: u64,
}

impl SubscriptionAccount {
    /// Returns true if every published message is accounted for.
    pub const fn is_exact(&self) -> bool {
        self.published == self.acked + self.outstanding + self.backlog + self.dead_lettered + self.dropped
    }
}

/// A message leased to a consumer, until it is acknowledged or returned, the consumer ends, or the deadline passes.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{AckStatus, Lease, Message, SubscriptionConfig};
///
/// let orders = runtime.topics().create("orders")?;
/// let billing = orders.create_subscription("billing", SubscriptionConfig::default())?;
/// orders.blocking_publish(Message::new("tea"))?;
///
/// let mut consumer = billing.consumer();
/// let Lease { id, message, attempt, position, .. } = consumer.blocking_next()?;
/// assert_eq!(message.payload(), "tea");
/// assert_eq!((attempt, position), (1, 0));
/// assert_eq!(consumer.ack(id), AckStatus::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lease {
    /// Id with which to acknowledge the message.
    pub id: AckId,
    /// The message.
    pub message: Message,
    /// Number of deliveries, including this one.
    pub attempt: u32,
    /// Position in the topic, counted from the first message ever published there.
    pub position: u64,
}
