//! Subscribers without acknowledgements: each receives every message at most once, at its own pace.

pub(crate) mod overflow;
pub(crate) mod state;
mod streams;

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use super::cursor::Cursor;
use super::message::Message;
use super::retention::{DeferredWork, Waiter};
use super::shared::TopicShared;
use crate::stream::ring::park;
use crate::stream::ring::shared::packed;
use crate::stream::ring::turn;
use overflow::{BroadcastAccount, Ended, Overflow};
use state::SubscriberState;

/// Receives the messages published after it joined, except those dropped by its [`Overflow`] policy. Dropping it
/// removes it from the topic.
///
/// Created by [`Topic::subscribe`](super::Topic::subscribe).
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{Message, Overflow};
///
/// let prices = runtime.topics().create("prices")?;
/// // Only the newest two are of interest.
/// let mut screen = prices.subscribe(Overflow::DropOldest { capacity: 2 });
/// for price in ["1", "2", "3"] {
///     prices.blocking_publish(Message::new(price))?;
/// }
/// assert_eq!(screen.blocking_next()?.payload(), "2");
/// assert_eq!(screen.dropped(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
            // Publishers may have waited for a first subscriber.
            let mut deferred = DeferredWork::default();
            log.reclaim(&mut deferred);
            drop(log);
            deferred.run();
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

    /// Returns what happened to the messages published since it joined; exact while no messages are being published. What
    /// the topic has removed to make room is in the backlog until the next read, and then among the dropped.
    pub fn account(&self) -> BroadcastAccount {
        let head = self.topic.log.head();
        let (published, backlog) = (self.state.published(head), self.state.backlog(head));
        let (delivered, dropped) = (self.state.delivered(), self.state.dropped(head));
        BroadcastAccount { published, delivered, backlog, dropped }
    }

    /// Number of messages that it will never receive, as of its last read if the topic has removed some since.
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
                if self.state.owner.load(Ordering::Relaxed) == 0 {
                    // A slow reader may never wait.
                    self.note_owner();
                }
                return Poll::Ready(Ok(ready));
            }
            self.note_owner();
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

    fn note_owner(&self) {
        self.state.owner.store(turn::running_pid().map_or(0, packed), Ordering::Relaxed);
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
        if self.state.overflow != Overflow::Block {
            // Counts what the topic has removed since the last read.
            _ = self.ready_lossy();
        }
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
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{Message, Overflow};
///
/// let prices = runtime.topics().create("prices")?;
/// let mut screen = prices.subscribe(Overflow::Block);
/// for price in ["9.80", "9.90", "10.10"] {
///     prices.blocking_publish(Message::new(price))?;
/// }
/// let mut texts = Vec::new();
/// while texts.len() < 3 {
///     let batch = screen.try_next_batch(100)?;
///     texts.extend(batch.map(|message| message.payload().clone()));
/// }
/// assert_eq!(texts, ["9.80", "9.90", "10.10"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
