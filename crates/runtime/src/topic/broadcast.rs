//! Subscribers without acknowledgements: each receives every message at most once, at its own pace.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use thiserror::Error;

use super::cursor::Cursor;
use super::log::{LogLimits, PushSubscriber, Waiter};
use super::message::Message;
use super::shared::TopicShared;
use crate::process::pid::Pid;
use crate::runtime::panics;
use crate::stream::ring::park;
use crate::stream::ring::turn;

/// Policy for a subscriber that is slower than the publishers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// No message is lost: when the topic is full, publishers wait for this subscriber.
    #[default]
    Block,
    /// Keeps the newest `capacity` messages, and fewer when the topic is full; older ones are dropped.
    DropOldest {
        /// Number of messages, at least one.
        capacity: usize,
    },
    /// Queues at most `capacity` messages, bounded by the topic's limits on messages and bytes too. While the queue is
    /// full, new messages are dropped for this subscriber.
    ///
    /// Publishing clones the message's handle for each subscriber of this kind.
    DropNewest {
        /// Number of messages, at least one.
        capacity: usize,
    },
    /// Disconnects the subscriber once it is more than `capacity` messages behind, or when the topic is full.
    Disconnect {
        /// Number of messages, at least one.
        capacity: usize,
    },
}

impl Overflow {
    /// Raises a capacity of 0 to 1.
    fn with_min_capacity(mut self) -> Self {
        match &mut self {
            Self::Block => {}
            Self::DropOldest { capacity } | Self::DropNewest { capacity } | Self::Disconnect { capacity } => {
                *capacity = (*capacity).max(1);
            }
        }
        self
    }
}

/// Error returned when there will be no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ended {
    /// The topic was closed, and all messages published before were read.
    #[error("the topic is closed")]
    Closed,
    /// The subscriber was too slow for [`Overflow::Disconnect`].
    #[error("the subscriber was too slow and was disconnected")]
    Disconnected,
    /// The subscription was deleted.
    #[error("the subscription was deleted")]
    Deleted,
}

/// Numbers of the messages published since a subscriber joined, by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BroadcastAccount {
    /// Number of messages published since it joined.
    pub published: u64,
    /// Number of messages delivered to it.
    pub delivered: u64,
    /// Number of messages that it has yet to read.
    pub backlog: u64,
    /// Number of messages that it will never receive.
    pub dropped: u64,
}

impl BroadcastAccount {
    /// Returns true if every published message is accounted for.
    pub const fn is_exact(&self) -> bool {
        self.published == self.delivered + self.backlog + self.dropped
    }
}

/// State that a subscriber shares with the topic and its observers.
pub(super) struct SubscriberState {
    pub(super) overflow: Overflow,
    joined: AtomicU64,
    position: AtomicU64,
    dropped: AtomicU64,
    owner: AtomicU64,
    gone: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// Queue of pushed messages; used only with [`Overflow::DropNewest`].
    pushed: Mutex<PushQueue>,
}

/// Queue of messages that the log need not retain for the subscriber; therefore bounded here.
struct PushQueue {
    messages: VecDeque<Message>,
    bytes: usize,
    limits: LogLimits,
}

impl SubscriberState {
    fn new(overflow: Overflow, joined: u64, limits: LogLimits) -> Self {
        Self {
            overflow: overflow.with_min_capacity(),
            joined: AtomicU64::new(joined),
            position: AtomicU64::new(joined),
            dropped: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            waker: Mutex::new(None),
            pushed: Mutex::new(PushQueue { messages: VecDeque::new(), bytes: 0, limits }),
        }
    }

    fn begin(&self, position: u64) {
        self.joined.store(position, Ordering::Relaxed);
        self.position.store(position, Ordering::Relaxed);
    }

    /// Number of messages published since the subscriber joined.
    fn published(&self, head: u64) -> u64 {
        head - self.joined.load(Ordering::Relaxed)
    }

