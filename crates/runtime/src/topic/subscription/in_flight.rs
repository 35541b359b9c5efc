//! Messages in flight: read from the log by a subscription and not finished. They are leased, waiting for another
//! attempt, or queued behind others of their key.
//!
//! ```text
//!   AckId = slot ┊ generation     a slot gets a new generation when its lease ends, so an old id no longer matches
//! ```

use std::fmt;

use crate::topic::message::Message;
use crate::topic::subscription::ordering_keys::KeyId;

/// Id of a lease, unique within its subscription. Another subscription may use the same number.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{AckId, AckStatus, Message, SubscriptionConfig};
///
/// let orders = runtime.topics().create("orders")?;
/// let billing = orders.create_subscription("billing", SubscriptionConfig::default())?;
/// orders.blocking_publish(Message::new("tea"))?;
/// let mut consumer = billing.consumer();
///
/// // The number can go to another program, which says later that the message is done.
/// let number = consumer.blocking_next()?.id.to_u64();
/// assert_eq!(billing.ack(AckId::from_u64(number)), AckStatus::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AckId(u64);

impl AckId {
    const fn new(slot: u32, generation: u32) -> Self {
        Self((slot as u64) << 32 | generation as u64)
    }

    /// Returns the id as a number, to pass it elsewhere.
    pub const fn to_u64(self) -> u64 {
        self.0
    }

    /// Creates an id from its number. Acknowledging a number that was never issued gives [`AckStatus::Unknown`].
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    pub(crate) const fn slot(self) -> u32 {
        (self.0 >> 32) as u32
    }

    const fn generation(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for AckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AckId({}.{})", self.slot(), self.generation())
    }
}

/// Result of an acknowledgement, a return or a change of the deadline. Every status but `Done` has changed nothing.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{AckStatus, Message, SubscriptionConfig};
///
/// let orders = runtime.topics().create("orders")?;
/// let billing = orders.create_subscription("billing", SubscriptionConfig::default())?;
/// orders.blocking_publish(Message::new("tea"))?;
///
/// let mut consumer = billing.consumer();
/// let lease = consumer.blocking_next()?;
/// assert_eq!(consumer.nack(lease.id), AckStatus::Done);
/// assert_eq!(consumer.ack(lease.id), AckStatus::AlreadyNacked, "the message comes again, under another id");
/// let again = consumer.blocking_next()?;
/// assert_eq!(consumer.ack(again.id), AckStatus::Done);
/// assert_eq!(consumer.ack(again.id), AckStatus::AlreadyAcked);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "any status other than `Done` means that nothing was changed"]
pub enum AckStatus {
    /// The operation succeeded.
    Done,
    /// The message had been acknowledged before.
    AlreadyAcked,
    /// The message had been returned before.
    AlreadyNacked,
    /// The deadline has passed; the message is delivered again, or has been.
    Expired,
    /// The lease was revoked: its consumer ended, or an earlier message of its key must be delivered first.
    Revoked,
    /// The lease never existed, or ended too long ago to tell how.
    Unknown,
}

/// Delivery state of a message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryState {
    /// Leased to a consumer.
    Leased,
    /// Waiting for its next attempt.
    Delayed,
    /// Ready to be delivered again.
    Ready,
    /// Queued behind other messages of its key.
    Queued,
    Free,
}

pub(crate) struct Item {
    pub(crate) message: Option<Message>,
    pub(crate) position: u64,
    /// Ordering key, if the subscription is ordered.
    pub(crate) key: Option<KeyId>,
    /// Number of deliveries.
    pub(crate) attempt: u32,
    generation: u32,
    pub(crate) consumer: u32,
    pub(crate) state: DeliveryState,
    /// How the lease of the previous generation ended.
    ended: AckStatus,
    /// The message was delivered before.
    pub(crate) was_delivered: bool,
    /// Approximate publication time, in nanoseconds since the start of the runtime; for observers.
    pub(crate) published_ns: u64,
    /// Time of the last delivery.
    pub(crate) since_ns: u64,
    pub(crate) deadline_ns: u64,
}

/// The messages in flight of a subscription, in reusable slots.
#[derive(Default)]
pub(crate) struct InFlight {
    items: Vec<Item>,
    free: Vec<u32>,
    counts: [usize; 4],
    /// Generation with which new slots begin.
    next_generation: u32,
}

