//! Where the readers of a ring stand: a word each, on lines of their own.
//!
//! ```text
//!   word of a seat:  VACANT | EVICTED | JOINING | READING? MARKED? position     (positions count items and only grow)
//! ```
//!
//! `READING` and `MARKED` are only used by guarded rings, whose writer may move readers: it never moves one that reads.

use std::sync::PoisonError;
use std::task::Waker;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, overwrite};

/// Nobody sits here.
pub(crate) const VACANT: u64 = u64::MAX;
/// The reader was too slow and is none any more.
pub(crate) const EVICTED: u64 = u64::MAX - 1;
/// The reader is about to find its place.
const JOINING: u64 = u64::MAX - 2;
/// The reader copies just now, so its items must stay.
pub(crate) const READING: u64 = 1 << 63;
/// The reader is evicted as soon as it has copied.
pub(crate) const MARKED: u64 = 1 << 62;

/// Words that each seat has at least: tail, position, missed, owner.
const SEAT_WORDS: usize = 4;
/// Words of the line pairs that processors load together.
const PAIR_WORDS: usize = 16;

/// The item that the reader with this word reads next; of none, one that is never reached.
pub(crate) const fn position(word: u64) -> u64 {
    match word {
        VACANT | EVICTED => u64::MAX,
        // Before everything: whoever writes waits until it has found its place.
        JOINING => 0,
        word => word & !(READING | MARKED),
    }
}

/// The seats of a ring's readers.
pub(crate) struct Seats {
    words: Box<[AtomicU64]>,
    /// The first word that begins a pair of lines.
    first: usize,
    stride: usize,
    wakers: Box<[Mutex<Option<Waker>>]>,
    /// Seats from this number on were never taken.
    used: AtomicUsize,
    taken: AtomicUsize,
    /// Free seats below `used`, the highest number first.
    free: Mutex<Vec<usize>>,
}

impl Seats {
    /// Seats of at least `line_bytes` each.
    pub(crate) fn new(count: usize, line_bytes: usize) -> Self {
        let stride = (line_bytes / 8).max(SEAT_WORDS);
        let words: Box<[AtomicU64]> = (0..count * stride + PAIR_WORDS - 1).map(|_| AtomicU64::new(VACANT)).collect();
        // Under loom a word is no word; nothing there depends on where it lies.
        let first = words.as_ptr().align_offset(8 * PAIR_WORDS).min(PAIR_WORDS - 1);
        Self {
            words,
            first,
            stride,
            wakers: (0..count).map(|_| Mutex::new(None)).collect(),
            used: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            free: Mutex::new(Vec::new()),
        }
    }

    /// The word that the writer goes by.
    #[inline]
    pub(crate) fn tail(&self, seat: usize) -> &AtomicU64 {
        &self.words[self.first + seat * self.stride]
    }

    /// How far the reader has read; its tail follows in batches, and where it flushes by hand this does too.
    #[inline]
    pub(crate) fn read_to(&self, seat: usize) -> &AtomicU64 {
        &self.words[self.first + seat * self.stride + 1]
    }

    /// Items that the reader has missed.
    #[inline]
    pub(crate) fn missed(&self, seat: usize) -> &AtomicU64 {
        &self.words[self.first + seat * self.stride + 2]
    }

    /// Who reads, for observers.
    #[inline]
    pub(crate) fn owner(&self, seat: usize) -> &AtomicU64 {
        &self.words[self.first + seat * self.stride + 3]
    }

    /// Seats that were ever taken; all others are vacant.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Readers.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Seats that there are.
    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }

    /// Takes a seat; `None` if all are taken. Its words are the caller's to set.
    pub(crate) fn take(&self) -> Option<usize> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let seat = match free.pop() {
            Some(seat) => seat,
            None => Some(self.used()).filter(|seat| *seat < self.len())?,
        };
        overwrite(self.tail(seat), JOINING, Ordering::Relaxed);
        self.used.fetch_max(seat + 1, Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::AcqRel);
        Some(seat)
    }

    /// Makes a seat vacant, without letting others take it yet.
    pub(crate) fn vacate(&self, seat: usize) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
        overwrite(self.tail(seat), VACANT, Ordering::Release);
    }

    /// Lets others take a vacant seat.
    pub(crate) fn give(&self, seat: usize) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let place = free.partition_point(|other| *other > seat);
        free.insert(place, seat);
    }

    /// Whom to wake when there is something to read; true if nobody was noted before.
    pub(crate) fn note_waker(&self, seat: usize, waker: &Waker) -> bool {
        let mut place = self.wakers[seat].lock().unwrap_or_else(PoisonError::into_inner);
        match &*place {
            Some(noted) if noted.will_wake(waker) => false,
            Some(_) => {
                *place = Some(waker.clone());
                false
            }
            None => {
                *place = Some(waker.clone());
                true
            }
        }
    }

    pub(crate) fn take_waker(&self, seat: usize) -> Option<Waker> {
        self.wakers[seat].lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Bytes of all seats.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.wakers)
    }
}
