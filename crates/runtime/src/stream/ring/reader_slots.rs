//! Reader slots of a ring: a few words for each reader, on separate cache lines.
//!
//! ```text
//!   tail of a slot:  VACANT | EVICTED | JOINING | READING? MARKED? position     (positions count items and only grow)
//! ```
//!
//! Only guarded rings use `READING` and `MARKED`: their writer may move readers, but never a reader that is reading.

use std::task::Waker;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, overwrite};

/// The reader slot has no reader.
pub(crate) const VACANT: u64 = u64::MAX;
/// The reader was too slow and was evicted.
pub(crate) const EVICTED: u64 = u64::MAX - 1;
/// The reader is joining and does not have a position yet.
const JOINING: u64 = u64::MAX - 2;
/// The reader is copying, so its items must not be overwritten.
pub(crate) const READING: u64 = 1 << 63;
/// The reader is evicted as soon as it has finished copying.
pub(crate) const MARKED: u64 = 1 << 62;

/// Smallest number of words per reader slot: tail, position, missed, owner.
const READER_SLOT_WORDS: usize = 4;
/// Number of words in a pair of cache lines, which processors load together.
const PAIR_WORDS: usize = 16;

/// Returns the position of the next item of a reader with this word; without a reader, a position that is never
/// reached.
pub(crate) const fn position(word: u64) -> u64 {
    match word {
        VACANT | EVICTED => u64::MAX,
        // Before every position: the writer waits until the reader has its position.
        JOINING => 0,
        word => word & !(READING | MARKED),
    }
}

/// The reader slots of a ring.
pub(crate) struct ReaderSlots {
    words: Box<[AtomicU64]>,
    /// Index of the first word that is aligned to a pair of cache lines.
    first: usize,
    stride: usize,
    wakers: Box<[Mutex<Option<Waker>>]>,
    /// Reader slots from this index on were never taken.
    used: AtomicUsize,
    taken: AtomicUsize,
    /// Free reader slots below `used`, highest index first.
    free: Mutex<Vec<usize>>,
}

impl ReaderSlots {
    /// Creates `count` reader slots of at least `line_bytes` each.
    pub(crate) fn new(count: usize, line_bytes: usize) -> Self {
        let stride = (line_bytes / 8).max(READER_SLOT_WORDS);
        let words: Box<[AtomicU64]> = (0..count * stride + PAIR_WORDS - 1).map(|_| AtomicU64::new(VACANT)).collect();
        // Under loom atomics have another size, and alignment does not matter.
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

    /// Published position of the reader, which the writer uses.
    #[inline]
    pub(crate) fn tail(&self, reader_slot: usize) -> &AtomicU64 {
        &self.words[self.first + reader_slot * self.stride]
    }

    /// Exact position of the reader. The tail follows in batches; with `Flush::Lazy` this position is delayed, too.
    #[inline]
    pub(crate) fn read_to(&self, reader_slot: usize) -> &AtomicU64 {
        &self.words[self.first + reader_slot * self.stride + 1]
    }

    /// Number of items that the reader has missed.
    #[inline]
    pub(crate) fn missed(&self, reader_slot: usize) -> &AtomicU64 {
        &self.words[self.first + reader_slot * self.stride + 2]
    }

    /// Process that reads, for observers.
    #[inline]
    pub(crate) fn owner(&self, reader_slot: usize) -> &AtomicU64 {
        &self.words[self.first + reader_slot * self.stride + 3]
    }

    /// Returns the number of reader slots that were ever taken; all later ones are vacant.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the number of readers.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Returns the number of reader slots.
    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }

    /// Takes a reader slot; returns `None` if all are taken. The caller must set its words.
    pub(crate) fn take(&self) -> Option<usize> {
        let mut free = self.free.lock();
        let reader_slot = match free.pop() {
            Some(reader_slot) => reader_slot,
            None => Some(self.used()).filter(|reader_slot| *reader_slot < self.len())?,
        };
        overwrite(self.tail(reader_slot), JOINING, Ordering::Relaxed);
        self.used.fetch_max(reader_slot + 1, Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::AcqRel);
        Some(reader_slot)
    }

    /// Makes a reader slot vacant, but does not allow it to be taken yet.
    pub(crate) fn vacate(&self, reader_slot: usize) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
        overwrite(self.tail(reader_slot), VACANT, Ordering::Release);
    }

    /// Allows a vacant reader slot to be taken.
    pub(crate) fn give(&self, reader_slot: usize) {
        let mut free = self.free.lock();
        let entry = free.partition_point(|other| *other > reader_slot);
        free.insert(entry, reader_slot);
    }

    /// Stores the waker to wake when there is something to read; returns true if none was stored before.
    pub(crate) fn store_waker(&self, reader_slot: usize, waker: &Waker) -> bool {
        let mut entry = self.wakers[reader_slot].lock();
        match &*entry {
            Some(stored) if stored.will_wake(waker) => false,
            Some(_) => {
                *entry = Some(waker.clone());
                false
            }
            None => {
                *entry = Some(waker.clone());
                true
            }
        }
    }

    pub(crate) fn take_waker(&self, reader_slot: usize) -> Option<Waker> {
        self.wakers[reader_slot].lock().take()
    }

    /// Returns the size of all reader slots, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.wakers)
    }
}
