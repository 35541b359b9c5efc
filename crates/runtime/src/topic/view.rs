//! Topics as observers see them.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::broadcast::{Overflow, Seat};
use super::desk::Desk;
use super::hand::Stage;
use super::shared::Shared;
use super::subscription::{Account, Inner};
use crate::handle::Handle;
use crate::pid::Pid;

/// A topic at some recent moment; what ends in `_total` only goes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicView {
    /// Its name.
    pub name: Arc<str>,
    /// Messages that it holds.
    pub messages: u64,
    /// Messages that it may hold.
    pub messages_max: usize,
    /// Bytes that it holds.
    pub bytes: usize,
    /// Bytes that it may hold.
    pub bytes_max: usize,
    /// Messages published.
    pub published_total: u64,
    /// Times that a publisher found no room.
    pub full_total: u64,
    /// Publishers that wait for room.
    pub publishers_waiting: usize,
    /// Messages that subscribers never saw, of those that may lose some.
    pub dropped_total: u64,
    /// Messages that made room for newer ones.
    pub evicted_total: u64,
    /// Nobody may publish any more.
    pub closed: bool,
    /// Subscribers without acknowledgements.
    pub subscribers: usize,
    /// Subscriptions, all of them, and the subscribers that are the furthest behind.
    pub subscriptions: Vec<SubscriptionView>,
}

/// A subscription, or a subscriber without acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionView {
    /// Its name; `None` for a subscriber without acknowledgements.
    pub name: Option<Arc<str>>,
    /// What happens to a subscriber that is too slow; `None` for a subscription, which loses nothing.
    pub overflow: Option<Overflow>,
    /// Its consumers; 1 for a subscriber.
    pub consumers: usize,
    /// Messages that it is yet to be given.
    pub backlog: u64,
    /// Messages that are with consumers.
    pub outstanding: u64,
    /// Messages that rest before their next attempt; they are in the backlog too.
    pub resting: u64,
    /// Ordering keys with messages that are not done.
    pub keys: usize,
    /// About how long the oldest message that is not done is in the topic, in nanoseconds.
    pub oldest_ns: u64,
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
    pub slowest: Option<Pid>,
}

/// The number of topics, and some of them in the order of their names, each with all subscriptions and the
/// `subscribers_most` subscribers that are the furthest behind.
pub fn topics(runtime: &Handle, offset: usize, most: usize, subscribers_most: usize) -> (usize, Vec<TopicView>) {
    runtime.shared.topics.page(offset, most, subscribers_most)
}

/// Looks at a topic; takes no longer than there are subscribers, and the lock of each only for a moment.
pub(super) fn topic(shared: &Shared, subscribers_most: usize) -> TopicView {
    let (fill, rules, now_ns) = (shared.log.fill(), shared.log.rules(), shared.now_ns());
    let inners: Vec<_> = shared.subscriptions.lock().values().cloned().collect();
    let mut subscriptions: Vec<_> = inners.iter().map(|inner| subscription(inner, now_ns)).collect();
    let mut dropped_total = shared.dropped_before.load(Ordering::Relaxed);
    let mut seats = Vec::new();
    shared.each_seat(|id, seat| {
        dropped_total += seat.dropped(fill.head);
        seats.push((Reverse(seat.backlog(fill.head)), id, subscriber(shared, seat, fill.head, now_ns)));
    });
    seats.sort_unstable_by_key(|(backlog, id, _)| (*backlog, *id));
    subscriptions.extend(seats.into_iter().take(subscribers_most).map(|(_, _, view)| view));
    TopicView {
        name: Arc::clone(&shared.name),
        messages: fill.messages,
        messages_max: rules.messages,
        bytes: fill.bytes,
        bytes_max: rules.bytes,
        published_total: fill.head,
        full_total: shared.full_total.load(Ordering::Relaxed),
        publishers_waiting: fill.waiting,
        dropped_total,
        evicted_total: fill.evicted,
        closed: fill.closed,
        subscribers: shared.seat_count(),
        subscriptions,
    }
}

fn age_ns(shared: &Shared, position: u64, now_ns: u64) -> u64 {
    shared.log.published_ns(position).map_or(0, |published_ns| now_ns.saturating_sub(published_ns))
}

fn subscriber(shared: &Shared, seat: &Seat, head: u64, now_ns: u64) -> SubscriptionView {
    SubscriptionView {
        name: None,
        overflow: Some(seat.overflow),
        consumers: 1,
        backlog: seat.backlog(head),
        outstanding: 0,
        resting: 0,
        keys: 0,
        oldest_ns: seat.position().map_or(0, |position| age_ns(shared, position, now_ns)),
        delivered_total: seat.delivered(),
        acked_total: 0,
        redelivered_total: 0,
        expired_total: 0,
        dead_lettered_total: 0,
        dropped_total: seat.dropped(head),
        slowest: seat.owner(),
    }
}

fn subscription(inner: &Inner, now_ns: u64) -> SubscriptionView {
    let desk = inner.desk.lock();
    let Account { outstanding, backlog, dead_lettered, dropped, .. } = desk.account(&inner.topic.log);
    let (totals, cursor) = (desk.totals, desk.cursor.position());
    let (held_ns, slowest) = oldest_in_hand(&desk, now_ns);
    let view = SubscriptionView {
        name: Some(Arc::clone(&inner.name)),
        overflow: None,
        consumers: desk.seats.iter().filter(|seat| seat.taken).count(),
        backlog,
        outstanding,
        resting: desk.hand.count(Stage::Resting) as u64,
        keys: desk.keys.len(),
        oldest_ns: held_ns,
        delivered_total: totals.delivered,
        acked_total: totals.acked,
        redelivered_total: totals.redelivered,
        expired_total: totals.expired,
        dead_lettered_total: dead_lettered,
        dropped_total: dropped,
        slowest,
    };
    drop(desk);
    SubscriptionView { oldest_ns: view.oldest_ns.max(age_ns(&inner.topic, cursor, now_ns)), ..view }
}

/// The age of the oldest message in hand, and who has the oldest lease.
fn oldest_in_hand(desk: &Desk, now_ns: u64) -> (u64, Option<Pid>) {
    let items = || desk.hand.slots().map(|(_, item)| item);
    let oldest = items().map(|item| item.published_ns).min().map_or(0, |first_ns| now_ns.saturating_sub(first_ns));
    let leased = items().filter(|item| item.stage == Stage::Leased).min_by_key(|item| item.since_ns);
    (oldest, leased.and_then(|item| desk.seats[item.consumer as usize].pid))
}
