//! Consumers: a process's handle to receive and acknowledge messages of a subscription.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::broadcast::Ended;
use super::desk::Desk;
use super::hand::{AckId, AckStatus};
use super::subscription::{Inner, Lease, Subscription};
use crate::ring::park;
use crate::ring::turn;

/// Receives messages of a subscription. Dropping the consumer returns its leased messages at once; the exit of its
/// process does the same.
///
/// Created by [`Subscription::consumer`].
pub struct Consumer {
    subscription: Subscription,
    seat: u32,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Consumer").field(&self.subscription).finish()
    }
}

impl Consumer {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let seat = inner.desk.lock().sit(turn::running_pid());
        Self { subscription: Subscription(inner), seat }
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
        let mut waits = Waits { consumer: self, pending: false };
        poll_fn(|cx| waits.poll(cx, true, |desk, inner, seat, now_ns| desk.take_one(&inner.topic.log, seat, now_ns)))
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
        let mut waits = Waits { consumer: self, pending: false };
        poll_fn(|cx| {
            waits.poll(cx, true, |desk, inner, seat, now_ns| {
                desk.take(&inner.topic.log, seat, most.max(1), now_ns, batch);
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
        self.try_take(|desk, inner, seat, now_ns| desk.take_one(&inner.topic.log, seat, now_ns))
    }

    /// Clears `batch` and fills it with up to `most` messages that are available now.
    ///
    /// # Errors
    /// [`Ended`] when there will be no more messages.
    pub fn try_next_batch_into(&mut self, batch: &mut Vec<Lease>, most: usize) -> Result<(), Ended> {
        batch.clear();
        self.try_take(|desk, inner, seat, now_ns| {
            desk.take(&inner.topic.log, seat, most.max(1), now_ns, batch);
            (!batch.is_empty()).then_some(())
        })
        .map(drop)
    }

    fn try_take<R>(&mut self, take: impl FnOnce(&mut Desk, &Inner, u32, u64) -> Option<R>) -> Result<Option<R>, Ended> {
        let inner = &self.subscription.0;
        let now_ns = inner.topic.now_ns();
        let mut desk = inner.desk.lock();
        desk.looks(self.seat);
        let taken = take(&mut desk, inner, self.seat, now_ns);
        let ended = if taken.is_none() { ended(&desk, inner) } else { None };
        inner.settle(desk);
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
        let mut waits = Waits { consumer: self, pending: false };
        let take = |desk: &mut Desk, inner: &Inner, seat, now_ns| desk.take_one(&inner.topic.log, seat, now_ns);
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
        let desk = self.subscription.0.desk.lock();
        desk.hand.leased(id).map_or(true, |slot| desk.hand.item(slot).consumer == self.seat)
    }

    /// Returns a message, which will be delivered again.
    pub fn nack(&self, id: AckId) -> AckStatus {
        self.subscription.nack(id)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let inner = &self.subscription.0;
        let now_ns = inner.topic.now_ns();
        inner.change(|desk| desk.stand_up(self.seat, now_ns));
    }
}

fn ended(desk: &Desk, inner: &Inner) -> Option<Ended> {
    if desk.deleted { Some(Ended::Deleted) } else { desk.is_over(&inner.topic.log).then_some(Ended::Closed) }
}

/// A consumer's wait for messages. If dropped after an unused wake-up, it wakes another waiting consumer.
struct Waits<'a> {
    consumer: &'a mut Consumer,
    pending: bool,
}

impl Waits<'_> {
    #[inline]
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        in_turns: bool,
        take: impl FnOnce(&mut Desk, &Inner, u32, u64) -> Option<R>,
    ) -> Poll<Result<R, Ended>> {
        if in_turns && !turn::may_go_on(cx) {
            return Poll::Pending;
        }
        let (inner, seat) = (&self.consumer.subscription.0, self.consumer.seat);
        let now_ns = inner.topic.now_ns();
        let mut desk = inner.desk.lock();
        desk.looks(seat);
        if let Some(taken) = take(&mut desk, inner, seat, now_ns) {
            self.pending = false;
            inner.settle(desk);
            return Poll::Ready(Ok(taken));
        }
        if let Some(ended) = ended(&desk, inner) {
            // Other waiting consumers must see the end, too.
            inner.settle(desk);
            return Poll::Ready(Err(ended));
        }
        self.pending = true;
        desk.wait(seat, cx.waker(), turn::running_pid());
        // A message published since `take` found the cursor awake and so woke no consumer: `settle` wakes this one or
        // another that waits. It also publishes what `take` gave up (dead letters).
        inner.settle(desk);
        turn::waits();
        Poll::Pending
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.pending {
            let (inner, seat) = (&self.consumer.subscription.0, self.consumer.seat);
            let mut desk = inner.desk.lock();
            let unused = desk.seats[seat as usize].woken;
            desk.looks(seat);
            if unused {
                inner.settle(desk);
            }
        }
    }
}
