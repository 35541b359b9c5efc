//! Topics on the wire: what they hold, who receives from them, and who is behind.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// What a client sees of the node's topics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicsView {
    /// Echoed in the answers, so that a client can drop those to a view that it has left.
    pub id: u32,
    /// Which topics, in the order of their names.
    #[serde(default)]
    pub window: ViewWindow,
    /// Refreshes a second, 1–10.
    #[serde(default = "default_topics_hz")]
    pub hz: f64,
}

const fn default_topics_hz() -> f64 {
    2.0
}

impl Default for TopicsView {
    fn default() -> Self {
        Self { id: 0, window: ViewWindow::default(), hz: default_topics_hz() }
    }
}

/// A window of the node's topics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Topics {
    /// The view that this answers.
    pub id: u32,
    /// Counts this client's windows.
    pub seq: u64,
    /// The node's uptime when it looked, in milliseconds.
    pub at_ms: u64,
    /// CPU time of looking, in microseconds.
    pub cost_us: f64,
    /// Topics of the node.
    pub total: u64,
    /// Topics before the first one here.
    pub offset: u64,
    /// The window of topics.
    pub topics: Vec<TopicInfo>,
}

/// One topic; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicInfo {
    /// Its name.
    pub name: String,
    /// Messages that it holds.
    pub messages: u64,
    /// Messages that it may hold.
    pub messages_max: u64,
    /// Bytes that it holds.
    pub bytes: u64,
    /// Bytes that it may hold.
    pub bytes_max: u64,
    /// Messages published.
    pub published_total: u64,
    /// Times that a publisher found no room.
    pub full_total: u64,
    /// Publishers that wait for room.
    pub publishers_waiting: u64,
    /// Messages that subscribers never saw, of those that may lose some.
    pub dropped_total: u64,
    /// Messages that made room for newer ones.
    pub evicted_total: u64,
    /// Subscribers without acknowledgements.
    pub subscribers: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// The first subscriptions by name, and the subscribers that are the furthest behind: up to 24, and fewer on a page of many
    /// topics. Names are cut to 64 bytes, here and above.
    pub receivers: Vec<ReceiverInfo>,
}

/// A subscription, or a subscriber without acknowledgements; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiverInfo {
    /// The subscription's name; none for a subscriber.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `ack` for a subscription; else what happens to a subscriber that is too slow: `block`, `drop oldest`, `drop newest` or
    /// `disconnect`.
    pub policy: String,
    /// Consumers of a subscription; 1 for a subscriber.
    pub consumers: u64,
    /// Messages that it is yet to be given.
    pub backlog: u64,
    /// Messages that are with consumers.
    pub outstanding: u64,
    /// Messages of the backlog that rest before their next attempt.
    pub resting: u64,
    /// Ordering keys with messages that are not done.
    pub keys: u64,
    /// About the age of the oldest message that is not done, in milliseconds.
    pub oldest_ms: u64,
    /// Messages given, the same one each time.
    pub delivered_total: u64,
    /// Messages acknowledged.
    pub acked_total: u64,
    /// Deliveries that were not the first of their message.
    pub redelivered_total: u64,
    /// Leases whose deadline has passed.
    pub expired_total: u64,
    /// Messages that were tried too often.
    pub dead_lettered_total: u64,
    /// Messages that it will never be given.
    pub dropped_total: u64,
    /// The process that is behind: the subscriber itself, or the consumer with the oldest lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowest: Option<String>,
}
