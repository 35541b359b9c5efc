//! The writing side of a ring.

#![expect(unsafe_code, reason = "touches slots that the cursors have granted to the writer; each block says so")]

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use thiserror::Error;

use super::cursors::Ended;
use super::grant::Grant;
use super::park;
use super::policy::{Flush, Policy};
use super::reader::Subscriber;
use super::shared::RingShared;
use super::turn::{self, PollContext, TurnId};
use super::write_cursor::WriterCursor;

/// Error returned when a chunk was not written, or no room for it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The slowest reader must read first.
    #[error("no room for {chunk} items: {room} are free")]
    Full {
        /// Number of items in the chunk.
        chunk: usize,
        /// Number of items that would fit.
        room: usize,
    },
    /// The chunk will never fit: write it in parts.
    #[error("a chunk of {chunk} items is larger than the ring of {capacity}")]
    TooLarge {
        /// Number of items in the chunk.
        chunk: usize,
        /// Number of items that fit into the ring.
        capacity: usize,
    },
}

/// Counts of what a writer has done; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Number of writes that stored something.
    pub writes: u64,
    /// Number of times that a write found less room than it wanted. A write that waits is counted at each poll.
    pub full: u64,
    /// Number of times that the writer loaded the positions of all readers.
    pub tail_scans: u64,
    /// Number of times that the writer parked.
    pub parks: u64,
}

