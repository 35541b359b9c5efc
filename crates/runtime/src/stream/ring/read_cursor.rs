//! Position of one reader of a ring, and its view of the items.

use std::task::{Context, Poll};

use super::cursors::{Available, Cursors, Ended, Guard, ReaderActivity};
use super::reader_slots::{EVICTED, MARKED, READING, position};
use crate::sync::atomic::Ordering;
use crate::sync::{FenceSite, overwrite, store_load};

/// State private to one reader.
#[derive(Debug)]
pub(crate) struct ReaderCursor {
    reader_slot: usize,
    tail: u64,
    published: u64,
    /// Number of items that are given back together; at least one.
    batch: u64,
    /// Head as the reader loaded it last.
    head: u64,
}

impl Cursors {
    /// Adds a reader of the items written from now on; returns `None` if all reader slots are taken.
    pub(crate) fn join(&self) -> Option<ReaderCursor> {
        let reader_slot = self.reader_slots.take()?;
        // A writer that has not seen this reader yet uses a floor that is not above the head loaded here.
        store_load(FenceSite::Join);
        let head = self.head.load(Ordering::Acquire);
        self.reader_slots.read_to(reader_slot).store(head, Ordering::Relaxed);
        self.reader_slots.missed(reader_slot).store(0, Ordering::Relaxed);
        self.reader_slots.owner(reader_slot).store(0, Ordering::Relaxed);
        overwrite(self.reader_slots.tail(reader_slot), head, Ordering::Release);
        self.on_reader_moved(reader_slot, ReaderActivity::Rests);
        Some(ReaderCursor::at(self, reader_slot, head))
    }

    /// Removes a reader; the ring continues without it.
    pub(crate) fn leave(&self, reader: &ReaderCursor) {
        self.remove_waker(reader.reader_slot());
        self.reader_slots.vacate(reader.reader_slot());
        self.on_reader_moved(reader.reader_slot(), ReaderActivity::Rests);
        self.reader_slots.give(reader.reader_slot());
    }
}

impl ReaderCursor {
    /// Creates a cursor that starts to read at `head`, with the next item written.
    pub(crate) fn at(cursors: &Cursors, reader_slot: usize, head: u64) -> Self {
        let batch = (cursors.capacity / 8).max(1);
        Self { reader_slot, tail: head, published: head, batch, head }
    }

    #[inline]
    pub(crate) const fn reader_slot(&self) -> usize {
        self.reader_slot
    }

    /// Returns the position of the next item.
    #[inline]
    pub(crate) const fn tail(&self) -> u64 {
        self.tail
    }

    /// Returns the number of items to read; loads the head only if fewer than `wanted` are known.
    #[inline]
    pub(crate) fn available(&mut self, cursors: &Cursors, wanted: u64) -> u64 {
        if self.head - self.tail < wanted {
            self.head = cursors.head.load(Ordering::Acquire);
        }
        self.head - self.tail
    }

