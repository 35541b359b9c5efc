//! Messages in flight: read from the log by a subscription and not finished. They are leased, waiting for another
//! attempt, or queued behind others of their key.
//!
//! ```text
//!   AckId = slot ┊ generation     a slot gets a new generation when its lease ends, so an old id no longer matches
//! ```

use std::fmt;

use super::keys::KeyId;
use super::message::Message;

/// Id of a lease, unique within its subscription. Another subscription may use the same number.
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

    pub(super) const fn slot(self) -> u32 {
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
pub(super) enum Stage {
    /// Leased to a consumer.
    Leased,
    /// Waiting for its next attempt.
    Resting,
    /// Ready to be delivered again.
    Ready,
    /// Queued behind other messages of its key.
    Queued,
    Free,
}

pub(super) struct Item {
    pub(super) message: Option<Message>,
    pub(super) position: u64,
    /// Ordering key, if the subscription is ordered.
    pub(super) key: Option<KeyId>,
    /// Number of deliveries.
    pub(super) attempt: u32,
    generation: u32,
    pub(super) consumer: u32,
    pub(super) stage: Stage,
    /// How the lease of the previous generation ended.
    ended: AckStatus,
    /// The message was delivered before.
    pub(super) was_out: bool,
    /// Approximate publication time, in nanoseconds since the start of the runtime; for observers.
    pub(super) published_ns: u64,
    /// Time of the last delivery.
    pub(super) since_ns: u64,
    pub(super) deadline_ns: u64,
}

/// The messages in flight of a subscription, in reusable slots.
#[derive(Default)]
pub(super) struct Hand {
    items: Vec<Item>,
    free: Vec<u32>,
    counts: [usize; 4],
    /// Generation with which new slots begin.
    newest: u32,
}

impl Hand {
    /// Number of messages in flight.
    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    pub(super) const fn count(&self, stage: Stage) -> usize {
        match stage {
            Stage::Free => 0,
            stage => self.counts[stage as usize],
        }
    }

    /// Adds a message; returns its slot.
    #[inline]
    pub(super) fn take_in(&mut self, message: Message, position: u64, published_ns: u64) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.items.push(Item {
                message: None,
                position,
                key: None,
                attempt: 0,
                generation: self.newest.max(1),
                consumer: 0,
                stage: Stage::Free,
                ended: AckStatus::Unknown,
                was_out: false,
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
        item.was_out = false;
        item.attempt = 0;
        item.published_ns = published_ns;
        slot
    }

    #[inline]
    pub(super) fn item(&self, slot: u32) -> &Item {
        &self.items[slot as usize]
    }

    #[inline]
    pub(super) fn item_mut(&mut self, slot: u32) -> &mut Item {
        &mut self.items[slot as usize]
    }

    /// Returns the message in a slot.
    pub(super) fn message(&self, slot: u32) -> &Message {
        self.items[slot as usize].message.as_ref().expect("a slot in use holds a message")
    }

    #[inline]
    pub(super) fn set_stage(&mut self, slot: u32, stage: Stage) {
        let item = &mut self.items[slot as usize];
        if item.stage != Stage::Free {
            self.counts[item.stage as usize] -= 1;
        }
        if stage != Stage::Free {
            self.counts[stage as usize] += 1;
        }
        item.stage = stage;
    }

    #[inline]
    pub(super) fn ack_id(&self, slot: u32) -> AckId {
        AckId::new(slot, self.items[slot as usize].generation)
    }

    /// Returns the slot of a current lease.
    ///
    /// # Errors
    /// How the lease ended, or [`AckStatus::Unknown`].
    #[inline]
    pub(super) fn leased(&self, id: AckId) -> Result<u32, AckStatus> {
        let item = self.items.get(id.slot() as usize).ok_or(AckStatus::Unknown)?;
        if item.generation == id.generation() && item.stage == Stage::Leased {
            Ok(id.slot())
        } else if item.generation == id.generation().wrapping_add(1) {
            Err(item.ended)
        } else {
            Err(AckStatus::Unknown)
        }
    }

    /// Ends the lease of a slot and invalidates its id.
    #[inline]
    pub(super) fn end_lease(&mut self, slot: u32, ended: AckStatus) {
        let item = &mut self.items[slot as usize];
        item.generation = item.generation.wrapping_add(1);
        item.ended = ended;
    }

    /// Returns how the last lease of a slot ended.
    pub(super) fn cause(&self, slot: u32) -> AckStatus {
        self.items[slot as usize].ended
    }

    /// Frees a slot and returns its message.
    #[inline]
    pub(super) fn release(&mut self, slot: u32) -> Option<Message> {
        self.set_stage(slot, Stage::Free);
        self.free.push(slot);
        self.items[slot as usize].message.take()
    }

    /// Iterates over the slots in use.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u32, &Item)> {
        (0..).zip(&self.items).filter(|(_, item)| item.stage != Stage::Free)
    }

    /// Frees the memory of slots that were needed only temporarily.
    pub(super) fn shrink(&mut self) {
        const KEPT: usize = 1024;
        if self.len() == 0 && self.items.len() > KEPT {
            // Generations must not repeat: new slots begin above all of them.
            self.free = (0..KEPT as u32).rev().collect();
            let newest = self.items.iter().map(|item| item.generation).max().unwrap_or(0);
            self.newest = newest;
            self.items.truncate(KEPT);
            self.items.shrink_to_fit();
            for item in &mut self.items {
                item.generation = item.generation.max(newest);
            }
        }
    }
}
