//! Views of topics for observers.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::broadcast::{Overflow, SubscriberState};
use super::shared::TopicShared;
use super::subscription::in_flight::DeliveryState;
use super::subscription::state::SubscriptionState;
use super::subscription::{SubscriptionAccount, SubscriptionInner};
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;

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

/// Returns the number of topics and one page of them, sorted by name. Each view holds all subscriptions and the
/// `subscribers_most` subscribers that are furthest behind.
pub fn topics(runtime: &Handle, offset: usize, most: usize, subscribers_most: usize) -> (usize, Vec<TopicView>) {
    runtime.shared.topics.page(offset, most, subscribers_most)
}

/// Builds the view of a topic. Takes time proportional to the number of subscribers, and holds each lock only briefly.
pub(super) fn topic(shared: &TopicShared, subscribers_most: usize) -> TopicView {
    let (stats, limits, now_ns) = (shared.log.stats(), shared.log.limits(), shared.now_ns());
    let inners: Vec<_> = shared.subscriptions.lock().values().cloned().collect();
    let mut subscriptions: Vec<_> = inners.iter().map(|inner| subscription(inner, now_ns)).collect();
    let mut dropped_total = shared.dropped_by_removed.load(Ordering::Relaxed);
    let mut by_backlog = Vec::new();
    shared.for_each_subscriber(|id, state| {
        dropped_total += state.dropped(stats.head);
        by_backlog.push((Reverse(state.backlog(stats.head)), id, subscriber(shared, state, stats.head, now_ns)));
    });
    by_backlog.sort_unstable_by_key(|(backlog, id, _)| (*backlog, *id));
    subscriptions.extend(by_backlog.into_iter().take(subscribers_most).map(|(_, _, view)| view));
    TopicView {
        name: Arc::clone(&shared.name),
        messages: stats.messages,
        messages_max: limits.messages,
        bytes: stats.bytes,
        bytes_max: limits.bytes,
        published_total: stats.head,
        full_total: shared.full_total.load(Ordering::Relaxed),
        publishers_waiting: stats.waiting,
        dropped_total,
        evicted_total: stats.evicted,
        closed: stats.closed,
        subscribers: shared.subscriber_count(),
        subscriptions,
    }
}

fn age_ns(shared: &TopicShared, position: u64, now_ns: u64) -> u64 {
    shared.log.published_ns(position).map_or(0, |published_ns| now_ns.saturating_sub(published_ns))
}

fn subscriber(shared: &TopicShared, state: &SubscriberState, head: u64, now_ns: u64) -> SubscriptionView {
    SubscriptionView {
        name: None,
        overflow: Some(state.overflow),
        consumers: 1,
        backlog: state.backlog(head),
        outstanding: 0,
        resting: 0,
        keys: 0,
        oldest_ns: state.position().map_or(0, |position| age_ns(shared, position, now_ns)),
        delivered_total: state.delivered(),
        acked_total: 0,
        redelivered_total: 0,
        expired_total: 0,
        dead_lettered_total: 0,
        dropped_total: state.dropped(head),
        slowest: state.owner(),
    }
}

fn subscription(inner: &SubscriptionInner, now_ns: u64) -> SubscriptionView {
    let state = inner.state.lock();
    let SubscriptionAccount { outstanding, backlog, dead_lettered, dropped, .. } = state.account(&inner.topic.log);
    let (totals, cursor) = (state.totals, state.cursor.position());
    let (oldest_in_flight_ns, slowest) = oldest_in_flight(&state, now_ns);
    let view = SubscriptionView {
        name: Some(Arc::clone(&inner.name)),
        overflow: None,
        consumers: state.consumers.iter().filter(|consumer| consumer.is_used).count(),
        backlog,
        outstanding,
        resting: state.in_flight.count(DeliveryState::Delayed) as u64,
        keys: state.keys.len(),
        oldest_ns: oldest_in_flight_ns,
        delivered_total: totals.delivered,
        acked_total: totals.acked,
        redelivered_total: totals.redelivered,
        expired_total: totals.expired,
        dead_lettered_total: dead_lettered,
        dropped_total: dropped,
        slowest,
    };
    drop(state);
    SubscriptionView { oldest_ns: view.oldest_ns.max(age_ns(&inner.topic, cursor, now_ns)), ..view }
}

/// Returns the age of the oldest message in flight, and the consumer that holds the oldest lease.
fn oldest_in_flight(state: &SubscriptionState, now_ns: u64) -> (u64, Option<Pid>) {
    let items = || state.in_flight.slots().map(|(_, item)| item);
    let oldest = items().map(|item| item.published_ns).min().map_or(0, |first_ns| now_ns.saturating_sub(first_ns));
    let leased = items().filter(|item| item.state == DeliveryState::Leased).min_by_key(|item| item.since_ns);
    (oldest, leased.and_then(|item| state.consumers[item.consumer as usize].pid))
}