    /// Begins a read on a ring where the writer may move this reader. Returns the number of missed items, or `None`
    /// once evicted.
    pub(crate) fn begin(&mut self, cursors: &Cursors) -> Option<u64> {
        if cursors.guard == Guard::Unguarded {
            return Some(0);
        }
        let tail = cursors.reader_slots.tail(self.reader_slot);
        let mut word = tail.load(Ordering::Relaxed);
        loop {
            if word == EVICTED {
                return None;
            }
            // A leaked `Peek` leaves `READING` set, and the writer may then have set `MARKED` to evict this reader.
            if word & MARKED != 0 {
                tail.store(EVICTED, Ordering::Release);
                cursors.on_reader_moved(self.reader_slot, ReaderActivity::Rests);
                return None;
            }
            match tail.compare_exchange_weak(word, word | READING, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let word = position(word);
        let missed = word - self.tail;
        self.tail = word;
        if self.head < word {
            self.head = cursors.head.load(Ordering::Acquire);
        }
        Some(missed)
    }

    /// Records that `count` items were read, which must still be [given back](Self::give_back).
    #[inline]
    pub(crate) const fn advance(&mut self, count: u64) {
        self.tail += count;
    }

    /// Returns the tail at which a batch is complete and the writer should be notified.
    pub(crate) const fn publish_at(&self) -> u64 {
        self.published + self.batch
    }

    /// Gives back the items read, the last `count` of them by the current read, and ends what [`begin`](Self::begin)
    /// began. Notifies the writer now if `at_once`, otherwise when a batch is complete.
    pub(crate) fn give_back(&mut self, cursors: &Cursors, count: u64, at_once: bool) {
        if cursors.guard == Guard::Unguarded {
            self.give_back_unguarded(cursors, at_once);
        } else {
            self.give_back_guarded(cursors, count, at_once);
        }
    }

    /// Gives items back on an unguarded ring, where the writer never moves readers and reads need no `begin`.
    #[inline]
    pub(crate) fn give_back_unguarded(&mut self, cursors: &Cursors, at_once: bool) {
        // Release: another thread may publish this position.
        cursors.reader_slots.read_to(self.reader_slot).store(self.tail, Ordering::Release);
        if at_once || self.tail >= self.publish_at() {
            self.publish(cursors, at_once);
        }
    }

    #[inline(never)]
    fn publish(&mut self, cursors: &Cursors, at_once: bool) {
        self.published = self.tail;
        overwrite(cursors.reader_slots.tail(self.reader_slot), self.tail, Ordering::Release);
        cursors.on_reader_moved(self.reader_slot, ReaderActivity::after(at_once));
    }

    /// Gives items back on a guarded ring, where the writer is notified of every read.
    fn give_back_guarded(&mut self, cursors: &Cursors, count: u64, at_once: bool) {
        let tail = cursors.reader_slots.tail(self.reader_slot);
        let reading = (self.tail - count) | READING;
        if tail.compare_exchange(reading, self.tail, Ordering::Release, Ordering::Relaxed).is_err() {
            tail.store(EVICTED, Ordering::Release);
        }
        cursors.reader_slots.read_to(self.reader_slot).store(self.tail, Ordering::Relaxed);
        cursors.on_reader_moved(self.reader_slot, ReaderActivity::after(at_once));
    }

    /// Publishes the position of this reader, and that it is not reading at present.
    pub(crate) fn rest(&mut self, cursors: &Cursors) {
        if cursors.guard == Guard::Unguarded && self.published != self.tail {
            self.published = self.tail;
            cursors.reader_slots.read_to(self.reader_slot).store(self.tail, Ordering::Release);
            overwrite(cursors.reader_slots.tail(self.reader_slot), self.tail, Ordering::Release);
        }
        cursors.on_reader_moved(self.reader_slot, ReaderActivity::Rests);
    }

    /// Looks for items without waiting; returns `None` if nothing is available yet.
    pub(crate) fn check(&mut self, cursors: &Cursors) -> Option<Available> {
        if cursors.guard != Guard::Unguarded {
            let word = cursors.reader_slots.tail(self.reader_slot).load(Ordering::Relaxed);
            if word == EVICTED {
                return Some(Available::Evicted);
            }
            if position(word) > self.tail {
                // The writer has moved this reader; `begin` returns by how much.
                return Some(Available::Items(1));
            }
        }
        // Load `ended` first: items written before the end are then visible.
        let ended = cursors.ended();
        match self.available(cursors, 1) {
            0 if ended == Ended::Open => None,
            0 => Some(Available::End(ended)),
            items => Some(Available::Items(items)),
        }
    }

    /// Waits for items or for the end.
    pub(crate) fn poll_available(&mut self, cursors: &Cursors, cx: &mut Context<'_>) -> Poll<Available> {
        if let Some(found) = self.check(cursors) {
            return Poll::Ready(found);
        }
        self.rest(cursors);
        // Increment before the waker is stored: otherwise a writer that takes the waker at once would subtract another
        // sleeping reader.
        cursors.readers_asleep.fetch_add(1, Ordering::SeqCst);
        if !cursors.reader_slots.store_waker(self.reader_slot, cx.waker()) {
            cursors.readers_asleep.fetch_sub(1, Ordering::Relaxed);
        }
        store_load(FenceSite::Sleep);
        match self.check(cursors) {
            None => Poll::Pending,
            Some(found) => {
                cursors.remove_waker(self.reader_slot);
                Poll::Ready(found)
            }
        }
    }
}
