//! The side of a ring that reads, and how one comes by it.

#![expect(unsafe_code, reason = "touches slots that the cursors have given to the reader; each block says so")]

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use thiserror::Error;

use super::cursors::{Ended, Found, Guard};
use super::park;
use super::read_cursor::ReaderCursor;
use super::shared::Shared;
use super::turn::{self, Mark, Place};
use super::writer::Flush;

/// There is no seat for another reader: end one, or build the ring with more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("all {readers_max} readers of the ring are taken")]
pub struct JoinError {
    /// Readers that it has seats for.
    pub readers_max: usize,
}

/// Why there is nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Nothing yet; only those say it that do not wait.
    #[error("nothing to read yet")]
    Empty,
    /// The writer has closed the ring, and all was read.
    #[error("the ring is closed")]
    Ended,
    /// The writer ended without closing the ring; what it had written was read.
    #[error("the writer ended without closing the ring")]
    Cut,
    /// A lossy ring went on without waiting: read on from there.
    #[error("{items} items were missed")]
    Missed {
        /// Items that this reader will never see, since it was told last.
        items: u64,
    },
    /// This reader was too slow and is none any more.
    #[error("the reader was too slow and was evicted")]
    Evicted,
}

/// What a reader has done; all of it only goes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderStats {
    /// Reads that gave something.
    pub reads: u64,
    /// Reads that found nothing.
    pub empty: u64,
    /// Items missed.
    pub missed: u64,
}

/// What readers of a ring come from; cheap to clone.
pub struct Subscriber<T: Send + Sync + 'static>(Arc<Shared<T>>);

impl<T: Send + Sync + 'static> fmt::Debug for Subscriber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscriber").field(&self.0.cursors.seats.taken()).finish()
    }
}

impl<T: Send + Sync + 'static> Clone for Subscriber<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync + 'static> Subscriber<T> {
    pub(crate) const fn new(ring: Arc<Shared<T>>) -> Self {
        Self(ring)
    }

    /// Adds a reader of what is written from now on.
    ///
    /// # Errors
    /// [`JoinError`] when there is no seat left.
    pub fn join(&self) -> Result<Reader<T>, JoinError> {
        let cursors = &self.0.cursors;
        let cursor = cursors.join().ok_or_else(|| JoinError { readers_max: cursors.seats.len() })?;
        // Until somebody else reads by it.
        turn::note_reader(&self.0, cursor.seat());
        Ok(Reader {
            ring: Arc::clone(&self.0),
            cursor,
            mark: Mark::default(),
            flush: Flush::Turn,
            quiet_until: 0,
            stats: ReaderStats::default(),
        })
    }

    /// Readers that there are just now.
    pub fn readers(&self) -> usize {
        self.0.cursors.seats.taken()
    }

    /// Bytes that the ring takes: items, cursors and what belongs to them.
    pub fn bytes(&self) -> usize {
        super::shared::AnyRing::bytes(&*self.0)
    }
}