impl InFlight {
    /// Number of messages in flight.
    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    pub(crate) const fn count(&self, state: DeliveryState) -> usize {
        match state {
            DeliveryState::Free => 0,
            state => self.counts[state as usize],
        }
    }

    /// Adds a message; returns its slot.
    #[inline]
    pub(crate) fn insert(&mut self, message: Message, position: u64, published_ns: u64) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.items.push(Item {
                message: None,
                position,
                key: None,
                attempt: 0,
                generation: self.next_generation.max(1),
                consumer: 0,
                state: DeliveryState::Free,
                ended: AckStatus::Unknown,
                was_delivered: false,
                published_ns,
                since_ns: 0,
                deadline_ns: 0,
            });
            self.items.len() as u32 - 1
        });
        let item = &mut self.items[slot as usize];
        item.message = Some(message);
        item.position = position;
        item.key = None;
        item.was_delivered = false;
        item.attempt = 0;
        item.published_ns = published_ns;
        slot
    }

    #[inline]
    pub(crate) fn item(&self, slot: u32) -> &Item {
        &self.items[slot as usize]
    }

    #[inline]
    pub(crate) fn item_mut(&mut self, slot: u32) -> &mut Item {
        &mut self.items[slot as usize]
    }

    /// Returns the message in a slot.
    pub(crate) fn message(&self, slot: u32) -> &Message {
        self.items[slot as usize].message.as_ref().expect("a slot in use holds a message")
    }

    #[inline]
    pub(crate) fn set_state(&mut self, slot: u32, state: DeliveryState) {
        let item = &mut self.items[slot as usize];
        if item.state != DeliveryState::Free {
            self.counts[item.state as usize] -= 1;
        }
        if state != DeliveryState::Free {
            self.counts[state as usize] += 1;
        }
        item.state = state;
    }

    #[inline]
    pub(crate) fn ack_id(&self, slot: u32) -> AckId {
        AckId::new(slot, self.items[slot as usize].generation)
    }

    /// Returns the slot of a current lease.
    ///
    /// # Errors
    /// How the lease ended, or [`AckStatus::Unknown`].
    #[inline]
    pub(crate) fn find_lease(&self, id: AckId) -> Result<u32, AckStatus> {
        let item = self.items.get(id.slot() as usize).ok_or(AckStatus::Unknown)?;
        if item.generation == id.generation() && item.state == DeliveryState::Leased {
            Ok(id.slot())
        } else if item.generation == id.generation().wrapping_add(1) {
            Err(item.ended)
        } else {
            Err(AckStatus::Unknown)
        }
    }

    /// Ends the lease of a slot and invalidates its id.
    #[inline]
    pub(crate) fn end_lease(&mut self, slot: u32, ended: AckStatus) {
        let item = &mut self.items[slot as usize];
        item.generation = item.generation.wrapping_add(1);
        item.ended = ended;
    }

    /// Returns how the last lease of a slot ended.
    pub(crate) fn lease_end(&self, slot: u32) -> AckStatus {
        self.items[slot as usize].ended
    }

    /// Frees a slot and returns its message.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32) -> Option<Message> {
        self.set_state(slot, DeliveryState::Free);
        self.free.push(slot);
        self.items[slot as usize].message.take()
    }

    /// Iterates over the slots in use.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (u32, &Item)> {
        (0..).zip(&self.items).filter(|(_, item)| item.state != DeliveryState::Free)
    }

    /// Frees the memory of slots that were needed only temporarily.
    pub(crate) fn shrink(&mut self) {
        const SLOTS_KEPT: usize = 1024;
        if self.len() == 0 && self.items.len() > SLOTS_KEPT {
            // Generations must not repeat: new slots begin above all of them.
            self.free = (0..SLOTS_KEPT as u32).rev().collect();
            let newest = self.items.iter().map(|item| item.generation).max().unwrap_or(0);
            self.next_generation = newest;
            self.items.truncate(SLOTS_KEPT);
            self.items.shrink_to_fit();
            for item in &mut self.items {
                item.generation = item.generation.max(newest);
            }
        }
    }
}
