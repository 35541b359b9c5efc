//! The reading side of a ring, and how readers join.

#![expect(unsafe_code, reason = "touches slots that the cursors have granted to the reader; each block says so")]

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use thiserror::Error;

use super::cursors::{Available, Ended, Guard};
use super::park;
use super::policy::Flush;
use super::read_cursor::ReaderCursor;
use super::shared::RingShared;
use super::turn::{self, PollContext, TurnId};

/// Error returned when a ring has no free reader slot: drop a reader, or build the ring with more slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("all {readers_max} reader slots of the ring are in use")]
pub struct JoinError {
    /// Number of reader slots of the ring.
    pub readers_max: usize,
}

/// Reason why nothing was read.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ring::{Builder, Policy, ReadError};
///
/// let (mut writer, subscriber) = Builder::new(8).policy(Policy::Lossy).build::<u32>()?;
/// let mut reader = subscriber.join()?;
/// let mut items = [0; 8];
/// assert_eq!(reader.try_read(&mut items), Err(ReadError::Empty));
/// for number in 0..100 {
///     writer.blocking_write(&[number]);
/// }
/// let Err(ReadError::Missed { items: missed }) = reader.try_read(&mut items) else { unreachable!("8 items fit") };
/// let read = reader.try_read(&mut items)? as u64;
/// assert_eq!(missed + read, 100);
/// writer.close();
/// assert_eq!(reader.try_read(&mut items), Err(ReadError::Ended));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// There is nothing yet; returned only by methods that do not wait.
    #[error("nothing to read yet")]
    Empty,
    /// The writer has closed the ring, and all items were read.
    #[error("the ring is closed")]
    Ended,
    /// The writer was dropped without closing the ring; all items that it had written were read.
    #[error("the writer ended without closing the ring")]
    Cut,
    /// The writer of a lossy ring did not wait for this reader: continue to read after the missed items.
    #[error("{items} items were missed")]
    Missed {
        /// Number of items that this reader has missed since the last such error.
        items: u64,
    },
    /// This reader was too slow and was evicted.
    #[error("the reader was too slow and was evicted")]
    Evicted,
}

/// Counts of what a reader has done; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderStats {
    /// Number of reads that returned items.
    pub reads: u64,
    /// Number of reads that found nothing.
    pub empty: u64,
    /// Number of missed items.
    pub missed: u64,
}

/// Creates the readers of a ring; cheap to clone.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ring::{Builder, JoinError};
///
/// let (mut writer, subscriber) = Builder::new(64).readers_max(2).build::<u32>()?;
/// let mut early = subscriber.join()?;
/// writer.blocking_write(&[1, 2]);
/// let mut late = subscriber.join()?;
/// writer.blocking_write(&[3]);
///
/// let mut items = [0; 8];
/// assert_eq!((early.try_read(&mut items), late.try_read(&mut items)), (Ok(3), Ok(1)));
/// assert_eq!(subscriber.join().unwrap_err(), JoinError { readers_max: 2 });
/// drop(early);
/// assert_eq!(subscriber.readers(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Subscriber<T: Send + Sync + 'static>(Arc<RingShared<T>>);

impl<T: Send + Sync + 'static> fmt::Debug for Subscriber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscriber").field(&self.0.cursors.reader_slots.taken()).finish()
    }
}

impl<T: Send + Sync + 'static> Clone for Subscriber<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync + 'static> Subscriber<T> {
    pub(crate) const fn new(ring: Arc<RingShared<T>>) -> Self {
        Self(ring)
    }

    /// Adds a reader of the items written from now on.
    ///
    /// # Errors
    /// [`JoinError`] if all reader slots are taken.
    pub fn join(&self) -> Result<Reader<T>, JoinError> {
        let cursors = &self.0.cursors;
        let cursor = cursors.join().ok_or_else(|| JoinError { readers_max: cursors.reader_slots.len() })?;
        // Observers see this process until another one reads.
        turn::record_reader(&self.0, cursor.reader_slot());
        Ok(Reader {
            ring: Arc::clone(&self.0),
            cursor,
            last_turn: TurnId::default(),
            flush: Flush::Turn,
            notify_at: 0,
            stats: ReaderStats::default(),
        })
    }

    /// Returns the current number of readers.
    pub fn readers(&self) -> usize {
        self.0.cursors.reader_slots.taken()
    }

