//! Subscriptions with acknowledgements: every message is with one consumer at a time, until it is dealt with.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;

use super::cursor::Cursor;
use super::desk::Desk;
use super::hand::{AckId, AckStatus};
use super::journal::Noted;
use super::log::Sleeper;
use super::message::Message;
use super::retry::Retry;
use super::shared::Shared;
use super::{Consumer, UnknownTopic};
use crate::panics;
use crate::ring::park;

/// Longest time between a delivery and its acknowledgement, also by extending it.
pub const ACK_DEADLINE_MAX: Duration = Duration::from_hours(1);

/// How a subscription hands out its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionConfig {
    /// Time for a consumer to acknowledge, at most [`ACK_DEADLINE_MAX`]; 10 s. A short one tries again soon, and tries
    /// twice what only took long.
    pub ack_deadline: Duration,
    /// Messages that a consumer may have at a time; 1,000. More keeps it busy, less spreads work among consumers.
    pub outstanding_max: usize,
    /// Bytes that a consumer has before it gets no more; 100 MB.
    pub outstanding_max_bytes: usize,
    /// Whether messages of a key are handed out one batch after the other; no.
    pub ordered: bool,
    /// Messages that rest, or wait behind others of their key, before the subscription reads on; 10,000. More lets others go on
    /// for longer past slow keys and messages that fail, and takes memory.
    pub queued_max: usize,
    /// How long a message rests before it is tried again; not at all.
    pub retry: Retry,
    /// What becomes of messages that are tried too often; they are tried for ever.
    pub dead_letter: Option<DeadLetter>,
    /// Whether it begins with the oldest message that the topic still has, and not with the next; no.
    pub oldest: bool,
    /// The seed of the chance in [`Retry`].
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

/// Where messages go that are tried too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The topic that they are published to, with their cause, attempts, topic and subscription as attributes.
    pub topic: String,
    /// Attempts that a message gets.
    pub attempts_max: u32,
}

/// Why there is no such subscription.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubscribeError {
    /// There is one of this name.
    #[error("topic {topic:?} has a subscription {name:?} already")]
    Taken {
        /// The topic.
        topic: String,
        /// The name.
        name: String,
    },
    /// Choose another.
    #[error("subscription name of {bytes} bytes is not between 1 and 255")]
    Name {
        /// Bytes of the name.
        bytes: usize,
    },
    /// Create the topic for messages that are tried too often first.
    #[error(transparent)]
    DeadLetters(#[from] UnknownTopic),
    /// Messages that are given up would come again.
    #[error("topic {topic:?} cannot take its own dead letters")]
    OwnDeadLetters {
        /// The topic.
        topic: String,
    },
    /// The topic for messages that are tried too often must take payloads as long as this one's.
    #[error("topic {topic:?} takes payloads of {max} bytes, its dead letters may have {needed}")]
    SmallDeadLetters {
        /// The topic for dead letters.
        topic: String,
        /// Bytes that it takes.
        max: usize,
        /// Bytes that it would have to take.
        needed: usize,
    },
    /// A value out of its range.
    #[error("{what} of {value} is not between {min} and {max}")]
    Range {
        /// Which value.
        what: &'static str,
        /// What it is.
        value: u128,
        /// The least.
        min: u128,
        /// The most.
        max: u128,
    },
}

/// Acknowledgements are not on disk yet, and may be forgotten if the node ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("acknowledgements of topic {topic:?} are not kept yet: {why}")]
pub struct NotSaved {
    /// The topic.
    pub topic: String,
    /// What the store says.
    pub why: String,
}

/// There is no subscription of this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("topic {topic:?} has no subscription {name:?}")]
pub struct UnknownSubscription {
    /// The topic.
    pub topic: String,
    /// The name.
    pub name: String,
}

/// What became of everything that was published since a subscription began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Messages published since then.
    pub published: u64,
    /// Messages acknowledged.
    pub acked: u64,
    /// Messages that are with a consumer.
    pub outstanding: u64,
    /// Messages that are to be handed out, for the first time or again.
    pub backlog: u64,
    /// Messages that were tried too often and went elsewhere.
    pub dead_lettered: u64,
    /// Messages that were dropped with the subscription, or given up to a topic on disk that was closed before it had kept them;
    /// of a subscription on disk those are handed out again when the node is started again.
    pub dropped: u64,
}

impl Account {
    /// Whether nothing is unaccounted for.
    pub const fn is_exact(&self) -> bool {
        self.published == self.acked + self.outstanding + self.backlog + self.dead_lettered + self.dropped
    }
}

