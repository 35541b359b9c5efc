//! Position of the writer of a ring, and how the writer obtains room.
//!
//! ```text
//!   room known? ─▶ load all tails ─▶ lossy: move readers in the way ─▶ still none: wait for the first of them
//! ```

use std::task::{Context, Poll, Waker};

use super::cursors::{Cursors, Guard, NO_READER, ReaderActivity, WaitOutcome};
use super::reader_slots::{EVICTED, MARKED, READING, position};
use crate::sync::atomic::Ordering;
use crate::sync::{FenceSite, store_load};

/// State private to the writer.
#[derive(Debug)]
pub(crate) struct WriterCursor {
    head: u64,
    /// Position that the head may reach before the writer must load the tails again: the lowest tail plus the capacity.
    limit: u64,
    /// Head at which readers are woken next: one batch after the last wake-up.
    wake_at: u64,
    /// Number of items that are announced together; at least one.
    batch: u64,
    waits: bool,
    /// Number of times that the writer loaded all tails.
    pub(crate) tail_scans: u64,
    /// Number of times that the writer parked.
    pub(crate) parks: u64,
}

impl WriterCursor {
    /// Creates the cursor of a writer that has written nothing.
    pub(crate) fn new(cursors: &Cursors) -> Self {
        let batch = (cursors.capacity / 4).max(1);
        Self { head: 0, limit: cursors.capacity, wake_at: batch, batch, waits: false, tail_scans: 0, parks: 0 }
    }

    #[inline]
    pub(crate) const fn head(&self) -> u64 {
        self.head
    }

    /// Returns true if there is room for `wanted` items, without loading the tails.
    #[inline]
    pub(crate) const fn knows_of_room(&self, wanted: u64) -> bool {
        self.limit - self.head >= wanted
    }

    /// Returns the number of items that may be written without loading the tails.
    #[inline]
    pub(crate) const fn known_room(&self) -> u64 {
        self.limit - self.head
    }

    /// Returns the number of items that may be written; loads the tails only if fewer than `wanted` are known.
    #[inline]
    pub(crate) fn room(&mut self, cursors: &Cursors, wanted: u64) -> u64 {
        let room = self.limit - self.head;
        if room >= wanted { room } else { self.scan_tails(cursors, wanted) }
    }

    #[cold]
    fn scan_tails(&mut self, cursors: &Cursors, wanted: u64) -> u64 {
        self.tail_scans += 1;
        store_load(FenceSite::Look);
        let room = self.free_room(cursors);
        self.limit = self.head + room;
        if room < wanted && cursors.guard == Guard::Skips { self.skip(cursors, wanted) } else { room }
    }

    /// Returns the number of items that may be written without moving a reader.
    pub(crate) fn free_room(&self, cursors: &Cursors) -> u64 {
        let tail = |reader_slot| position(cursors.reader_slots.tail(reader_slot).load(Ordering::Acquire));
        let lowest = (0..cursors.reader_slots.used()).map(tail).fold(self.head, u64::min);
        // A joining reader counts as position 0, which must not lower the limit.
        self.limit.max(lowest + cursors.capacity) - self.head
    }

    /// Moves readers that are in the way far enough forward not to be in the way again soon.
    fn skip(&mut self, cursors: &Cursors, wanted: u64) -> u64 {
        let wanted = wanted.min(cursors.capacity);
        let (needed, ample) = (self.floor_for(cursors, wanted), wanted.max(cursors.capacity / 8));
        let goal = self.floor_for(cursors, ample).max(needed);
        let mut lowest = self.head;
        for reader_slot in 0..cursors.reader_slots.used() {
            let tail = cursors.reader_slots.tail(reader_slot);
            let mut word = tail.load(Ordering::Acquire);
            while position(word) < goal && word & READING == 0 {
                match tail.compare_exchange_weak(word, goal, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => {
                        // Only the writer adds here; the reader finds out by the gap in its positions.
                        cursors.reader_slots.missed(reader_slot).fetch_add(goal - word, Ordering::Relaxed);
                        word = goal;
                    }
                    Err(now) => word = now,
                }
            }
            lowest = lowest.min(position(word));
        }
        self.limit = self.limit.max(lowest + cursors.capacity);
        self.limit - self.head
    }