    /// Returns the memory used by the ring, in bytes: items, cursors and their bookkeeping.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// The reading side of a ring; dropping it removes the reader.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ring;
///
/// let (mut writer, subscriber) = ring::Builder::new(64).build::<u32>()?;
/// let mut reader = subscriber.join()?;
/// writer.blocking_write(&[1, 2, 3]);
///
/// let mut items = [0; 8];
/// assert_eq!(reader.try_read(&mut items), Ok(3));
/// assert_eq!(items[..3], [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader<T: Send + Sync + 'static> {
    ring: Arc<RingShared<T>>,
    cursor: ReaderCursor,
    last_turn: TurnId,
    flush: Flush,
    /// The writer must not be notified before the tail reaches this position; 0 if notifications are not lazy.
    notify_at: u64,
    stats: ReaderStats,
}

impl<T: Send + Sync + 'static> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("position", &self.cursor.tail())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Reader<T> {
    /// Returns the position of the next item, counted from the first item ever written.
    pub const fn position(&self) -> u64 {
        self.cursor.tail()
    }

    /// Returns the counts of this reader.
    pub const fn stats(&self) -> ReaderStats {
        self.stats
    }

    /// Sets when the writer is notified of free room.
    pub const fn set_flush(&mut self, flush: Flush) {
        self.flush = flush;
        self.notify_at = 0;
    }

    /// Notifies the writer of this reader's position.
    pub fn flush(&mut self) {
        self.cursor.rest(&self.ring.cursors);
    }

    /// Waits for items and returns them without a copy. They are not read until they are [released](Peek::release).
    ///
    /// # Errors
    /// [`ReadError`] if no more items will come, or if items were missed before the next one.
    pub async fn peek(&mut self) -> Result<Peek<'_, T>, ReadError> {
        let count = poll_fn(|cx| self.poll_open(cx)).await?;
        Ok(Peek { reader: self, count })
    }

    /// Same as [`peek`](Self::peek), without waiting.
    ///
    /// # Errors
    /// Also [`ReadError::Empty`].
    #[inline]
    pub fn try_peek(&mut self) -> Result<Peek<'_, T>, ReadError> {
        let count = self.try_open(1)?;
        Ok(Peek { reader: self, count })
    }

    /// Waits for items and begins to read them; returns their number. A read that was begun must be ended by `release`.
    pub(crate) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ReadError>> {
        if turn::may_proceed(cx) { self.poll_opened(cx) } else { Poll::Pending }
    }

    fn poll_opened(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ReadError>> {
        // Fast path: the writer does not move this reader, and there are items.
        let available = self.available_unguarded(1);
        if available > 0 {
            return Poll::Ready(Ok(available));
        }
        loop {
            let Poll::Ready(found) = self.cursor.poll_available(&self.ring.cursors, cx) else {
                self.stats.empty += 1;
                turn::record_reader(&self.ring, self.cursor.reader_slot());
                turn::record_wait();
                return Poll::Pending;
            };
            match self.open(found, 1) {
                Err(ReadError::Empty) => {}
                opened => return Poll::Ready(opened),
            }
        }
    }

    /// Begins to read without waiting; loads the head if fewer than `wanted` items are known.
    #[inline]
    fn try_open(&mut self, wanted: usize) -> Result<usize, ReadError> {
        match self.available_unguarded(wanted) {
            0 => self.try_open_slow(wanted),
            available => Ok(available),
        }
    }

    /// Returns the number of available items of an unguarded ring; 0 for a guarded ring.
    #[inline]
    fn available_unguarded(&mut self, wanted: usize) -> usize {
        let cursors = &self.ring.cursors;
        if cursors.guard == Guard::Unguarded { self.cursor.available(cursors, wanted as u64) as usize } else { 0 }
    }

    #[inline(never)]
    fn try_open_slow(&mut self, wanted: usize) -> Result<usize, ReadError> {
        if let Some(found) = self.cursor.check(&self.ring.cursors) {
            return self.open(found, wanted);
        }
        self.stats.empty += 1;
        self.flush();
        Err(ReadError::Empty)
    }

    fn open(&mut self, found: Available, wanted: usize) -> Result<usize, ReadError> {
        match found {
            Available::Items(_) => {}
            Available::End(Ended::Cut) => return Err(ReadError::Cut),
            Available::End(_) => return Err(ReadError::Ended),
            Available::Evicted => return Err(ReadError::Evicted),
        }
        let missed = self.cursor.begin(&self.ring.cursors).ok_or(ReadError::Evicted)?;
        if missed > 0 {
            self.stats.missed += missed;
            self.release(0);
            return Err(ReadError::Missed { items: missed });
        }
        let available = self.cursor.available(&self.ring.cursors, wanted as u64) as usize;
        if available == 0 {
            self.release(0);
            return Err(ReadError::Empty);
        }
        Ok(available)
    }

    /// Gives back items of a read that was begun.
    #[inline]
    pub(crate) fn release(&mut self, count: usize) {
        self.count(count);
        if self.cursor.tail() >= self.notify_at {
            self.notify_writer(count as u64);
        }
    }

    /// Returns true if the notification by this reader is already recorded for the end of this turn.
    #[inline]
    fn is_recorded(&self, poll_context: PollContext) -> bool {
        poll_context == PollContext::Turn(self.last_turn) && self.flush == Flush::Turn
    }

    #[inline]
    fn count(&mut self, read: usize) {
        self.stats.reads += u64::from(read > 0);
        self.cursor.advance(read as u64);
    }

    /// Notifies the writer of the items read: now, or at the end of the turn.
    #[inline(never)]
    fn notify_writer(&mut self, count: u64) {
        let at_once = match self.flush {
            Flush::Turn => !turn::defer(&self.ring, Some(self.cursor.reader_slot()), &mut self.last_turn),
            Flush::Eager => true,
            Flush::Lazy => false,
        };
        self.cursor.give_back(&self.ring.cursors, count, at_once);
        if self.flush == Flush::Lazy && self.ring.cursors.guard == Guard::Unguarded {
            self.notify_at = self.cursor.publish_at();
        }
    }

    /// Returns the number of items that this reader knows of.
    pub(crate) fn available(&mut self) -> usize {
        self.cursor.available(&self.ring.cursors, 0) as usize
    }

    /// Returns available items, in two parts if they wrap around the end of the ring.
    #[inline]
    pub(crate) fn opened(&self, count: usize) -> (&[T], &[T]) {
        // SAFETY: the cursors have granted these items to this reader, and the borrow keeps it from giving them back.
        unsafe { self.ring.slots.items(self.cursor.tail(), count) }
    }
}