/// A message in the hands of a consumer, until it acknowledges it, gives it back, ends, or the deadline passes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lease {
    /// What to acknowledge.
    pub id: AckId,
    /// The message.
    pub message: Message,
    /// How many times it was handed out, this one included.
    pub attempt: u32,
    /// Its number in the topic, counted from the first message that was ever published there.
    pub position: u64,
}

/// What a subscription's handles, consumers and timers share.
pub(super) struct Inner {
    pub(super) name: Arc<str>,
    pub(super) topic: Arc<Shared>,
    pub(super) desk: Mutex<Desk>,
    /// Itself, for timers.
    this: Weak<Self>,
    /// What the log wakes.
    pub(super) bell: Arc<dyn Sleeper>,
}

impl Inner {
    pub(super) fn new(
        topic: &Arc<Shared>,
        name: Arc<str>,
        config: SubscriptionConfig,
        dead: Option<Weak<Shared>>,
    ) -> Arc<Self> {
        let resumed = topic.journal.as_ref().and_then(|journal| journal.resume(&name));
        let (strong, oldest) = (true, config.oldest || resumed.is_some());
        Arc::new_cyclic(|this: &Weak<Self>| {
            let bell: Arc<dyn Sleeper> = Arc::new(Bell(Weak::clone(this)));
            let cursor = Cursor::join(&topic.log, oldest, strong, &bell);
            let names = (Arc::clone(&topic.name), Arc::clone(&name));
            let mut desk = Desk::new(config, names, dead, cursor);
            match (&topic.journal, resumed) {
                (Some(journal), Some(resumed)) => desk.resume(Arc::clone(journal), resumed, &topic.log),
                (Some(journal), None) => desk.keep(Arc::clone(journal)),
                (None, _) => {}
            }
            let desk = Mutex::new(desk);
            Self { name, topic: Arc::clone(topic), desk, this: Weak::clone(this), bell }
        })
    }

    /// Changes something, then sets the timer, and wakes whoever has something to do.
    #[inline]
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Desk) -> R) -> R {
        let mut desk = self.desk.lock();
        let changed = change(&mut desk);
        self.settle(desk);
        changed
    }

    /// What is to be done after a change.
    #[inline]
    pub(super) fn settle(&self, mut desk: parking_lot::MutexGuard<'_, Desk>) {
        if let Some(alarm_ns) = desk.alarm() {
            self.set_alarm(&mut desk, alarm_ns);
        }
        let waker = self.next_to_wake(&mut desk);
        let topics = if desk.to_wake.is_empty() { Vec::new() } else { std::mem::take(&mut desk.to_wake) };
        drop(desk);
        if let Some(waker) = waker {
            panics::wake(waker);
        }
        for topic in topics {
            topic.wake();
        }
    }

    /// Whom to wake. While somebody waits and there is nothing, the log is to ring: another may have taken what it rang for.
    #[inline]
    fn next_to_wake(&self, desk: &mut Desk) -> Option<Waker> {
        let log = &self.topic.log;
        let waker = desk.next_to_wake(log);
        if waker.is_some() || !desk.is_waited_for() {
            return waker;
        }
        let is_asleep = desk.unread(log) == 0 && desk.cursor.park(log, &self.bell);
        // What came since the first look wakes nobody by itself.
        if is_asleep { None } else { desk.next_to_wake(log) }
    }

    #[cold]
    fn set_alarm(&self, desk: &mut Desk, at_ns: u64) {
        self.forget_alarm(desk);
        let this = Weak::clone(&self.this);
        desk.call = self.topic.call_at(at_ns, move || {
            if let Some(this) = this.upgrade() {
                let now_ns = this.topic.now_ns();
                this.change(|desk| desk.advance(now_ns));
            }
        });
    }

    fn forget_alarm(&self, desk: &mut Desk) {
        if let Some(call) = desk.call.take() {
            self.topic.forget_call(call);
        }
    }

    /// Wakes all consumers, who will see that it is over.
    fn wake_all(&self) {
        let wakers: Vec<Waker> = self.desk.lock().seats.iter_mut().filter_map(|seat| seat.waker.take()).collect();
        for waker in wakers {
            panics::wake(waker);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(call) = self.desk.get_mut().call.take() {
            self.topic.forget_call(call);
        }
    }
}

/// Rings for a subscription; the log holds it, and must not hold the subscription.
struct Bell(Weak<Inner>);

impl Sleeper for Bell {
    fn wake(&self) {
        if let Some(inner) = self.0.upgrade() {
            if inner.topic.log.is_closed() {
                return inner.wake_all();
            }
            let waker = inner.next_to_wake(&mut inner.desk.lock());
            if let Some(waker) = waker {
                panics::wake(waker);
            }
        }
    }
}

