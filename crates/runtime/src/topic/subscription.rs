//! Subscriptions with acknowledgements: each message is leased to one consumer at a time, until it is finished.

pub(crate) mod in_flight;
pub(crate) mod ordering_keys;
pub(crate) mod retry;
pub(crate) mod state;
pub(crate) mod timer_wheel;

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;

use super::cursor::Cursor;
use super::journal::FlushPoint;
use super::log::Waiter;
use super::message::Message;
use super::shared::TopicShared;
use super::subscription::in_flight::{AckId, AckStatus};
use super::subscription::retry::Retry;
use super::subscription::state::SubscriptionState;
use super::{Consumer, UnknownTopic};
use crate::runtime::panics;
use crate::stream::ring::park;

/// Longest time between a delivery and its acknowledgement, including extensions.
pub const ACK_DEADLINE_MAX: Duration = Duration::from_hours(1);

/// Configuration of a subscription.
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
    #[error("subscription name of {bytes} bytes is not between 1 and 255")]
    Name {
        /// Length of the name in bytes.
        bytes: usize,
    },
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

/// State shared by a subscription's handles, consumers and timers.
pub(super) struct SubscriptionInner {
    pub(super) name: Arc<str>,
    pub(super) topic: Arc<TopicShared>,
    pub(super) state: Mutex<SubscriptionState>,
    /// Weak reference to itself, for timers.
    this: Weak<Self>,
    /// Waiter that the log wakes.
    pub(super) waiter: Arc<dyn Waiter>,
}

impl SubscriptionInner {
    pub(super) fn new(
        topic: &Arc<TopicShared>,
        name: Arc<str>,
        config: SubscriptionConfig,
        dead: Option<Weak<TopicShared>>,
    ) -> Arc<Self> {
        let saved_progress = topic.journal.as_ref().and_then(|journal| journal.resume(&name));
        let (strong, oldest) = (true, config.oldest || saved_progress.is_some());
        Arc::new_cyclic(|this: &Weak<Self>| {
            let waiter: Arc<dyn Waiter> = Arc::new(SubscriptionWaiter(Weak::clone(this)));
            let cursor = Cursor::join(&topic.log, oldest, strong, &waiter);
            let names = (Arc::clone(&topic.name), Arc::clone(&name));
            let mut state = SubscriptionState::new(config, names, dead, cursor);
            match (&topic.journal, saved_progress) {
                (Some(journal), Some(saved_progress)) => state.resume(Arc::clone(journal), saved_progress, &topic.log),
                (Some(journal), None) => state.attach_journal(Arc::clone(journal)),
                (None, _) => {}
            }
            let state = Mutex::new(state);
            Self { name, topic: Arc::clone(topic), state, this: Weak::clone(this), waiter }
        })
    }

    /// Applies a change, then sets the timer and wakes a consumer that has something to do.
    #[inline]
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut SubscriptionState) -> R) -> R {
        let mut state = self.state.lock();
        let changed = change(&mut state);
        self.after_change(state);
        changed
    }

    /// Does the work that follows a change: sets the timer, releases the lock, wakes.
    #[inline]
    pub(super) fn after_change(&self, mut state: parking_lot::MutexGuard<'_, SubscriptionState>) {
        if let Some(deadline_ns) = state.timer_deadline() {
            self.set_timer(&mut state, deadline_ns);
        }
        let waker = self.next_to_wake(&mut state);
        let topics = if state.to_wake.is_empty() { Vec::new() } else { std::mem::take(&mut state.to_wake) };
        drop(state);
        if let Some(waker) = waker {
            panics::wake(waker);
        }
        for topic in topics {
            topic.wake();
        }
    }

    /// Returns the waker of the consumer to wake. If a consumer waits and has no message, parks the cursor, so that
    /// the log wakes the subscription for the next message: another consumer may have taken the one of the last
    /// wake-up.
    #[inline]
    fn next_to_wake(&self, state: &mut SubscriptionState) -> Option<Waker> {
        let log = &self.topic.log;
        let waker = state.next_to_wake(log);
        if waker.is_some() || !state.has_waiting_consumer() {
            return waker;
        }
        let is_asleep = state.unread(log) == 0 && state.cursor.park(log, &self.waiter);
        // Check again: a message published since the first check found the cursor awake and woke no consumer.
        if is_asleep { None } else { state.next_to_wake(log) }
    }

    #[cold]
    fn set_timer(&self, state: &mut SubscriptionState, at_ns: u64) {
        self.cancel_timer(state);
        let this = Weak::clone(&self.this);
        state.timer = self.topic.call_at(at_ns, move || {
            if let Some(this) = this.upgrade() {
                let now_ns = this.topic.now_ns();
                this.change(|state| state.advance(now_ns));
            }
        });
    }

    fn cancel_timer(&self, state: &mut SubscriptionState) {
        if let Some(call) = state.timer.take() {
            self.topic.cancel_call(call);
        }
    }

    /// Wakes all consumers, which will see the end.
    fn wake_all(&self) {
        let wakers: Vec<Waker> =
            self.state.lock().consumers.iter_mut().filter_map(|consumer| consumer.waker.take()).collect();
        for waker in wakers {
            panics::wake(waker);
        }
    }
}

impl Drop for SubscriptionInner {
    fn drop(&mut self) {
        if let Some(call) = self.state.get_mut().timer.take() {
            self.topic.cancel_call(call);
        }
    }
}