/// The side of a ring that reads; dropping it takes it out.
pub struct Reader<T: Send + Sync + 'static> {
    ring: Arc<Shared<T>>,
    cursor: ReaderCursor,
    mark: Mark,
    flush: Flush,
    /// The tail that nobody must hear of anything before: 0 where it is passed on at each turn, or at once.
    quiet_until: u64,
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
    /// The number of the next item, counted from the first that was ever written.
    pub const fn position(&self) -> u64 {
        self.cursor.tail()
    }

    /// What it has done.
    pub const fn stats(&self) -> ReaderStats {
        self.stats
    }

    /// Decides when the writer hears that there is room.
    pub const fn set_flush(&mut self, flush: Flush) {
        self.flush = flush;
        self.quiet_until = 0;
    }

    /// Tells the writer how far this reader is.
    pub fn flush(&mut self) {
        self.cursor.rest(&self.ring.cursors);
    }

    /// Looks at what is there without copying it, and waits for it. Nothing is read until it is [released](Peek::release).
    ///
    /// # Errors
    /// [`ReadError`] when nothing more will come, or something was missed before what comes now.
    pub async fn peek(&mut self) -> Result<Peek<'_, T>, ReadError> {
        let count = poll_fn(|cx| self.poll_open(cx)).await?;
        Ok(Peek { reader: self, count })
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// [`ReadError::Empty`] too.
    #[inline]
    pub fn try_peek(&mut self) -> Result<Peek<'_, T>, ReadError> {
        let count = self.try_open(1)?;
        Ok(Peek { reader: self, count })
    }

    /// Finds items and begins to read them; their number. What was begun must be given back.
    pub(crate) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ReadError>> {
        if turn::may_go_on(cx) { self.poll_opened(cx) } else { Poll::Pending }
    }

    fn poll_opened(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ReadError>> {
        // The shortest way: nobody moves this reader, and there is something.
        let available = self.available_unguarded(1);
        if available > 0 {
            return Poll::Ready(Ok(available));
        }
        loop {
            let Poll::Ready(found) = self.cursor.poll_found(&self.ring.cursors, cx) else {
                self.stats.empty += 1;
                turn::note_reader(&self.ring, self.cursor.seat());
                turn::waits();
                return Poll::Pending;
            };
            match self.open(found, 1) {
                Err(ReadError::Empty) => {}
                opened => return Poll::Ready(opened),
            }
        }
    }

    /// The same without waiting; looks at the writer if less than `wanted` is known of.
    #[inline]
    fn try_open(&mut self, wanted: usize) -> Result<usize, ReadError> {
        match self.available_unguarded(wanted) {
            0 => self.try_open_at_length(wanted),
            available => Ok(available),
        }
    }

    /// Items that are there where nobody moves readers; 0 where somebody may.
    #[inline]
    fn available_unguarded(&mut self, wanted: usize) -> usize {
        let cursors = &self.ring.cursors;
        if cursors.guard == Guard::Unguarded { self.cursor.available(cursors, wanted as u64) as usize } else { 0 }
    }

    #[inline(never)]
    fn try_open_at_length(&mut self, wanted: usize) -> Result<usize, ReadError> {
        if let Some(found) = self.cursor.look(&self.ring.cursors) {
            return self.open(found, wanted);
        }
        self.stats.empty += 1;
        self.flush();
        Err(ReadError::Empty)
    }

    fn open(&mut self, found: Found, wanted: usize) -> Result<usize, ReadError> {
        match found {
            Found::Items(_) => {}
            Found::End(Ended::Cut) => return Err(ReadError::Cut),
            Found::End(_) => return Err(ReadError::Ended),
            Found::Evicted => return Err(ReadError::Evicted),
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

    /// Gives items back that were opened.
    #[inline]
    pub(crate) fn release(&mut self, count: usize) {
        self.count(count);
        if self.cursor.tail() >= self.quiet_until {
            self.pass_on(count as u64);
        }
    }

    /// Whether the end of this turn passes on what is read, as this reader has had noted.
    #[inline]
    fn is_noted(&self, place: Place) -> bool {
        place == Place::Turn(self.mark) && self.flush == Flush::Turn
    }

    #[inline]
    fn count(&mut self, read: usize) {
        self.stats.reads += u64::from(read > 0);
        self.cursor.advance(read as u64);
    }

    /// Has the writer hear of what was read: now or at the end of the turn.
    #[inline(never)]
    fn pass_on(&mut self, count: u64) {
        let at_once = match self.flush {
            Flush::Turn => !turn::touch(&self.ring, Some(self.cursor.seat()), &mut self.mark),
            Flush::Eager => true,
            Flush::Lazy => false,
        };
        self.cursor.give_back(&self.ring.cursors, count, at_once);
        if self.flush == Flush::Lazy && self.ring.cursors.guard == Guard::Unguarded {
            self.quiet_until = self.cursor.publish_at();
        }
    }

    /// Items that this reader knows of.
    pub(crate) fn available(&mut self) -> usize {
        self.cursor.available(&self.ring.cursors, 0) as usize
    }

    /// Items that are there, in two parts where they go round the end of the ring.
    #[inline]
    pub(crate) fn opened(&self, count: usize) -> (&[T], &[T]) {
        // SAFETY: the cursors have given these items to this reader, and the borrow keeps it from giving them back.
        unsafe { self.ring.slots.items(self.cursor.tail(), count) }
    }
}

impl<T: Clone + Send + Sync + 'static> Reader<T> {
    /// Reads one value, and waits for it.
    ///
    /// # Errors
    /// [`ReadError`] when nothing more will come, or something was missed before what comes now.
    pub async fn next(&mut self) -> Result<T, ReadError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, ReadError>> {
        let Some(place) = turn::place_to_go_on(cx) else { return Poll::Pending };
        if self.is_noted(place) && self.available_unguarded(1) > 0 {
            let first = self.opened(1).0[0].clone();
            self.count(1);
            self.cursor.give_back_unguarded(&self.ring.cursors, false);
            return Poll::Ready(Ok(first));
        }
        let count = ready!(self.poll_opened(cx))?;
        Poll::Ready(Ok(Peek { reader: self, count }.take_first()))
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// [`ReadError::Empty`] too.
    #[inline]
    pub fn try_next(&mut self) -> Result<T, ReadError> {
        let peek = self.try_peek()?;
        Ok(peek.take_first())
    }
}

impl<T: Copy + Send + Sync + 'static> Reader<T> {
    /// Reads what is there, as far as it fits, and waits for it if there is nothing.
    ///
    /// # Errors
    /// [`ReadError`] when nothing more will come, or something was missed before what comes now.
    pub async fn read(&mut self, items: &mut [T]) -> Result<usize, ReadError> {
        poll_fn(|cx| self.poll_read(cx, items)).await
    }

    /// The same, as a poll.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, items: &mut [T]) -> Poll<Result<usize, ReadError>> {
        if items.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let Some(place) = turn::place_to_go_on(cx) else { return Poll::Pending };
        // The shortest way: the end of this turn passes on what is read, as was noted, and nobody moves this reader.
        if self.is_noted(place) {
            let available = self.available_unguarded(items.len());
            if available > 0 {
                let count = self.copy(available, items);
                self.count(count);
                self.cursor.give_back_unguarded(&self.ring.cursors, false);
                return Poll::Ready(Ok(count));
            }
        }
        let opened = ready!(self.poll_opened(cx))?;
        // What the cursor knew of may be the end of a batch.
        let opened = opened.max(self.cursor.available(&self.ring.cursors, items.len() as u64) as usize);
        Poll::Ready(Ok(self.copy_out(opened, items)))
    }

    /// Fills `items`, and waits as often as it must.
    ///
    /// # Errors
    /// As [`read`](Self::read); how many were read before is lost with them.
    pub async fn read_exact(&mut self, items: &mut [T]) -> Result<(), ReadError> {
        let mut filled = 0;
        while filled < items.len() {
            filled += self.read(&mut items[filled..]).await?;
        }
        Ok(())
    }

    /// Reads what is there, as far as it fits.
    ///
    /// # Errors
    /// [`ReadError::Empty`] too.
    // Part of its caller, as a write is: the compiler sees how long it is, and not that most of it is left out.
    #[expect(clippy::inline_always, reason = "see above")]
    #[inline(always)]
    pub fn try_read(&mut self, items: &mut [T]) -> Result<usize, ReadError> {
        if items.is_empty() {
            return Ok(0);
        }
        // The shortest way, for one who reads as much as there is: all that it wants is there, and nobody moves it.
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

    /// Reads from a thread that may block.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Panics
    /// On a scheduler's thread, which must not block.
    pub fn blocking_read(&mut self, items: &mut [T]) -> Result<usize, ReadError> {
        loop {
            match self.try_read(items) {
                Err(ReadError::Empty) => {
                    let (cursor, cursors) = (&mut self.cursor, &self.ring.cursors);
                    park::block_until(None, |cx| cursor.poll_found(cursors, cx));
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

    /// Copies items that are there.
    #[inline]
    fn copy_all(&self, items: &mut [T]) {
        // SAFETY: the cursors have given these items to this reader.
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

/// Items that are there; they are read by [`release`](Self::release), and dropping this reads none.
///
/// For as long as it lives no writer overwrites them, of whatever policy.
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
    /// How many there are: one at least.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// The items, in two parts where they go round the end of the ring.
    #[inline]
    pub fn slices(&self) -> (&[T], &[T]) {
        self.reader.opened(self.count)
    }

    /// Reads the first `count` of them, all at most.
    #[inline]
    pub fn release(self, count: usize) {
        let count = count.min(self.count);
        // Taking the borrow out of a value with a drop would need a second one: the drop itself gives nothing back.
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