/// A subscription; it holds what is published until it is dealt with, whether or not anybody consumes.
///
/// Cheap to clone. Made by [`Topic::create_subscription`](super::Topic::create_subscription).
#[derive(Clone)]
pub struct Subscription(pub(super) Arc<Inner>);

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let account = self.account();
        f.debug_struct("Subscription").field("name", &self.0.name).field("account", &account).finish_non_exhaustive()
    }
}

impl Subscription {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Adds a consumer; each message goes to one of them.
    pub fn consumer(&self) -> Consumer {
        Consumer::new(Arc::clone(&self.0))
    }

    /// Says that a message was dealt with.
    pub fn ack(&self, id: AckId) -> AckStatus {
        let mut desk = self.0.desk.lock();
        let acked = desk.ack(id);
        self.0.settle(desk);
        match acked {
            Ok(message) => {
                // Freed outside of the lock.
                drop(message);
                AckStatus::Done
            }
            Err(status) => status,
        }
    }

    /// Says so of several, and gives how many of them were leased.
    pub fn ack_all(&self, ids: impl IntoIterator<Item = AckId>) -> usize {
        let ack = |desk: &mut Desk| ids.into_iter().filter(|id| desk.ack(*id).is_ok()).count();
        self.0.change(ack)
    }

    /// Gives a message back, to be tried again.
    pub fn nack(&self, id: AckId) -> AckStatus {
        let now_ns = self.0.topic.now_ns();
        self.0.change(|desk| desk.nack(id, now_ns))
    }

    /// Gives a consumer so much time from now on, at most [`ACK_DEADLINE_MAX`]; none gives the message back.
    pub fn modify_deadline(&self, id: AckId, from_now: Duration) -> AckStatus {
        if from_now.is_zero() {
            return self.nack(id);
        }
        let now_ns = self.0.topic.now_ns();
        let deadline_ns = now_ns.saturating_add(from_now.min(ACK_DEADLINE_MAX).as_nanos() as u64);
        self.0.change(|desk| desk.set_deadline(id, |_| deadline_ns, now_ns))
    }

    /// Gives a consumer so much more time, up to [`ACK_DEADLINE_MAX`] from now on.
    pub fn extend(&self, id: AckId, by: Duration) -> AckStatus {
        let now_ns = self.0.topic.now_ns();
        let latest_ns = now_ns.saturating_add(ACK_DEADLINE_MAX.as_nanos() as u64);
        let later =
            |deadline_ns: u64| deadline_ns.saturating_add(by.min(ACK_DEADLINE_MAX).as_nanos() as u64).min(latest_ns);
        self.0.change(|desk| desk.set_deadline(id, later, now_ns))
    }

    /// What became of everything that was published since it began; exact at any moment.
    pub fn account(&self) -> Account {
        self.0.desk.lock().account(&self.0.topic.log)
    }

    /// Waits until everything that was acknowledged before, here and elsewhere in the topic, is kept on disk; at once for a topic
    /// in memory.
    ///
    /// A message whose acknowledgement is not kept is handed out again when the node is started again after a crash. Of a new
    /// subscription this says that it will be there then.
    ///
    /// # Errors
    /// [`NotSaved`] says why not; it is tried again by itself.
    pub async fn saved(&self) -> Result<(), NotSaved> {
        let noted = self.noted();
        poll_fn(|cx| self.poll_saved(noted, cx.waker())).await
    }

    /// The same on a thread that may block.
    ///
    /// # Errors
    /// As [`saved`](Self::saved).
    ///
    /// # Panics
    /// On a scheduler's thread, which must not block.
    pub fn blocking_saved(&self) -> Result<(), NotSaved> {
        let noted = self.noted();
        park::block_until(None, |cx| self.poll_saved(noted, cx.waker())).unwrap_or(Ok(()))
    }

    fn noted(&self) -> Noted {
        self.0.topic.journal.as_ref().map_or_else(Noted::default, |journal| journal.noted())
    }

    fn poll_saved(&self, noted: Noted, waker: &Waker) -> Poll<Result<(), NotSaved>> {
        let Some(journal) = &self.0.topic.journal else { return Poll::Ready(Ok(())) };
        match journal.is_kept(noted, waker) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(why) => Poll::Ready(Err(NotSaved { topic: self.0.topic.name.to_string(), why: why.to_string() })),
        }
    }

    /// Ends the subscription: what is not dealt with is dropped and counted, and its consumers get an error.
    pub fn delete(&self) {
        self.0.topic.subscriptions.lock().retain(|_, other| !Arc::ptr_eq(other, &self.0));
        let mut desk = self.0.desk.lock();
        if !desk.deleted {
            desk.clear(&self.0.topic.log);
            self.0.forget_alarm(&mut desk);
            desk.cursor.leave(&self.0.topic.log, &self.0.bell);
        }
        drop(desk);
        self.0.wake_all();
    }
}
