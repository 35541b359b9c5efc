//! A piece of a topic's log: places for messages, each written once and read by many.
//!
//! ```text
//!   base          filled          places
//!    ├── messages ──┤── not yet ────┤        sealed: no more will come, what follows is in the next segment
//! ```
//!
//! Only the holder of the log's lock writes. A reader that sees `filled` sees all messages before it, without a lock, and
//! they stay where they are for as long as anybody holds the segment.

use super::message::Message;
use crate::sync::Place;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Messages between two stamps.
const STAMP_EVERY: usize = 16;

/// See the module.
pub(super) struct Segment {
    /// The position of the first message in the log.
    pub(super) base: u64,
    places: Box<[Place<Message>]>,
    filled: AtomicUsize,
    sealed: AtomicBool,
    /// When every sixteenth message was published, in nanoseconds of the runtime.
    stamps: Box<[AtomicU64]>,
}

impl Segment {
    pub(super) fn new(base: u64, places: usize) -> Self {
        Self {
            base,
            places: std::iter::repeat_with(Place::new).take(places).collect(),
            filled: AtomicUsize::new(0),
            sealed: AtomicBool::new(false),
            stamps: std::iter::repeat_with(AtomicU64::default).take(places.div_ceil(STAMP_EVERY)).collect(),
        }
    }

    /// Messages in it.
    #[inline]
    pub(super) fn filled(&self) -> usize {
        self.filled.load(Ordering::Acquire)
    }

    /// Whether what [`filled`](Self::filled) says after this is final.
    #[inline]
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    /// Appends a message; only under the log's lock, and not when full.
    #[inline]
    pub(super) fn push(&self, message: Message, now_ns: impl FnOnce() -> u64) {
        // Relaxed: only the holder of the lock stores it.
        let index = self.filled.load(Ordering::Relaxed);
        if index.is_multiple_of(STAMP_EVERY) {
            self.stamps[index / STAMP_EVERY].store(now_ns(), Ordering::Relaxed);
        }
        let twice = self.places[index].set(message);
        debug_assert!(twice.is_ok(), "a place is written once");
        self.filled.store(index + 1, Ordering::Release);
    }

    /// Places that [`filled`](Self::filled) has counted.
    #[inline]
    pub(super) fn messages(&self, from: usize, to: usize) -> &[Place<Message>] {
        &self.places[from..to]
    }

    #[inline]
    pub(super) fn message(&self, index: usize) -> &Message {
        self.places[index].get().expect("counted as filled")
    }

    /// When the message at `position`, or one of the fifteen before it, was published.
    pub(super) fn published_ns(&self, position: u64) -> u64 {
        let index = position.saturating_sub(self.base) as usize / STAMP_EVERY;
        self.stamps.get(index).map_or(0, |stamp| stamp.load(Ordering::Relaxed))
    }
}
