//! Topics on the wire: their messages, their receivers, and the lag of each receiver.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// A client's view of the node's topics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicsView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Order of the topics.
    #[serde(default, skip_serializing_if = "TopicSort::is_default")]
    pub sort: TopicSort,
    /// Range of topics in that order.
    #[serde(default)]
    pub window: ViewWindow,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_topics_hz")]
    pub hz: f64,
}

/// Order of topics: by name, or by a figure, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicSort {
    /// By name.
    #[default]
    Name,
    /// By the share of the tighter of the two bounds that is used.
    Full,
    /// By the number of messages held.
    Messages,
    /// By the number of bytes held.
    Bytes,
    /// By the number of messages published since the node started.
    Published,
    /// By the number of publishers that wait for room.
    Waiting,
    /// By the number of messages missed by subscribers.
    Dropped,
}

impl TopicSort {
    /// All orders.
    pub const ALL: [Self; 7] =
        [Self::Name, Self::Full, Self::Messages, Self::Bytes, Self::Published, Self::Waiting, Self::Dropped];

    /// Returns the name of the order in a sentence.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Full => "fill",
            Self::Messages => "messages",
            Self::Bytes => "bytes",
            Self::Published => "published",
            Self::Waiting => "waiting publishers",
            Self::Dropped => "dropped",
        }
    }

    /// Sorts topics, which come sorted by name.
    pub fn sort(self, topics: &mut [TopicInfo]) {
        if self != Self::Name {
            topics.sort_by_key(|topic| std::cmp::Reverse(self.figure(topic)));
        }
    }

    fn figure(self, topic: &TopicInfo) -> u64 {
        let millionths = |part: u64, whole: u64| (u128::from(part) * 1_000_000 / u128::from(whole.max(1))) as u64;
        match self {
            Self::Name => 0,
            Self::Full => millionths(topic.messages, topic.messages_max).max(millionths(topic.bytes, topic.bytes_max)),
            Self::Messages => topic.messages,
            Self::Bytes => topic.bytes,
            Self::Published => topic.published_total,
            Self::Waiting => topic.publishers_waiting,
            Self::Dropped => topic.dropped_total,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    fn is_default(&self) -> bool {
        *self == Self::Name
    }
}

const fn default_topics_hz() -> f64 {
    2.0
}

impl Default for TopicsView {
    fn default() -> Self {
        Self { id: 0, sort: TopicSort::Name, window: ViewWindow::default(), hz: default_topics_hz() }
    }
}

/// A window of the node's topics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Topics {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this window, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Number of topics of the node.
    pub total: u64,
    /// Number of topics before the first one of this window.
    pub offset: u64,
    /// Topics of the window.
    pub topics: Vec<TopicInfo>,
}

/// State of a topic; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicInfo {
    /// Name of the topic.
    pub name: String,
    /// Number of messages that it holds.
    pub messages: u64,
    /// Maximum number of messages.
    pub messages_max: u64,
    /// Number of bytes that it holds.
    pub bytes: u64,
    /// Maximum number of bytes.
    pub bytes_max: u64,
    /// Number of messages published.
    pub published_total: u64,
    /// Number of publish attempts that found the topic full.
    pub full_total: u64,
    /// Number of publishers that wait for room.
    pub publishers_waiting: u64,
    /// Number of messages missed by subscribers that may lose messages.
    pub dropped_total: u64,
    /// Number of messages evicted to make room for newer ones.
    pub evicted_total: u64,
    /// Number of subscribers without acknowledgements.
    pub subscribers: u64,
    /// Number of subscriptions.
    pub subscriptions: u64,
    /// The first subscriptions by name, and the subscribers that are furthest behind: up to 24, fewer on a page of many
    /// topics. Names are cut to 64 bytes, also that of the topic.
    pub receivers: Vec<ReceiverInfo>,
}

/// State of a subscription, or of a subscriber without acknowledgements; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiverInfo {
    /// Name of the subscription; absent for a subscriber.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `ack` for a subscription; for a subscriber, the policy if it is too slow: `block`, `drop oldest`, `drop newest`
    /// or `disconnect`.
    pub policy: String,
    /// Number of consumers of a subscription; 1 for a subscriber.
    pub consumers: u64,
    /// Number of messages that are still to be delivered.
    pub backlog: u64,
    /// Number of messages that are leased to consumers.
    pub outstanding: u64,
    /// Number of messages of the backlog that are waiting out their retry delay.
    pub resting: u64,
    /// Number of ordering keys with unfinished messages.
    pub keys: u64,
    /// Approximate age of the oldest unfinished message, in milliseconds.
    pub oldest_ms: u64,
    /// Number of deliveries, including redeliveries.
    pub delivered_total: u64,
    /// Number of messages acknowledged.
    pub acked_total: u64,
    /// Number of deliveries that were not the first of their message.
    pub redelivered_total: u64,
    /// Number of leases that expired.
    pub expired_total: u64,
    /// Number of messages that were dead-lettered after too many attempts.
    pub dead_lettered_total: u64,
    /// Number of messages that will never be delivered.
    pub dropped_total: u64,
    /// Process that holds up progress: the subscriber itself, or the consumer with the oldest lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowest: Option<String>,
}
