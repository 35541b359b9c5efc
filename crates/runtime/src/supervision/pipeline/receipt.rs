//! Receipts: what an item owes to its subscription, until it is acknowledged or dropped.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::topic::consumer::ConsumerPlace;
use crate::topic::{AckId, Subscription};

/// The lease of one message. Dropping it returns the message.
pub(super) struct Receipt {
    /// Also of a source that has ended, so that the item is settled by what happens to it.
    consumer: Arc<ConsumerPlace>,
    id: AckId,
    /// True while a worker handles the item: only then does its failure count as an attempt.
    is_begun: bool,
    is_acked: bool,
}

impl Receipt {
    pub(super) fn new(consumer: &Arc<ConsumerPlace>, id: AckId) -> Self {
        Self { consumer: Arc::clone(consumer), id, is_begun: false, is_acked: false }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if self.is_acked {
            return;
        }
        // The status does not matter: a lease that is over has been returned already.
        let settle = if self.is_begun { Subscription::nack } else { Subscription::give_back };
        let _status = settle(self.consumer.subscription(), self.id);
    }
}

/// The leases of all messages from which an item was produced.
#[derive(Default)]
pub(super) struct Receipts(SmallVec<[Receipt; 1]>);

impl Receipts {
    pub(super) fn of(receipt: Receipt) -> Self {
        Self(SmallVec::from_buf([receipt]))
    }

    /// Adds the leases of another item.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Notes that a worker begins with the item, or has finished it.
    pub(super) fn set_begun(&mut self, is_begun: bool) {
        for receipt in &mut self.0 {
            receipt.is_begun = is_begun;
        }
    }

    /// Acknowledges the messages, all in one change of the subscription.
    pub(super) fn ack(mut self) {
        let Some(subscription) = self.0.first().map(|receipt| receipt.consumer.subscription().clone()) else { return };
        for receipt in &mut self.0 {
            receipt.is_acked = true;
        }
        subscription.ack_all(self.0.iter().map(|receipt| receipt.id));
    }
}