impl<T: Clone + Send + Sync + 'static> Reader<T> {
    /// Waits for one value and reads it.
    ///
    /// # Errors
    /// [`ReadError`] if no more items will come, or if items were missed before the next one.
    pub async fn next(&mut self) -> Result<T, ReadError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, ReadError>> {
        let Some(poll_context) = turn::poll_proceed(cx) else { return Poll::Pending };
        if self.is_recorded(poll_context) && self.available_unguarded(1) > 0 {
            let first = self.opened(1).0[0].clone();
            self.count(1);
            self.cursor.give_back_unguarded(&self.ring.cursors, false);
            return Poll::Ready(Ok(first));
        }
        let count = ready!(self.poll_opened(cx))?;
        Poll::Ready(Ok(Peek { reader: self, count }.take_first()))
    }

    /// Same as [`next`](Self::next), without waiting.
    ///
    /// # Errors
    /// Also [`ReadError::Empty`].
    #[inline]
    pub fn try_next(&mut self) -> Result<T, ReadError> {
        let peek = self.try_peek()?;
        Ok(peek.take_first())
    }
}

impl<T: Copy + Send + Sync + 'static> Reader<T> {
    /// Reads the available items, as many as fit into `items`; waits if nothing is available.
    ///
    /// # Errors
    /// [`ReadError`] if no more items will come, or if items were missed before the next one.
    pub async fn read(&mut self, items: &mut [T]) -> Result<usize, ReadError> {
        poll_fn(|cx| self.poll_read(cx, items)).await
    }

    /// Same as [`read`](Self::read), as a poll function.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, items: &mut [T]) -> Poll<Result<usize, ReadError>> {
        if items.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let Some(poll_context) = turn::poll_proceed(cx) else { return Poll::Pending };
        // Fast path: the notification is already recorded for the end of this turn, and the writer does not move this
        // reader.
        if self.is_recorded(poll_context) {
            let available = self.available_unguarded(items.len());
            if available > 0 {
                let count = self.copy(available, items);
                self.count(count);
                self.cursor.give_back_unguarded(&self.ring.cursors, false);
                return Poll::Ready(Ok(count));
            }
        }
        let opened = ready!(self.poll_opened(cx))?;
        // The known items may be only the end of a batch.
        let opened = opened.max(self.cursor.available(&self.ring.cursors, items.len() as u64) as usize);
        Poll::Ready(Ok(self.copy_out(opened, items)))
    }

    /// Fills `items`, waiting as often as necessary.
    ///
    /// # Errors
    /// Same as [`read`](Self::read); the number of items read before the error is lost.
    pub async fn read_exact(&mut self, items: &mut [T]) -> Result<(), ReadError> {
        let mut filled = 0;
        while filled < items.len() {
            filled += self.read(&mut items[filled..]).await?;
        }
        Ok(())
    }

    /// Reads the available items without waiting, as many as fit into `items`.
    ///
    /// # Errors
    /// Also [`ReadError::Empty`].
    // Always inlined, like a write: the compiler judges by its length, and does not see that most of it is eliminated.
    #[expect(clippy::inline_always, reason = "see above")]
    #[inline(always)]
    pub fn try_read(&mut self, items: &mut [T]) -> Result<usize, ReadError> {
        if items.is_empty() {
            return Ok(0);
        }
        // Fast path for a reader that keeps up: all requested items are available, and the writer does not move this
        // reader.
        if self.available_unguarded(items.len()) >= items.len() {
            self.copy_all(items);
            self.release(items.len());
            return Ok(items.len());
        }
        self.try_read_some(items)
    }

    #[inline(never)]
    fn try_read_some(&mut self, items: &mut [T]) -> Result<usize, ReadError> {
        let opened = self.try_open(items.len())?;
        Ok(self.copy_out(opened, items))
    }

    /// Reads on a thread that may block.
    ///
    /// # Errors
    /// Same as [`read`](Self::read).
    ///
    /// # Panics
    /// On a scheduler's thread, which must not block.
    pub fn blocking_read(&mut self, items: &mut [T]) -> Result<usize, ReadError> {
        loop {
            match self.try_read(items) {
                Err(ReadError::Empty) => {
                    let (cursor, cursors) = (&mut self.cursor, &self.ring.cursors);
                    park::block_until(None, |cx| cursor.poll_available(cursors, cx));
                }
                read => return read,
            }
        }
    }

    #[inline]
    fn copy_out(&mut self, opened: usize, items: &mut [T]) -> usize {
        let count = self.copy(opened, items);
        self.release(count);
        count
    }

    /// Copies available items.
    #[inline]
    fn copy_all(&self, items: &mut [T]) {
        // SAFETY: the cursors have granted these items to this reader.
        unsafe { self.ring.slots.copy_out(self.cursor.tail(), items) };
    }

    #[inline]
    fn copy(&self, opened: usize, items: &mut [T]) -> usize {
        let count = opened.min(items.len());
        self.copy_all(&mut items[..count]);
        count
    }
}

