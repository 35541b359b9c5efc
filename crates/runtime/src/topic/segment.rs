//! A segment of a topic's log: a fixed array of slots. Each slot is written once and read by any number of cursors.
//!
//! ```text
//!   base          filled          slots
//!    ├── messages ──┤──── empty ────┤        sealed: no message will be added; the log continues in the next segment
//! ```
//!
//! Only the holder of the log's lock writes. A reader that loads `filled` may read all messages before it without a
//! lock; they do not move as long as the segment is referenced.

use super::message::Message;
use crate::sync::OnceSlot;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Number of messages per recorded timestamp.
const MESSAGES_PER_TIMESTAMP: usize = 16;

/// A fixed-size part of the log that is written under the log's lock and read without it.
pub(super) struct Segment {
    /// The position of the first message in the log.
    pub(super) base: u64,
    slots: Box<[OnceSlot<Message>]>,
    filled: AtomicUsize,
    sealed: AtomicBool,
    /// Publication time of every sixteenth message, in nanoseconds since the start of the runtime.
    timestamps: Box<[AtomicU64]>,
}

impl Segment {
    pub(super) fn new(base: u64, slots: usize) -> Self {
        Self {
            base,
            slots: std::iter::repeat_with(OnceSlot::new).take(slots).collect(),
            filled: AtomicUsize::new(0),
            sealed: AtomicBool::new(false),
            timestamps: std::iter::repeat_with(AtomicU64::default)
                .take(slots.div_ceil(MESSAGES_PER_TIMESTAMP))
                .collect(),
        }
    }

    /// Returns the number of messages written.
    #[inline]
    pub(super) fn filled(&self) -> usize {
        self.filled.load(Ordering::Acquire)
    }

    /// Returns true once no more messages will be added: a later call of [`filled`](Self::filled) returns the final
    /// number.
    #[inline]
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// Returns the size of the slots and the timestamps.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.timestamps)
    }

    /// Returns the number of slots, filled or not.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Appends a message. The caller must hold the log's lock, and the segment must not be full.
    #[inline]
    pub(super) fn push(&self, message: Message, now_ns: impl FnOnce() -> u64) {
        // Relaxed: only the holder of the lock stores it.
        let index = self.filled.load(Ordering::Relaxed);
        // Relaxed too: readers load `filled` first, which publishes the timestamp together with the message.
        if index.is_multiple_of(MESSAGES_PER_TIMESTAMP) {
            self.timestamps[index / MESSAGES_PER_TIMESTAMP].store(now_ns(), Ordering::Relaxed);
        }
        let written = self.slots[index].set(message);
        debug_assert!(written.is_ok(), "a place is written once");
        self.filled.store(index + 1, Ordering::Release);
    }

    /// Returns the slots `from..to`, which must be below [`filled`](Self::filled).
    #[inline]
    pub(super) fn messages(&self, from: usize, to: usize) -> &[OnceSlot<Message>] {
        &self.slots[from..to]
    }

    /// Returns the message in a slot.
    ///
    /// # Panics
    /// If `index` is not below [`filled`](Self::filled).
    #[inline]
    pub(super) fn message(&self, index: usize) -> &Message {
        self.slots[index].get().expect("counted as filled")
    }

    /// Returns the publication time of the message at `position`, or of one of the fifteen messages before it; 0 after
    /// the end of the segment.
    pub(super) fn published_ns(&self, position: u64) -> u64 {
        let index = position.saturating_sub(self.base) as usize / MESSAGES_PER_TIMESTAMP;
        self.timestamps.get(index).map_or(0, |timestamp| timestamp.load(Ordering::Relaxed))
    }
}