    /// Process that waited last.
    pub(super) fn owner(&self) -> Option<Pid> {
        crate::stream::ring::unpacked(self.owner.load(Ordering::Relaxed))
    }

    /// Number of messages that it will never receive, including those that it has not skipped yet.
    pub(super) fn dropped(&self, head: u64) -> u64 {
        self.dropped.load(Ordering::Relaxed) + self.overflowed(head)
    }

    pub(super) fn delivered(&self) -> u64 {
        let passed = self.position.load(Ordering::Relaxed) - self.joined.load(Ordering::Relaxed);
        if self.is_pushed() { passed } else { passed.saturating_sub(self.dropped.load(Ordering::Relaxed)) }
    }

    pub(super) fn backlog(&self, head: u64) -> u64 {
        if self.is_pushed() {
            return self.pushed.lock().messages.len() as u64;
        }
        self.behind(head) - self.overflowed(head)
    }

    fn behind(&self, head: u64) -> u64 {
        head.saturating_sub(self.position.load(Ordering::Relaxed))
    }

    /// Number of unread messages that the policy has given up; the next read skips them.
    fn overflowed(&self, head: u64) -> u64 {
        let behind = self.behind(head);
        match self.overflow {
            Overflow::DropOldest { capacity } => behind.saturating_sub(capacity as u64),
            Overflow::Disconnect { capacity } if self.gone.load(Ordering::Relaxed) || behind > capacity as u64 => {
                behind
            }
            _ => 0,
        }
    }

    const fn is_pushed(&self) -> bool {
        matches!(self.overflow, Overflow::DropNewest { .. })
    }

    /// Position of the next message in the log; `None` if messages are pushed.
    pub(super) fn position(&self) -> Option<u64> {
        (!self.is_pushed()).then(|| self.position.load(Ordering::Relaxed))
    }
}

impl Waiter for SubscriberState {
    fn wake(&self) {
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            panics::wake(waker);
        }
    }
}

impl PushSubscriber for SubscriberState {
    fn push(&self, message: &Message) -> bool {
        let Overflow::DropNewest { capacity } = self.overflow else { return false };
        let mut pushed = self.pushed.lock();
        let bytes = pushed.bytes + message.bytes();
        if pushed.messages.len() >= capacity.min(pushed.limits.messages) || bytes > pushed.limits.bytes {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        pushed.bytes = bytes;
        pushed.messages.push_back(message.clone());
        pushed.messages.len() == 1
    }
}

/// Receives the messages published after it joined, except those dropped by its [`Overflow`] policy. Dropping it
/// removes it from the topic.
///
/// Created by [`Topic::subscribe`](super::Topic::subscribe).
pub struct Subscriber {
    topic: Arc<TopicShared>,
    state: Arc<SubscriberState>,
    waiter: Arc<dyn Waiter>,
    /// `None` if messages are pushed.
    cursor: Option<Cursor>,
    /// Messages taken from the push queue by the last call.
    taken: Vec<OnceLock<Message>>,
    id: u64,
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("topic", &self.topic.name)
            .field("account", &self.account())
            .finish_non_exhaustive()
    }
}

impl Subscriber {
    pub(super) fn join(topic: &Arc<TopicShared>, overflow: Overflow, oldest: bool) -> Self {
        let topic = Arc::clone(topic);
        if matches!(overflow, Overflow::DropNewest { .. }) {
            let mut log = topic.log.lock();
            let state = Arc::new(SubscriberState::new(overflow, log.head, topic.log.limits()));
            log.push_subscribers.push(Arc::<SubscriberState>::clone(&state));
            log.had_subscriber = true;
            drop(log);
            return Self::register(topic, state, None);
        }
        let state = Arc::new(SubscriberState::new(overflow, 0, topic.log.limits()));
        let waiter: Arc<dyn Waiter> = Arc::<SubscriberState>::clone(&state);
        let cursor = Cursor::join(&topic.log, oldest, overflow == Overflow::Block, &waiter);
        state.begin(cursor.position());
        Self::register(topic, state, Some(cursor))
    }

