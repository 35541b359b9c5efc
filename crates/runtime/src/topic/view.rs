//! Views of topics for observers.

pub(crate) mod build;

use std::sync::Arc;

use super::broadcast::overflow::Overflow;
use crate::process::pid::Pid;

/// State of a topic at a recent moment. Fields that end in `_total` never decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicView {
    /// Name of the topic.
    pub name: Arc<str>,
    /// Number of messages that the topic holds.
    pub messages: u64,
    /// Maximum number of messages that the topic may hold.
    pub messages_max: usize,
    /// Number of bytes that the topic holds.
    pub bytes: usize,
    /// Maximum number of bytes that the topic may hold.
    pub bytes_max: usize,
    /// Number of messages published.
    pub published_total: u64,
    /// Number of publish attempts that found the topic full.
    pub full_total: u64,
    /// Number of publishers that are waiting for room.
    pub publishers_waiting: usize,
    /// Number of messages missed by subscribers that may lose messages.
    pub dropped_total: u64,
    /// Number of messages evicted to make room for newer ones.
    pub evicted_total: u64,
    /// True once the topic is closed for publishing.
    pub closed: bool,
    /// Number of subscribers without acknowledgements.
    pub subscribers: usize,
    /// All subscriptions, and the subscribers that are furthest behind.
    pub subscriptions: Vec<SubscriptionView>,
}

/// State of a subscription, or of a subscriber without acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionView {
    /// Name of the subscription; `None` for a subscriber without acknowledgements.
    pub name: Option<Arc<str>>,
    /// Overflow policy of the subscriber; `None` for a subscription, which loses nothing.
    pub overflow: Option<Overflow>,
    /// Number of consumers; 1 for a subscriber.
    pub consumers: usize,
    /// Number of messages that are still to be delivered.
    pub backlog: u64,
    /// Number of messages that are leased to consumers.
    pub outstanding: u64,
    /// Number of messages that are waiting out their retry delay; the backlog includes them.
    pub resting: u64,
    /// Number of ordering keys with unfinished messages.
    pub keys: usize,
    /// Approximate time since the oldest unfinished message was published, in nanoseconds.
    pub oldest_ns: u64,
    /// Number of deliveries, including redeliveries.
    pub delivered_total: u64,
    /// Number of messages acknowledged.
    pub acked_total: u64,
    /// Number of deliveries that were not the first of their message.
    pub redelivered_total: u64,
    /// Number of leases that expired.
    pub expired_total: u64,
    /// Number of messages that were dead-lettered.
    pub dead_lettered_total: u64,
    /// Number of messages that will never be delivered.
    pub dropped_total: u64,
    /// Process that holds up progress: the subscriber itself, or the consumer with the oldest lease.
    pub slowest: Option<Pid>,
}