/// Wakes a subscription. The log holds it, and must not keep the subscription alive.
struct SubscriptionWaiter(Weak<SubscriptionInner>);

impl Waiter for SubscriptionWaiter {
    fn wake(&self) {
        if let Some(inner) = self.0.upgrade() {
            if inner.topic.log.is_closed() {
                return inner.wake_all();
            }
            let waker = inner.next_to_wake(&mut inner.state.lock());
            if let Some(waker) = waker {
                panics::wake(waker);
            }
        }
    }
}

/// A subscription. It retains published messages until they are finished, also without any consumer.
///
/// Cheap to clone. Created by [`Topic::create_subscription`](super::Topic::create_subscription).
#[derive(Clone)]
pub struct Subscription(pub(super) Arc<SubscriptionInner>);

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let account = self.account();
        f.debug_struct("Subscription").field("name", &self.0.name).field("account", &account).finish_non_exhaustive()
    }
}

impl Subscription {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Adds a consumer; each message is delivered to one consumer.
    pub fn consumer(&self) -> Consumer {
        Consumer::new(Arc::clone(&self.0))
    }

    /// Acknowledges a message.
    pub fn ack(&self, id: AckId) -> AckStatus {
        let mut state = self.0.state.lock();
        let acked = state.ack(id);
        self.0.after_change(state);
        match acked {
            Ok(message) => {
                // Free the message outside of the lock.
                drop(message);
                AckStatus::Done
            }
            Err(status) => status,
        }
    }

    /// Acknowledges several messages; returns the number of them that were leased.
    pub fn ack_all(&self, ids: impl IntoIterator<Item = AckId>) -> usize {
        let ack = |state: &mut SubscriptionState| ids.into_iter().filter(|id| state.ack(*id).is_ok()).count();
        self.0.change(ack)
    }

    /// Returns a message, which will be delivered again.
    pub fn nack(&self, id: AckId) -> AckStatus {
        let now_ns = self.0.topic.now_ns();
        self.0.change(|state| state.nack(id, now_ns))
    }

    /// Sets the deadline of a lease to `from_now`, at most [`ACK_DEADLINE_MAX`]; zero returns the message.
    pub fn modify_deadline(&self, id: AckId, from_now: Duration) -> AckStatus {
        if from_now.is_zero() {
            return self.nack(id);
        }
        let now_ns = self.0.topic.now_ns();
        let deadline_ns = now_ns.saturating_add(from_now.min(ACK_DEADLINE_MAX).as_nanos() as u64);
        self.0.change(|state| state.set_deadline(id, |_| deadline_ns, now_ns))
    }

    /// Extends the deadline of a lease by `by`, up to [`ACK_DEADLINE_MAX`] from now.
    pub fn extend(&self, id: AckId, by: Duration) -> AckStatus {
        let now_ns = self.0.topic.now_ns();
        let latest_ns = now_ns.saturating_add(ACK_DEADLINE_MAX.as_nanos() as u64);
        let later =
            |deadline_ns: u64| deadline_ns.saturating_add(by.min(ACK_DEADLINE_MAX).as_nanos() as u64).min(latest_ns);
        self.0.change(|state| state.set_deadline(id, later, now_ns))
    }

    /// Returns what happened to the messages published since it began; exact at any time.
    pub fn account(&self) -> SubscriptionAccount {
        self.0.state.lock().account(&self.0.topic.log)
    }

    /// Waits until every earlier acknowledgement in this topic is on disk. Returns at once for a topic in memory.
    ///
    /// If an acknowledgement is not on disk, its message is delivered again after a crash of the node. For a new
    /// subscription, this call also ensures that it exists after a crash.
    ///
    /// # Errors
    /// [`FlushError`] with the error of the store. The write is retried automatically.
    pub async fn flush_acks(&self) -> Result<(), FlushError> {
        let flush_point = self.flush_point();
        poll_fn(|cx| self.poll_flush(flush_point, cx.waker())).await
    }

    /// Like [`flush_acks`](Self::flush_acks), but blocks the calling thread.
    ///
    /// # Errors
    /// As [`flush_acks`](Self::flush_acks).
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn blocking_flush_acks(&self) -> Result<(), FlushError> {
        let flush_point = self.flush_point();
        park::block_until(None, |cx| self.poll_flush(flush_point, cx.waker())).unwrap_or(Ok(()))
    }

    fn flush_point(&self) -> FlushPoint {
        self.0.topic.journal.as_ref().map_or_else(FlushPoint::default, |journal| journal.flush_point())
    }

    fn poll_flush(&self, flush_point: FlushPoint, waker: &Waker) -> Poll<Result<(), FlushError>> {
        let Some(journal) = &self.0.topic.journal else { return Poll::Ready(Ok(())) };
        match journal.is_flushed(flush_point, waker) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(why) => Poll::Ready(Err(FlushError { topic: self.0.topic.name.to_string(), why: why.to_string() })),
        }
    }

    /// Ends the subscription. Unfinished messages are dropped and counted, and its consumers get an error.
    pub fn delete(&self) {
        self.0.topic.subscriptions.lock().retain(|_, other| !Arc::ptr_eq(other, &self.0));
        let mut state = self.0.state.lock();
        if !state.deleted {
            state.clear(&self.0.topic.log);
            self.0.cancel_timer(&mut state);
            state.cursor.leave(&self.0.topic.log, &self.0.waiter);
        }
        drop(state);
        self.0.wake_all();
    }
}