    fn register(topic: Arc<TopicShared>, state: Arc<SubscriberState>, cursor: Option<Cursor>) -> Self {
        let id = topic.add_subscriber(&state);
        let waiter: Arc<dyn Waiter> = Arc::<SubscriberState>::clone(&state);
        Self { topic, state, waiter, cursor, taken: Vec::new(), id }
    }

    /// Returns what happened to the messages published since it joined; exact while no messages are being published.
    pub fn account(&self) -> BroadcastAccount {
        let head = self.topic.log.head();
        let (published, backlog) = (self.state.published(head), self.state.backlog(head));
        let (delivered, dropped) = (self.state.delivered(), self.state.dropped(head));
        BroadcastAccount { published, delivered, backlog, dropped }
    }

    /// Number of messages that it will never receive.
    pub fn dropped(&self) -> u64 {
        self.state.dropped(self.topic.log.head())
    }

    /// Waits for the next message.
    ///
    /// Cancel safe: dropping the future loses no message.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub async fn next(&mut self) -> Result<&Message, Ended> {
        poll_fn(|cx| self.poll_ready(cx, true)).await?;
        Ok(self.take_one())
    }

    /// Waits until there is a message, and returns up to `most` available messages.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub async fn next_batch(&mut self, most: usize) -> Result<Batch<'_>, Ended> {
        let ready = poll_fn(|cx| self.poll_ready(cx, true)).await?;
        Ok(self.take_batch(ready.min(most.max(1))))
    }

    /// Returns the next message if one is available now.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub fn try_next(&mut self) -> Result<Option<&Message>, Ended> {
        Ok(if self.ready()? > 0 { Some(self.take_one()) } else { None })
    }

    /// Returns up to `most` messages that are available now, possibly none.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub fn try_next_batch(&mut self, most: usize) -> Result<Batch<'_>, Ended> {
        let ready = self.ready()?;
        Ok(self.take_batch(ready.min(most.max(1))))
    }

    /// Blocks the calling thread until there is a message.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn blocking_next(&mut self) -> Result<&Message, Ended> {
        park::block_until(None, |cx| self.poll_ready(cx, false)).unwrap_or(Err(Ended::Closed))?;
        Ok(self.take_one())
    }

    /// Number of messages that can be taken as one slice now; 0 if the queue is empty.
    #[inline]
    fn ready(&mut self) -> Result<usize, Ended> {
        let ready = match self.state.overflow {
            Overflow::Block => {
                let Some(cursor) = &mut self.cursor else { return Ok(0) };
                cursor.ready(&self.topic.log, &mut 0)
            }
            _ => self.ready_lossy()?,
        };
        if ready == 0 && self.topic.log.is_closed() && self.is_at_end() {
            return Err(Ended::Closed);
        }
        Ok(ready)
    }

    fn is_at_end(&self) -> bool {
        self.cursor.as_ref().map_or_else(
            || self.state.pushed.lock().messages.is_empty(),
            |cursor| cursor.position() == self.topic.log.head(),
        )
    }

    fn ready_lossy(&mut self) -> Result<usize, Ended> {
        let Some(cursor) = &mut self.cursor else { return Ok(self.state.pushed.lock().messages.len()) };
        if self.state.gone.load(Ordering::Relaxed) {
            return Err(Ended::Disconnected);
        }
        let mut missed = 0;
        // First count the messages evicted by the log, then those beyond this subscriber's capacity.
        let mut ready = cursor.ready(&self.topic.log, &mut missed);
        let behind = self.topic.log.head().saturating_sub(cursor.position());
        match self.state.overflow {
            Overflow::DropOldest { capacity } if behind > capacity as u64 => {
                missed += cursor.skip_to(&self.topic.log, cursor.position() + behind - capacity as u64);
                ready = cursor.ready(&self.topic.log, &mut missed);
            }
            Overflow::Disconnect { capacity } if behind > capacity as u64 || missed > 0 => {
                self.state.gone.store(true, Ordering::Relaxed);
                missed += cursor.skip_to(&self.topic.log, cursor.position() + behind);
                self.state.position.store(cursor.position(), Ordering::Relaxed);
                self.state.dropped.fetch_add(missed, Ordering::Relaxed);
                return Err(Ended::Disconnected);
            }
            _ => {}
        }
        if missed > 0 {
            self.state.position.store(cursor.position(), Ordering::Relaxed);
            self.state.dropped.fetch_add(missed, Ordering::Relaxed);
        }
        Ok(ready)
    }

    /// Waits for messages; returns the number that can be taken as one slice.
    fn poll_ready(&mut self, cx: &mut Context<'_>, cooperative: bool) -> Poll<Result<usize, Ended>> {
        if cooperative && !turn::may_proceed(cx) {
            return Poll::Pending;
        }
        loop {
            let ready = self.ready()?;
            if ready > 0 {
                return Poll::Ready(Ok(ready));
            }
            self.state.owner.store(turn::running_pid().map_or(0, crate::stream::ring::packed), Ordering::Relaxed);
            self.store_waker(cx.waker());
            let sleeps = match &mut self.cursor {
                Some(cursor) => cursor.park(&self.topic.log, &self.waiter),
                None => self.state.pushed.lock().messages.is_empty(),
            };
            if sleeps && !self.topic.log.is_closed() {
                turn::record_wait();
                return Poll::Pending;
            }
            // New messages arrived or the topic was closed meanwhile: check again.
        }
    }

    fn store_waker(&self, waker: &Waker) {
        let mut stored = self.state.waker.lock();
        if !stored.as_ref().is_some_and(|stored| stored.will_wake(waker)) {
            *stored = Some(waker.clone());
        }
    }

    #[inline]
    fn take_one(&mut self) -> &Message {
        match &mut self.cursor {
            Some(cursor) => {
                // Relaxed: only observers read it.
                self.state.position.store(cursor.position() + 1, Ordering::Relaxed);
                cursor.next()
            }
            None => {
                take_pushed(&self.state, &mut self.taken, 1).first().and_then(OnceLock::get).expect("one is available")
            }
        }
    }

    #[inline]
    fn take_batch(&mut self, count: usize) -> Batch<'_> {
        let slots = match &mut self.cursor {
            Some(_) if count == 0 => &[],
            Some(cursor) => {
                self.state.position.store(cursor.position() + count as u64, Ordering::Relaxed);
                cursor.take_many(count)
            }
            None => take_pushed(&self.state, &mut self.taken, count),
        };
        Batch { slots: slots.iter() }
    }
}

