//! How far one reader of a ring is, and what it finds.

use std::task::{Context, Poll};

use super::cursors::{Cursors, Ended, Found, Guard, Pause};
use super::seats::{EVICTED, MARKED, READING, position};
use crate::sync::atomic::Ordering;
use crate::sync::{Dekker, overwrite, store_load};

/// A reader's own part.
#[derive(Debug)]
pub(crate) struct ReaderCursor {
    seat: usize,
    tail: u64,
    published: u64,
    /// Items that are given back together; at least one.
    batch: u64,
    /// The head when the reader looked last.
    head: u64,
}

impl ReaderCursor {
    /// A reader that reads next what is written next.
    pub(crate) fn at(cursors: &Cursors, seat: usize, head: u64) -> Self {
        let batch = (cursors.capacity / 8).max(1);
        Self { seat, tail: head, published: head, batch, head }
    }

    #[inline]
    pub(crate) const fn seat(&self) -> usize {
        self.seat
    }

    /// The next item.
    #[inline]
    pub(crate) const fn tail(&self) -> u64 {
        self.tail
    }

    /// Items to read; looks at the writer only if it knows of less than `wanted`.
    #[inline]
    pub(crate) fn available(&mut self, cursors: &Cursors, wanted: u64) -> u64 {
        if self.head - self.tail < wanted {
            self.head = cursors.head.load(Ordering::Acquire);
        }
        self.head - self.tail
    }

    /// Begins to read where the writer may move this reader; gives the items that it has missed, or `None` once evicted.
    pub(crate) fn begin(&mut self, cursors: &Cursors) -> Option<u64> {
        if cursors.guard == Guard::Unguarded {
            return Some(0);
        }
        let tail = cursors.seats.tail(self.seat);
        let mut word = tail.load(Ordering::Relaxed);
        loop {
            if word == EVICTED {
                return None;
            }
            // Of a look that was leaked the mark is left, and perhaps that of an eviction.
            if word & MARKED != 0 {
                tail.store(EVICTED, Ordering::Release);
                cursors.has_moved(self.seat, Pause::Rests);
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

    /// Has read `count` items, which are still to be [given back](Self::give_back).
    #[inline]
    pub(crate) const fn advance(&mut self, count: u64) {
        self.tail += count;
    }

    /// The tail at which so much was read that the writer should hear of it.
    pub(crate) const fn publish_at(&self) -> u64 {
        self.published + self.batch
    }

    /// Gives back what was read, of which the last was `count` items: the writer hears of it now, or when it is much.
    /// Ends what [`begin`](Self::begin) began.
    pub(crate) fn give_back(&mut self, cursors: &Cursors, count: u64, at_once: bool) {
        if cursors.guard == Guard::Unguarded {
            self.give_back_unguarded(cursors, at_once);
        } else {
            self.give_back_guarded(cursors, count, at_once);
        }
    }

    /// The same where nobody moves readers, which have nothing to begin.
    #[inline]
    pub(crate) fn give_back_unguarded(&mut self, cursors: &Cursors, at_once: bool) {
        // Released, because another thread may publish it.
        cursors.seats.read_to(self.seat).store(self.tail, Ordering::Release);
        if at_once || self.tail >= self.publish_at() {
            self.publish(cursors, at_once);
        }
    }

    #[inline(never)]
    fn publish(&mut self, cursors: &Cursors, at_once: bool) {
        self.published = self.tail;
        overwrite(cursors.seats.tail(self.seat), self.tail, Ordering::Release);
        cursors.has_moved(self.seat, Pause::after(at_once));
    }

    /// Of a guarded ring the writer hears at once.
    fn give_back_guarded(&mut self, cursors: &Cursors, count: u64, at_once: bool) {
        let tail = cursors.seats.tail(self.seat);
        let reading = (self.tail - count) | READING;
        if tail.compare_exchange(reading, self.tail, Ordering::Release, Ordering::Relaxed).is_err() {
            tail.store(EVICTED, Ordering::Release);
        }
        cursors.seats.read_to(self.seat).store(self.tail, Ordering::Relaxed);
        cursors.has_moved(self.seat, Pause::after(at_once));
    }

    /// Tells the writer how far this reader is, and that it does not read just now.
    pub(crate) fn rest(&mut self, cursors: &Cursors) {
        if cursors.guard == Guard::Unguarded && self.published != self.tail {
            self.published = self.tail;
            cursors.seats.read_to(self.seat).store(self.tail, Ordering::Release);
            overwrite(cursors.seats.tail(self.seat), self.tail, Ordering::Release);
        }
        cursors.has_moved(self.seat, Pause::Rests);
    }

    /// What there is, without waiting; `None` is nothing yet.
    pub(crate) fn look(&mut self, cursors: &Cursors) -> Option<Found> {
        if cursors.guard != Guard::Unguarded {
            let word = cursors.seats.tail(self.seat).load(Ordering::Relaxed);
            if word == EVICTED {
                return Some(Found::Evicted);
            }
            if position(word) > self.tail {
                // The writer has moved it; `begin` will say by how much.
                return Some(Found::Items(1));
            }
        }
        // In this order: what was written before the end is seen after it.
        let ended = cursors.ended();
        match self.available(cursors, 1) {
            0 if ended == Ended::Open => None,
            0 => Some(Found::End(ended)),
            items => Some(Found::Items(items)),
        }
    }

    /// Waits for items, or for the end.
    pub(crate) fn poll_found(&mut self, cursors: &Cursors, cx: &mut Context<'_>) -> Poll<Found> {
        if let Some(found) = self.look(cursors) {
            return Poll::Ready(found);
        }
        self.rest(cursors);
        // Counted before it is noted: a writer that takes the waker at once must not count another sleeper away with it.
        cursors.readers_asleep.fetch_add(1, Ordering::SeqCst);
        if !cursors.seats.note_waker(self.seat, cx.waker()) {
            cursors.readers_asleep.fetch_sub(1, Ordering::Relaxed);
        }
        store_load(Dekker::Sleep);
        match self.look(cursors) {
            None => Poll::Pending,
            Some(found) => {
                cursors.forget(self.seat);
                Poll::Ready(found)
            }
        }
    }
}