    /// Returns the position that the slowest reader must reach for `room` items.
    const fn floor_for(&self, cursors: &Cursors, room: u64) -> u64 {
        (self.head + room).saturating_sub(cursors.capacity)
    }

    /// Evicts the readers that are in the way of `wanted` items; returns their number.
    pub(crate) fn evict(&self, cursors: &Cursors, wanted: u64) -> u64 {
        let target = self.floor_for(cursors, wanted);
        let mut evicted = 0;
        for reader_slot in 0..cursors.reader_slots.used() {
            let tail = cursors.reader_slots.tail(reader_slot);
            let mut word = tail.load(Ordering::Acquire);
            while position(word) < target && word & MARKED == 0 {
                let then = if word & READING == 0 { EVICTED } else { word | MARKED };
                match tail.compare_exchange_weak(word, then, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => {
                        evicted += 1;
                        break;
                    }
                    Err(now) => word = now,
                }
            }
        }
        evicted
    }

    /// Makes `count` items readable that were copied in.
    #[inline]
    pub(crate) fn publish(&mut self, cursors: &Cursors, count: u64) {
        self.head += count;
        cursors.head.store(self.head, Ordering::Release);
    }

    /// Returns the head at which a batch is complete and the readers should be woken.
    #[inline]
    pub(crate) const fn wake_at(&self) -> u64 {
        self.wake_at
    }

    /// Returns true if the head has reached [`wake_at`](Self::wake_at).
    #[inline]
    pub(crate) const fn is_wake_due(&self) -> bool {
        self.head >= self.wake_at
    }

    /// Wakes the sleeping readers.
    #[inline]
    pub(crate) fn wake(&mut self, cursors: &Cursors) {
        let wake_at = self.head + self.batch;
        if self.wake_at != wake_at {
            self.wake_at = wake_at;
            cursors.wake();
        }
    }

    /// Waits for room for `wanted` items, or for half of the ring if that is more and the reader in the way continues
    /// to read: a writer that is woken earlier waits again soon.
    pub(crate) fn poll_room(&mut self, cursors: &Cursors, cx: &mut Context<'_>, wanted: u64) -> Poll<u64> {
        loop {
            let room = self.room(cursors, wanted);
            if room >= wanted {
                self.rest(cursors);
                return Poll::Ready(room);
            }
            self.wake(cursors);
            if self.waits_on(cursors, cx.waker(), wanted) {
                self.parks += 1;
                return Poll::Pending;
            }
        }
    }

    /// Registers the writer to be woken by a reader; returns false if no reader is in the way any more.
    fn waits_on(&mut self, cursors: &Cursors, waker: &Waker, wanted: u64) -> bool {
        let wait = &cursors.writer_wait;
        *wait.waker.lock() = Some(waker.clone());
        self.waits = true;
        let skips = cursors.guard == Guard::Skips;
        let needed = self.floor_for(cursors, wanted);
        let target = if skips { needed } else { self.floor_for(cursors, wanted.max(cursors.capacity / 2)) };
        wait.needed.store(needed, Ordering::Relaxed);
        wait.ample.store(target, Ordering::Relaxed);
        let in_the_way =
            |reader_slot: usize| cursors.lags(reader_slot, needed) && (!skips || cursors.reads(reader_slot));
        let Some(first) = (0..cursors.reader_slots.used()).find(|reader_slot| in_the_way(*reader_slot)) else {
            return false;
        };
        wait.reader.store(first as u64, Ordering::SeqCst);
        store_load(FenceSite::Park);
        if skips { in_the_way(first) } else { cursors.pass_baton(first, ReaderActivity::Rests) == WaitOutcome::Waits }
    }

    /// Ends the wait: no reader needs to wake the writer.
    #[inline]
    pub(crate) fn rest(&mut self, cursors: &Cursors) {
        if self.waits {
            self.waits = false;
            cursors.writer_wait.reader.store(NO_READER, Ordering::Relaxed);
        }
    }
}
