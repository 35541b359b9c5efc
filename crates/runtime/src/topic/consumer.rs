//! Consumers: a process's handle to receive and acknowledge messages of a subscription.

use std::fmt;
use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::broadcast::overflow::Ended;
use super::subscription::config::Lease;
use super::subscription::in_flight::{AckId, AckStatus};
use super::subscription::state::SubscriptionState;
use super::subscription::{Subscription, SubscriptionInner};
use crate::stream::ring::park;
use crate::stream::ring::turn;

/// Receives messages of a subscription. Dropping the consumer returns its leased messages at once; the exit of its
/// process does the same.
///
/// Created by [`Subscription::consumer`].
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{AckStatus, Message, SubscriptionConfig};
///
/// let orders = runtime.topics().create("orders")?;
/// let billing = orders.create_subscription("billing", SubscriptionConfig::default())?;
/// orders.blocking_publish(Message::new("tea"))?;
/// let mut consumer = billing.consumer();
/// let first = consumer.blocking_next()?;
/// assert_eq!(consumer.nack(first.id), AckStatus::Done);
/// let again = consumer.blocking_next()?;
/// assert_eq!((again.attempt, consumer.ack(again.id)), (2, AckStatus::Done));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Consumer {
    subscription: Subscription,
    id: u32,
    place: Arc<ConsumerPlace>,
}

/// The place of a consumer in its subscription. When the last reference is dropped, leases that are left are returned.
#[derive(Debug)]
pub(crate) struct ConsumerPlace {
    subscription: Subscription,
    id: u32,
}

impl ConsumerPlace {
    pub(crate) const fn subscription(&self) -> &Subscription {
        &self.subscription
    }
}

impl Drop for ConsumerPlace {
    fn drop(&mut self) {
        let inner = &self.subscription.0;
        let now_ns = inner.topic.now_ns();
        inner.change(|state| state.remove_consumer(self.id, now_ns));
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Consumer").field(&self.subscription).finish()
    }
}

impl Subscription {
    /// Adds a consumer; each message is delivered to one consumer. Its leases end with it: keep it until its messages are
    /// acknowledged.
    pub fn consumer(&self) -> Consumer {
        Consumer::new(Arc::clone(&self.0))
    }
}

impl Consumer {
    fn new(inner: Arc<SubscriptionInner>) -> Self {
        let consumer_id = inner.state.lock().add_consumer(turn::running_pid());
        let subscription = Subscription(inner);
        let place = Arc::new(ConsumerPlace { subscription: subscription.clone(), id: consumer_id });
        Self { subscription, id: consumer_id, place }
    }

    /// Returns the place of this consumer: leases that it took stay leased while a reference to it exists.
    pub(crate) fn place(&self) -> Arc<ConsumerPlace> {
        Arc::clone(&self.place)
    }

