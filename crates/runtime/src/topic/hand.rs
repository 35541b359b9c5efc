//! Messages that a subscription has taken from the log and that are not done: leased, waiting for another attempt, or behind
//! others of their key.
//!
//! ```text
//!   AckId = slot ┊ generation     a slot gets a new generation whenever its lease ends, so an old id fits no more
//! ```

use std::fmt;

use super::keys::KeyId;
use super::message::Message;

/// The name of one lease, which no other of its subscription ever has; another subscription may have one of the same number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AckId(u64);

impl AckId {
    const fn new(slot: u32, generation: u32) -> Self {
        Self((slot as u64) << 32 | generation as u64)
    }

    /// The id as a number, for those who carry it elsewhere.
    pub const fn to_u64(self) -> u64 {
        self.0
    }

    /// An id from its number; one that never was is [`AckStatus::Unknown`].
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

/// What came of an acknowledgement or its like; all but `Done` have changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lease that had ended before may be with somebody else"]
pub enum AckStatus {
    /// It was done.
    Done,
    /// The message was acknowledged before.
    AlreadyAcked,
    /// The lease was given back before.
    AlreadyNacked,
    /// The deadline had passed, and the message is or was given again.
    Expired,
    /// The lease was taken away: its consumer ended, or a message before it in its key goes first again.
    Revoked,
    /// There is no such lease, or it ended so long ago that nobody remembers how.
    Unknown,
}

/// Where a message in hand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// With a consumer.
    Leased,
    /// Waits for its next attempt.
    Resting,
    /// To be handed out again.
    Ready,
    /// Behind others of its key.
    Queued,
    Free,
}

pub(super) struct Item {
    pub(super) message: Option<Message>,
    pub(super) position: u64,
    /// Its ordering key, of a subscription that keeps order.
    pub(super) key: Option<KeyId>,
    /// Times that it was handed out.
    pub(super) attempt: u32,
    generation: u32,
    pub(super) consumer: u32,
    pub(super) stage: Stage,
    /// How the lease of the generation before ended.
    ended: AckStatus,
    /// It was handed out before.
    pub(super) was_out: bool,
    /// About when it was published, in nanoseconds of the runtime, for observers.
    pub(super) published_ns: u64,
    /// When it was handed out last.
    pub(super) since_ns: u64,
    pub(super) deadline_ns: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Hand {
    items: Vec<Item>,
    free: Vec<u32>,
    counts: [usize; 4],
    /// The first generation of new slots.
    newest: u32,
}

impl Hand {
    /// Messages in hand.
    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    pub(super) const fn count(&self, stage: Stage) -> usize {
        match stage {
            Stage::Free => 0,
            stage => self.counts[stage as usize],
        }
    }

    /// Takes a message in.
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

    /// The message in a slot.
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

    /// The slot of a lease that lasts.
    ///
    /// # Errors
    /// Why there is no such lease.
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

    /// Ends the lease of a slot, which its id fits no more.
    #[inline]
    pub(super) fn end_lease(&mut self, slot: u32, ended: AckStatus) {
        let item = &mut self.items[slot as usize];
        item.generation = item.generation.wrapping_add(1);
        item.ended = ended;
    }

    /// How the last lease of a slot ended.
    pub(super) fn cause(&self, slot: u32) -> AckStatus {
        self.items[slot as usize].ended
    }

    /// Frees a slot, and gives what it held.
    #[inline]
    pub(super) fn release(&mut self, slot: u32) -> Option<Message> {
        self.set_stage(slot, Stage::Free);
        self.free.push(slot);
        self.items[slot as usize].message.take()
    }

    /// The slots in use.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u32, &Item)> {
        (0..).zip(&self.items).filter(|(_, item)| item.stage != Stage::Free)
    }

    /// Returns the memory of slots that were only needed for a while.
    pub(super) fn shrink(&mut self) {
        const KEPT: usize = 1024;
        if self.len() == 0 && self.items.len() > KEPT {
            // Their generations must not come again: new slots begin above all of them.
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