/// The writing side of a ring. Dropping it without [`close`](Self::close) cuts the stream off: readers get an error.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ring;
///
/// let (mut writer, subscriber) = ring::Builder::new(64).build::<u32>()?;
/// let mut reader = subscriber.join()?;
/// writer.blocking_write(&[7]);
/// writer.close();
///
/// let mut item = [0];
/// assert_eq!(reader.blocking_read(&mut item), Ok(1));
/// assert!(reader.blocking_read(&mut item).is_err(), "the end of the stream");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer<T: Send + Sync + 'static> {
    ring: Arc<RingShared<T>>,
    cursor: WriterCursor,
    last_turn: TurnId,
    flush: Flush,
    /// Readers must not be notified before the head reaches this position; 0 if notifications are not lazy.
    notify_at: u64,
    writes: u64,
    full: u64,
    closed: bool,
    /// Timer of the eviction of readers that are in the way.
    eviction: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<T: Send + Sync + 'static> fmt::Debug for Writer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("written", &self.cursor.head())
            .field("readers", &self.readers())
            .finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Writer<T> {
    pub(crate) fn new(ring: Arc<RingShared<T>>) -> Self {
        Self {
            cursor: WriterCursor::new(&ring.cursors),
            ring,
            last_turn: TurnId::default(),
            flush: Flush::Turn,
            notify_at: 0,
            writes: 0,
            full: 0,
            closed: false,
            eviction: None,
        }
    }

    /// Returns the number of items that fit.
    pub fn capacity(&self) -> usize {
        self.ring.cursors.capacity as usize
    }

    /// Returns the number of items ever written.
    pub const fn written(&self) -> u64 {
        self.cursor.head()
    }

    /// Returns the current number of readers.
    pub fn readers(&self) -> usize {
        self.ring.cursors.reader_slots.taken()
    }

    /// Returns the subscriber of the ring, which creates readers.
    pub fn subscriber(&self) -> Subscriber<T> {
        Subscriber::new(Arc::clone(&self.ring))
    }

    /// Returns the counts of this writer.
    pub const fn stats(&self) -> WriterStats {
        WriterStats {
            writes: self.writes,
            full: self.full,
            tail_scans: self.cursor.tail_scans,
            parks: self.cursor.parks,
        }
    }

    /// Sets when sleeping readers are notified of written items.
    pub const fn set_flush(&mut self, flush: Flush) {
        self.flush = flush;
        self.notify_at = 0;
    }

    /// Wakes the sleeping readers if there is something new.
    #[inline(never)]
    pub fn flush(&mut self) {
        self.cursor.wake(&self.ring.cursors);
    }

    /// Closes the ring: readers read the remaining items, and then [`ReadError::Ended`](super::ReadError::Ended).
    pub fn close(mut self) {
        self.finish();
    }

    /// Closes the ring for a caller that keeps the writer; nothing more may be written.
    pub(crate) fn finish(&mut self) {
        self.closed = true;
        self.ring.cursors.end(Ended::Finished);
    }

    /// Returns the number of items that could be written now without taking items from readers that have not read them.
    pub fn room(&self) -> usize {
        self.cursor.free_room(&self.ring.cursors) as usize
    }

    /// Waits for room and writes one value.
    pub async fn push(&mut self, value: T) {
        let (mut value, waiting) = (Some(value), Waiting(self));
        poll_fn(|cx| {
            let writer = &mut *waiting.0;
            let Some(poll_context) = turn::poll_proceed(cx) else { return Poll::Pending };
            let is_fast = writer.can_use_fast_path(poll_context, 1);
            if !is_fast {
                ready!(writer.poll_room_without_budget(cx, 1));
            }
            if let Some(value) = value.take() {
                let old = writer.put(value);
                if is_fast {
                    writer.wake_if_due();
                } else {
                    writer.notify_readers_if_due();
                }
                drop(old);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Writes one value immediately or fails.
    ///
    /// # Errors
    /// Returns the value if the ring is full.
    #[inline]
    pub fn try_push(&mut self, value: T) -> Result<(), T> {
        if self.room_for(1) == 0 {
            return Err(value);
        }
        let old = self.put(value);
        self.notify_readers_if_due();
        drop(old);
        Ok(())
    }

    #[inline]
    fn put(&mut self, value: T) -> Option<T> {
        // SAFETY: there is room, so no reader may read the slot.
        let old = unsafe { self.ring.slots.put(self.cursor.head(), value) };
        self.count(1);
        old
    }

    /// Returns the room; loads the positions of the readers if less than `wanted` is known.
    #[inline]
    fn room_for(&mut self, wanted: usize) -> usize {
        let room = self.cursor.room(&self.ring.cursors, wanted as u64) as usize;
        if room < wanted {
            self.record_full();
        }
        room
    }

    /// Returns the room for a chunk. A chunk that can never fit must not move the readers of a lossy ring.
    #[inline]
    fn room_for_all(&mut self, wanted: usize) -> usize {
        let is_known = self.cursor.known_room() >= wanted as u64;
        if !is_known && wanted > self.capacity() { 0 } else { self.room_for(wanted) }
    }

    #[cold]
    fn record_full(&mut self) {
        self.full += 1;
        // Readers that must read before there is more room should know that there is something to read.
        self.flush();
    }

    /// Returns true if there is room for `count` items, and the wake-up is already recorded for the end of this turn.
    #[inline]
    fn can_use_fast_path(&mut self, poll_context: PollContext, count: usize) -> bool {
        let is_recorded = poll_context == PollContext::Turn(self.last_turn) && self.flush == Flush::Turn;
        if !(is_recorded && self.cursor.knows_of_room(count as u64)) {
            return false;
        }
        self.cursor.rest(&self.ring.cursors);
        true
    }

    /// Wakes the readers if a batch is complete.
    #[inline]
    fn wake_if_due(&mut self) {
        if self.cursor.is_wake_due() {
            self.flush();
        }
    }

    #[inline]
    fn count(&mut self, written: usize) {
        self.writes += 1;
        if self.eviction.is_some() {
            self.cancel_eviction();
        }
        self.cursor.publish(&self.ring.cursors, written as u64);
    }

    /// Ends a wait: the next one has the whole time of an eviction.
    #[cold]
    fn cancel_eviction(&mut self) {
        self.eviction = None;
    }

    #[inline]
    fn notify_readers_if_due(&mut self) {
        if self.cursor.head() >= self.notify_at {
            self.notify_readers();
        }
    }

    /// Notifies the readers of the written items: now, or at the end of the turn.
    #[inline(never)]
    fn notify_readers(&mut self) {
        let at_once = match self.flush {
            Flush::Turn => !turn::defer(&self.ring, None, &mut self.last_turn),
            Flush::Eager => true,
            Flush::Lazy => false,
        };
        if at_once || self.cursor.is_wake_due() {
            self.flush();
        }
        if self.flush == Flush::Lazy {
            self.notify_at = self.cursor.wake_at();
        }
    }

    /// Waits for room for `wanted` items, which must not exceed the capacity.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>, wanted: u64) -> Poll<u64> {
        if turn::may_proceed(cx) { self.poll_room_without_budget(cx, wanted) } else { Poll::Pending }
    }

    fn poll_room_without_budget(&mut self, cx: &mut Context<'_>, wanted: u64) -> Poll<u64> {
        loop {
            if let Poll::Ready(room) = self.cursor.poll_room(&self.ring.cursors, cx, wanted) {
                self.eviction = None;
                return Poll::Ready(room);
            }
            self.full += 1;
            self.ring.info.parks.store(self.cursor.parks, Ordering::Relaxed);
            turn::record_writer_wait(&self.ring);
            let Policy::EvictAfter(after) = self.ring.info.policy else { return Poll::Pending };
            let eviction = self.eviction.get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
            ready!(eviction.as_mut().poll(cx));
            self.evict(wanted);
        }
    }

    fn evict(&mut self, wanted: u64) {
        self.eviction = None;
        let evicted = self.cursor.evict(&self.ring.cursors, wanted);
        self.ring.info.evicted.fetch_add(evicted, Ordering::Relaxed);
    }

    /// Waits for room on a thread that may block.
    fn block_for_room(&mut self, wanted: u64) {
        loop {
            let after = match self.ring.info.policy {
                Policy::EvictAfter(after) => Instant::now().checked_add(after),
                Policy::Lossless | Policy::Lossy => None,
            };
            let (cursor, cursors) = (&mut self.cursor, &self.ring.cursors);
            let has_room = park::block_until(after, |cx| cursor.poll_room(cursors, cx, wanted)).is_some();
            self.ring.info.parks.store(self.cursor.parks, Ordering::Relaxed);
            if has_room {
                return;
            }
            self.evict(wanted);
        }
    }
}

impl<T: Copy + Send + Sync + 'static> Writer<T> {
    /// Writes all items, waiting for room as often as necessary.
    ///
    /// Dropping the future keeps the items that were already written.
    pub async fn write(&mut self, items: &[T]) {
        let (mut rest, waiting) = (items, Waiting(self));
        poll_fn(|cx| {
            while !rest.is_empty() {
                let written = ready!(waiting.0.poll_write(cx, rest));
                rest = &rest[written..];
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Writes as many items as there is room for; waits only if the ring is full.
    ///
    /// With [`Policy::EvictAfter`], the time runs from the first poll that waits to the next write.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, items: &[T]) -> Poll<usize> {
        if items.is_empty() {
            return Poll::Ready(0);
        }
        let Some(poll_context) = turn::poll_proceed(cx) else { return Poll::Pending };
        if self.can_use_fast_path(poll_context, items.len()) {
            self.put_all(items);
            self.wake_if_due();
            return Poll::Ready(items.len());
        }
        let room = ready!(self.poll_room_without_budget(cx, 1));
        let room = if room < items.len() as u64 { self.room_for(items.len()) } else { items.len() };
        let count = room.min(items.len());
        self.copy_in(&items[..count]);
        Poll::Ready(count)
    }

    /// Writes as many items as there is room for now; returns their number.
    #[inline]
    pub fn try_write(&mut self, items: &[T]) -> usize {
        if !self.cursor.knows_of_room(items.len() as u64) {
            return self.try_write_some(items);
        }
        self.copy_in(items);
        items.len()
    }

    #[inline(never)]
    fn try_write_some(&mut self, items: &[T]) -> usize {
        let room = self.room_for(items.len());
        let items = items.get(..room).unwrap_or(items);
        self.copy_in(items);
        items.len()
    }

    /// Writes a whole chunk immediately, or nothing.
    ///
    /// # Errors
    /// [`ChunkError`] if the chunk does not fit now, or will never fit.
    #[inline]
    pub fn try_write_all(&mut self, chunk: &[T]) -> Result<(), ChunkError> {
        let room = self.room_for_all(chunk.len());
        if room < chunk.len() {
            return Err(self.no_room(chunk.len(), room));
        }
        self.copy_in(chunk);
        Ok(())
    }

    /// Writes items on a thread that may block.
    ///
    /// # Panics
    /// On a scheduler's thread, which must not block.
    pub fn blocking_write(&mut self, items: &[T]) {
        let mut rest = items;
        while !rest.is_empty() {
            let written = self.try_write(rest);
            rest = &rest[written..];
            if !rest.is_empty() {
                self.block_for_room(1);
            }
        }
    }

    #[cold]
    fn no_room(&self, chunk: usize, room: usize) -> ChunkError {
        let capacity = self.capacity();
        if chunk > capacity { ChunkError::TooLarge { chunk, capacity } } else { ChunkError::Full { chunk, room } }
    }

    #[inline]
    fn copy_in(&mut self, items: &[T]) {
        if !items.is_empty() {
            self.put_all(items);
            self.notify_readers_if_due();
        }
    }

    /// Writes items for which there is room. Readers may see them, but are not notified yet.
    #[inline]
    fn put_all(&mut self, items: &[T]) {
        // SAFETY: there is room for them, so no reader may read these slots.
        unsafe { self.ring.slots.copy_in(self.cursor.head(), items) };
        self.count(items.len());
    }
}

impl<T: Copy + Default + Send + Sync + 'static> Writer<T> {
    /// Returns slots for the next `count` items, to be written without a copy.
    ///
    /// # Errors
    /// [`ChunkError`] if there is not enough room now, or will never be.
    #[inline]
    pub fn try_grant(&mut self, count: usize) -> Result<Grant<'_, T>, ChunkError> {
        let room = self.room_for_all(count);
        if room < count {
            return Err(self.no_room(count, room));
        }
        Ok(Grant::new(self, count))
    }

    /// Same as [`try_grant`](Self::try_grant), but waits for room.
    ///
    /// # Errors
    /// [`ChunkError::TooLarge`] if the ring is smaller.
    pub async fn grant(&mut self, count: usize) -> Result<Grant<'_, T>, ChunkError> {
        if count > self.capacity() {
            return Err(self.no_room(count, 0));
        }
        let waiting = Waiting(self);
        poll_fn(|cx| waiting.0.poll_room(cx, count as u64)).await;
        drop(waiting);
        Ok(Grant::new(self, count))
    }

    /// Returns the slots of items for which there is room.
    #[inline]
    pub(super) fn slots_to_fill(&mut self, count: usize) -> (&mut [T], &mut [T]) {
        // SAFETY: there is room for the items, so no reader may read these slots, and the only writer is borrowed.
        unsafe { self.ring.slots.to_fill(self.cursor.head(), count) }
    }

    /// Makes the items written in [`slots_to_fill`](Self::slots_to_fill) visible to the readers.
    #[inline]
    pub(super) fn fill(&mut self, count: usize) {
        if count > 0 {
            self.count(count);
            self.notify_readers_if_due();
        }
    }
}

/// A wait for room. Dropping it ends the wait, so that no reader wakes the writer.
struct Waiting<'a, T: Send + Sync + 'static>(&'a mut Writer<T>);

impl<T: Send + Sync + 'static> Drop for Waiting<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.0.eviction.is_some() {
            self.0.cancel_eviction();
        }
        self.0.cursor.rest(&self.0.ring.cursors);
    }
}

impl<T: Send + Sync + 'static> Drop for Writer<T> {
    fn drop(&mut self) {
        if !self.closed {
            self.ring.cursors.end(Ended::Cut);
        }
    }
}