/// Moves messages from the push queue to `taken`, from which they are borrowed.
fn take_pushed<'a>(
    state: &SubscriberState,
    taken: &'a mut Vec<OnceLock<Message>>,
    count: usize,
) -> &'a [OnceLock<Message>] {
    taken.clear();
    let mut pushed = state.pushed.lock();
    taken.extend(pushed.messages.drain(..count).map(OnceLock::from));
    pushed.bytes -= taken.iter().filter_map(OnceLock::get).map(Message::bytes).sum::<usize>();
    drop(pushed);
    // Relaxed: only observers read it.
    state.position.fetch_add(count as u64, Ordering::Relaxed);
    taken
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        match &mut self.cursor {
            Some(cursor) => cursor.leave(&self.topic.log, &self.waiter),
            None => self
                .topic
                .log
                .lock()
                .push_subscribers
                .retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(&self.state))),
        }
        self.topic.remove_subscriber(self.id);
    }
}

/// Messages received together, borrowed from the log. Clone a message to keep it.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    slots: std::slice::Iter<'a, OnceLock<Message>>,
}

impl<'a> Iterator for Batch<'a> {
    type Item = &'a Message;

    #[inline]
    fn next(&mut self) -> Option<&'a Message> {
        self.slots.next().and_then(OnceLock::get)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for Batch<'_> {}
