//! Encodes topics and their receivers.

use rusm_protocol::{ReceiverInfo, TopicInfo};

use super::text::cut;
use rusm_runtime::topic::{Overflow, SubscriptionView, TopicView};

/// Bytes of a name that are shown.
const NAME_SHOWN_BYTES: usize = 64;

/// Encodes a topic with at most `receivers_most` receivers; if there are both kinds, two subscriptions for each
/// subscriber.
pub(crate) fn topic(view: &TopicView, receivers_most: usize) -> TopicInfo {
    let (subscriptions, subscribers): (Vec<_>, Vec<_>) =
        view.subscriptions.iter().partition(|receiver| receiver.name.is_some());
    let subscribers_shown = subscribers.len().min(receivers_most / 3);
    let shown = subscriptions.iter().take(receivers_most - subscribers_shown).chain(&subscribers).take(receivers_most);
    TopicInfo {
        name: cut(&view.name, NAME_SHOWN_BYTES),
        messages: view.messages,
        messages_max: view.messages_max as u64,
        bytes: view.bytes as u64,
        bytes_max: view.bytes_max as u64,
        published_total: view.published_total,
        full_total: view.full_total,
        publishers_waiting: view.publishers_waiting as u64,
        dropped_total: view.dropped_total,
        evicted_total: view.evicted_total,
        subscribers: view.subscribers as u64,
        subscriptions: subscriptions.len() as u64,
        receivers: shown.map(|view| receiver(view)).collect(),
    }
}

fn receiver(view: &SubscriptionView) -> ReceiverInfo {
    ReceiverInfo {
        name: view.name.as_deref().map(|name| cut(name, NAME_SHOWN_BYTES)),
        policy: policy(view.overflow).to_owned(),
        consumers: view.consumers as u64,
        backlog: view.backlog,
        outstanding: view.outstanding,
        resting: view.resting,
        keys: view.keys as u64,
        oldest_ms: view.oldest_ns / 1_000_000,
        delivered_total: view.delivered_total,
        acked_total: view.acked_total,
        redelivered_total: view.redelivered_total,
        expired_total: view.expired_total,
        dead_lettered_total: view.dead_lettered_total,
        dropped_total: view.dropped_total,
        slowest: view.slowest.map(|pid| pid.to_string()),
    }
}

const fn policy(overflow: Option<Overflow>) -> &'static str {
    match overflow {
        None => "ack",
        Some(Overflow::Block) => "block",
        Some(Overflow::DropOldest { .. }) => "drop oldest",
        Some(Overflow::DropNewest { .. }) => "drop newest",
        Some(Overflow::Disconnect { .. }) => "disconnect",
    }
}
