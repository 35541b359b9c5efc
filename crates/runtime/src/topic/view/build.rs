//! Builds the views of topics.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::{SubscriptionView, TopicView};
use crate::process::pid::Pid;
use crate::topic::broadcast::state::SubscriberState;
use crate::topic::registry::topics::TopicEntry;
use crate::topic::shared::TopicShared;
use crate::topic::subscription::SubscriptionInner;
use crate::topic::subscription::config::SubscriptionAccount;
use crate::topic::subscription::in_flight::DeliveryState;
use crate::topic::subscription::state::SubscriptionState;

impl TopicEntry for TopicShared {
    fn view(&self, subscribers_most: usize) -> TopicView {
        topic(self, subscribers_most)
    }

    fn memory_bytes(&self) -> u64 {
        self.log.memory_bytes()
    }

    fn waiting_publishers(&self, limit: usize) -> Vec<Waker> {
        self.log.waiting_publishers(limit)
    }

    fn end(&self) {
        self.release_subscriptions();
        for waiter in self.log.close() {
            waiter.wake();
        }
    }
}

/// Builds the view of a topic. Takes time proportional to the number of subscribers, and holds each lock only briefly.
fn topic(shared: &TopicShared, subscribers_most: usize) -> TopicView {
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