impl<T: Send + Sync + 'static> Drop for Reader<T> {
    fn drop(&mut self) {
        self.ring.cursors.leave(&self.cursor);
    }
}

/// Available items. They are read by [`release`](Self::release); dropping this reads none.
///
/// While it exists, the writer does not overwrite the items under any policy.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ring::Builder;
///
/// let (mut writer, subscriber) = Builder::new(64).build::<u32>()?;
/// let mut reader = subscriber.join()?;
/// writer.blocking_write(&[5, 6, 7]);
///
/// let items = reader.try_peek()?;
/// let (first, _wrapped) = items.slices();
/// assert_eq!(first, [5, 6, 7]);
/// items.release(2); // 7 stays
/// assert_eq!(reader.position(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Peek<'a, T: Send + Sync + 'static> {
    reader: &'a mut Reader<T>,
    count: usize,
}

impl<T: Send + Sync + 'static> fmt::Debug for Peek<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peek").field("count", &self.count).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Peek<'_, T> {
    /// Returns the number of items, at least one.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns the items, in two parts if they wrap around the end of the ring.
    #[inline]
    pub fn slices(&self) -> (&[T], &[T]) {
        self.reader.opened(self.count)
    }

    /// Reads the first `count` items, at most all of them.
    #[inline]
    pub fn release(self, count: usize) {
        let count = count.min(self.count);
        // The borrow cannot be moved out of a type that implements `Drop`, so the drop is skipped; it would give back
        // nothing.
        let mut this = std::mem::ManuallyDrop::new(self);
        this.reader.release(count);
    }
}

impl<T: Clone + Send + Sync + 'static> Peek<'_, T> {
    #[inline]
    fn take_first(self) -> T {
        let first = self.slices().0[0].clone();
        self.release(1);
        first
    }
}

impl<T: Send + Sync + 'static> Drop for Peek<'_, T> {
    fn drop(&mut self) {
        self.reader.release(0);
    }
}