    /// Returns the subscription.
    pub const fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Waits for the next message.
    ///
    /// Cancel safe: dropping the future loses no message.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub async fn next(&mut self) -> Result<Lease, Ended> {
        let mut waits = Waits::new(self);
        poll_fn(|cx| {
            waits.poll(cx, true, |state, inner, consumer_id, now_ns| {
                state.take_one(&inner.topic.log, consumer_id, now_ns)
            })
        })
        .await
    }

    /// Waits until there is a message, and returns up to `most` available messages.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub async fn next_batch(&mut self, most: usize) -> Result<Vec<Lease>, Ended> {
        let mut batch = Vec::new();
        self.next_batch_into(&mut batch, most).await?;
        Ok(batch)
    }

    /// Like [`next_batch`](Self::next_batch), but clears and fills a buffer of the caller.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub async fn next_batch_into(&mut self, batch: &mut Vec<Lease>, most: usize) -> Result<(), Ended> {
        batch.clear();
        let mut waits = Waits::new(self);
        poll_fn(|cx| {
            waits.poll(cx, true, |state, inner, consumer_id, now_ns| {
                state.take(&inner.topic.log, consumer_id, most.max(1), now_ns, batch);
                (!batch.is_empty()).then_some(())
            })
        })
        .await
    }

    /// Returns the next message if one is available now.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub fn try_next(&mut self) -> Result<Option<Lease>, Ended> {
        self.try_take(|state, inner, consumer_id, now_ns| state.take_one(&inner.topic.log, consumer_id, now_ns))
    }

    /// Clears `batch` and fills it with up to `most` messages that are available now.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub fn try_next_batch_into(&mut self, batch: &mut Vec<Lease>, most: usize) -> Result<(), Ended> {
        batch.clear();
        self.try_take(|state, inner, consumer_id, now_ns| {
            state.take(&inner.topic.log, consumer_id, most.max(1), now_ns, batch);
            (!batch.is_empty()).then_some(())
        })
        .map(drop)
    }

    fn try_take<R>(
        &mut self,
        take: impl FnOnce(&mut SubscriptionState, &SubscriptionInner, u32, u64) -> Option<R>,
    ) -> Result<Option<R>, Ended> {
        let inner = &self.subscription.0;
        let now_ns = inner.topic.now_ns();
        let mut state = inner.state.lock();
        state.stop_waiting(self.id);
        let taken = take(&mut state, inner, self.id, now_ns);
        let ended = if taken.is_none() { ended(&state, inner) } else { None };
        inner.after_change(state);
        ended.map_or(Ok(taken), Err)
    }

    /// Blocks the calling thread until there is a message.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn blocking_next(&mut self) -> Result<Lease, Ended> {
        let mut waits = Waits::new(self);
        let take = |state: &mut SubscriptionState, inner: &SubscriptionInner, consumer_id, now_ns| {
            state.take_one(&inner.topic.log, consumer_id, now_ns)
        };
        park::block_until(None, |cx| waits.poll(cx, false, take)).unwrap_or(Err(Ended::Closed))
    }

    /// Acknowledges a message.
    #[inline]
    pub fn ack(&self, id: AckId) -> AckStatus {
        self.subscription.ack(id)
    }

    /// Returns false if `id` is a current lease of another consumer.
    #[doc(hidden)]
    pub fn may_settle(&self, id: AckId) -> bool {
        let state = self.subscription.0.state.lock();
        state.in_flight.find_lease(id).map_or(true, |slot| state.in_flight.item(slot).consumer == self.id)
    }

    /// Returns a message, which will be delivered again.
    pub fn nack(&self, id: AckId) -> AckStatus {
        self.subscription.nack(id)
    }
}

/// The messages with their leases; the stream ends where [`next`](Self::next) returns an error.
///
/// A stream that has been polled holds the place of a waiting consumer: poll it again, or drop it.
impl Stream for Consumer {
    type Item = Lease;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Lease>> {
        // Not dropped while it waits: its drop would end the wait.
        let mut waits = ManuallyDrop::new(Waits::new(&mut self));
        let polled = waits
            .poll(cx, true, |state, inner, consumer_id, now_ns| state.take_one(&inner.topic.log, consumer_id, now_ns));
        polled.map(Result::ok)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // A stream may have been dropped while it waited.
        self.subscription.0.change(|state| state.stop_waiting(self.id));
    }
}

fn ended(state: &SubscriptionState, inner: &SubscriptionInner) -> Option<Ended> {
    if state.deleted { Some(Ended::Deleted) } else { state.is_finished(&inner.topic.log).then_some(Ended::Closed) }
}

/// A consumer's wait for messages. If dropped after an unused wake-up, it wakes another waiting consumer.
struct Waits<'a> {
    consumer: &'a mut Consumer,
    pending: bool,
}

impl<'a> Waits<'a> {
    const fn new(consumer: &'a mut Consumer) -> Self {
        Self { consumer, pending: false }
    }

    #[inline]
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        cooperative: bool,
        take: impl FnOnce(&mut SubscriptionState, &SubscriptionInner, u32, u64) -> Option<R>,
    ) -> Poll<Result<R, Ended>> {
        if cooperative && !turn::may_proceed(cx) {
            return Poll::Pending;
        }
        let (inner, consumer_id) = (&self.consumer.subscription.0, self.consumer.id);
        let now_ns = inner.topic.now_ns();
        let mut state = inner.state.lock();
        state.stop_waiting(consumer_id);
        if let Some(taken) = take(&mut state, inner, consumer_id, now_ns) {
            self.pending = false;
            inner.after_change(state);
            return Poll::Ready(Ok(taken));
        }
        if let Some(ended) = ended(&state, inner) {
            // Other waiting consumers must see the end, too.
            inner.after_change(state);
            return Poll::Ready(Err(ended));
        }
        self.pending = true;
        state.wait(consumer_id, cx.waker(), turn::running_pid());
        // A message published since `take` found the cursor awake and so woke no consumer: `settle` wakes this one or
        // another that waits. It also publishes what `take` gave up (dead letters).
        inner.after_change(state);
        turn::record_wait();
        Poll::Pending
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.pending {
            let (inner, consumer_id) = (&self.consumer.subscription.0, self.consumer.id);
            let mut state = inner.state.lock();
            let unused = state.consumers[consumer_id as usize].woken;
            state.stop_waiting(consumer_id);
            if unused {
                inner.after_change(state);
            }
        }
    }
}
