//! Subscriptions with acknowledgements: each message is leased to one consumer at a time, until it is finished.

pub(crate) mod config;
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
use smallvec::SmallVec;

use super::cursor::Cursor;
use super::journal::FlushPoint;
use super::retention::Waiter;
use super::shared::TopicShared;
use crate::runtime::panics;
use crate::stream::ring::park;
use config::{ACK_DEADLINE_MAX, FlushError, SubscriptionAccount, SubscriptionConfig};
use in_flight::{AckId, AckStatus};
use state::SubscriptionState;

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
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{Message, SubscriptionConfig};
///
/// let orders = runtime.topics().create("orders")?;
/// let billing = orders.find_or_create_subscription("billing", SubscriptionConfig::default())?;
/// orders.blocking_publish(Message::new("tea"))?;
/// // It keeps the message until a consumer acknowledges it.
/// assert_eq!((billing.account().published, billing.account().backlog), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
        // The program's iterator runs outside of the lock.
        let ids: SmallVec<[AckId; 32]> = ids.into_iter().collect();
        self.0.change(|state| ids.into_iter().filter(|id| state.ack(*id).is_ok()).count())
    }

    /// Returns a message, which will be delivered again.
    pub fn nack(&self, id: AckId) -> AckStatus {
        let now_ns = self.0.topic.now_ns();
        self.0.change(|state| state.nack(id, now_ns))
    }

    /// Returns a message that was not handled: it is delivered again at once, and the attempt does not count.
    pub fn give_back(&self, id: AckId) -> AckStatus {
        let now_ns = self.0.topic.now_ns();
        self.0.change(|state| state.give_back(id, now_ns))
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
        // Held to the end, so that a new one of this name begins in the journal after this one has ended there.
        let mut subscriptions = self.0.topic.subscriptions.lock();
        subscriptions.retain(|_, other| !Arc::ptr_eq(other, &self.0));
        let mut state = self.0.state.lock();
        if !state.deleted {
            state.clear(&self.0.topic.log);
            self.0.cancel_timer(&mut state);
            state.cursor.leave(&self.0.topic.log, &self.0.waiter);
        }
        drop(state);
        drop(subscriptions);
        self.0.wake_all();
    }
}
