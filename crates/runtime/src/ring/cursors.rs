//! Positions of a ring's writer and readers, and the protocol for sleeping and waking: everything but the items.
//!
//! ```text
//!   writer:  copy in ─▶ head (Release) ─▶ [fence] ─▶ any reader asleep? wake them all     (in batches)
//!   reader:  register ─▶ asleep + 1    ─▶ [fence] ─▶ load head again ─▶ sleep
//!
//!   reader:  copy out ─▶ tail (Release) ─▶ [fence] ─▶ writer waits for me? hand over, or wake it
//!   writer:  waits for = first laggard  ─▶ [fence] ─▶ load its tail again ─▶ sleep
//! ```
//!
//! Each pair of lines is a store–load pair around two sequentially consistent fences: at least one side sees the other,
//! so no wake-up is lost. `tests/models_ring.rs` runs this file under loom, and shows that it fails without any of the
//! fences.
//!
//! A writer without room waits for one particular reader that is in its way. That reader, once it has passed the
//! target, hands the wait over to the next reader that has not, and the last one wakes the writer. The readers together
//! check each reader slot once, however many they are, and observers see which reader delays the writer.
//!
//! Invariants: `head - capacity <= tail <= head` for every reader, and the writer's `floor` is never above any of the
//! tails. Positions never decrease.

use std::sync::PoisonError;
use std::task::Waker;

use crossbeam_utils::CachePadded;

use super::read_cursor::ReaderCursor;
use super::seats::{READING, Seats, position};
use crate::panics;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Dekker, Mutex, overwrite, store_load};

/// The writer does not wait for a reader.
pub(crate) const NOBODY: u64 = u64::MAX;

/// State of the end of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The ring has not ended.
    Open,
    /// The writer has closed the ring.
    Finished,
    /// The writer was dropped without closing the ring.
    Cut,
}

/// Action of the writer on readers that are in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// None: the writer waits.
    Unguarded,
    /// It moves them forward.
    Skips,
    /// It may evict them.
    Evicts,
}

/// Result of a reader's look at the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// This number of items.
    Items(u64),
    /// No more items will come.
    End(Ended),
    /// The reader was too slow and was evicted.
    Evicted,
}

/// State shared by the writer and the readers.
pub(crate) struct Cursors {
    pub(crate) capacity: u64,
    pub(crate) guard: Guard,
    pub(crate) head: CachePadded<AtomicU64>,
    /// Number of sleeping readers; never less than the number of stored wakers.
    pub(crate) readers_asleep: CachePadded<AtomicU64>,
    pub(crate) writer_wait: CachePadded<WriterWait>,
    ended: AtomicU32,
    pub(crate) seats: Seats,
}

pub(crate) struct WriterWait {
    /// Reader slot of the reader that the writer waits for.
    pub(crate) on: AtomicU64,
    /// Position that all readers must reach to give the writer a large amount of room.
    pub(crate) eased: AtomicU64,
    /// Position that all readers must reach to give the writer the room that it needs.
    pub(crate) needed: AtomicU64,
    pub(crate) waker: Mutex<Option<Waker>>,
}

impl Cursors {
    /// Creates cursors for a ring with this capacity, which must be a power of two.
    pub(crate) fn new(capacity: u64, seats: Seats, guard: Guard) -> Self {
        Self {
            capacity,
            guard,
            head: CachePadded::new(AtomicU64::new(0)),
            readers_asleep: CachePadded::new(AtomicU64::new(0)),
            writer_wait: CachePadded::new(WriterWait {
                on: AtomicU64::new(NOBODY),
                eased: AtomicU64::new(0),
                needed: AtomicU64::new(0),
                waker: Mutex::new(None),
            }),
            ended: AtomicU32::new(0),
            seats,
        }
    }

    /// Returns the number of items ever written.
    pub(crate) fn written(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// Returns the reader slot of the reader that the writer waits for.
    pub(crate) fn blocked_on(&self) -> Option<usize> {
        let on = self.writer_wait.on.load(Ordering::Relaxed);
        (on != NOBODY).then_some(on as usize)
    }

    pub(crate) fn ended(&self) -> Ended {
        match self.ended.load(Ordering::Acquire) {
            0 => Ended::Open,
            1 => Ended::Finished,
            _ => Ended::Cut,
        }
    }

    /// Adds a reader of the items written from now on; returns `None` if all reader slots are taken.
    pub(crate) fn join(&self) -> Option<ReaderCursor> {
        let seat = self.seats.take()?;
        // A writer that has not seen this reader yet uses a floor that is not above the head loaded here.
        store_load(Dekker::Join);
        let head = self.head.load(Ordering::Acquire);
        self.seats.read_to(seat).store(head, Ordering::Relaxed);
        self.seats.missed(seat).store(0, Ordering::Relaxed);
        self.seats.owner(seat).store(0, Ordering::Relaxed);
        overwrite(self.seats.tail(seat), head, Ordering::Release);
        self.has_moved(seat, Pause::Rests);
        Some(ReaderCursor::at(self, seat, head))
    }

    /// Removes a reader; the ring continues without it.
    pub(crate) fn leave(&self, reader: &ReaderCursor) {
        self.forget(reader.seat());
        self.seats.vacate(reader.seat());
        self.has_moved(reader.seat(), Pause::Rests);
        self.seats.give(reader.seat());
    }

    /// Publishes the position of the reader in `seat`. Runs on the thread that ran the reader; the reader may
    /// have moved to another thread since.
    pub(crate) fn publish_seat(&self, seat: usize) {
        if self.guard == Guard::Unguarded {
            let to = self.seats.read_to(seat).load(Ordering::Acquire);
            // A vacant or joining reader slot has a larger word, which stays.
            self.seats.tail(seat).fetch_max(to, Ordering::AcqRel);
        }
        self.has_moved(seat, Pause::Rests);
    }

    /// Records the end of the items, and wakes all readers.
    pub(crate) fn end(&self, ended: Ended) {
        let code = match ended {
            Ended::Open => 0,
            Ended::Finished => 1,
            Ended::Cut => 2,
        };
        self.ended.store(code, Ordering::SeqCst);
        store_load(Dekker::Wake);
        self.wake_readers();
    }

    /// Wakes the sleeping readers, if there are any.
    pub(crate) fn wake(&self) {
        store_load(Dekker::Wake);
        if self.readers_asleep.load(Ordering::Relaxed) > 0 {
            self.wake_readers();
        }
    }

    fn wake_readers(&self) {
        for seat in 0..self.seats.used() {
            if let Some(waker) = self.seats.take_waker(seat) {
                self.readers_asleep.fetch_sub(1, Ordering::Relaxed);
                panics::wake(waker);
            }
        }
    }

    pub(crate) fn forget(&self, seat: usize) {
        if self.seats.take_waker(seat).is_some() {
            self.readers_asleep.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Notifies the writer if it waits for this reader.
    #[inline]
    pub(crate) fn has_moved(&self, seat: usize, pause: Pause) {
        store_load(Dekker::Move);
        if self.writer_wait.on.load(Ordering::Acquire) == seat as u64 {
            self.release_writer(seat, pause);
        }
    }

    #[cold]
    fn release_writer(&self, seat: usize, pause: Pause) {
        let free = match self.guard {
            // Other lagging readers are in the way only while they read; the writer checks them itself.
            Guard::Skips => self.hand_over(seat, None),
            Guard::Unguarded | Guard::Evicts => self.pass_on(seat, pause) == Wait::Over,
        };
        if free {
            let waker = self.writer_wait.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(waker) = waker {
                panics::wake(waker);
            }
        }
    }

    /// Hands the writer's wait over from a reader that has passed the target to the next reader that has not.
    ///
    /// The next reader may be resting and would then never report that it has passed `eased`: it is chosen only if it
    /// is behind `needed`.
    pub(crate) fn pass_on(&self, mut seat: usize, mut pause: Pause) -> Wait {
        let wait = &self.writer_wait;
        loop {
            // Load it in each round: the target may have changed since this wait was handed over.
            let needed = wait.needed.load(Ordering::Relaxed);
            let target = if pause == Pause::ReadsOn { wait.eased.load(Ordering::Relaxed) } else { needed };
            if self.lags(seat, target) {
                return Wait::Goes;
            }
            let next = (seat + 1..self.seats.used()).find(|next| self.lags(*next, needed));
            if !self.hand_over(seat, next) {
                // The thread that was faster continues from there.
                return Wait::Goes;
            }
            match next {
                None => return Wait::Over,
                Some(next) => seat = next,
            }
            pause = Pause::Rests;
            store_load(Dekker::Park);
        }
    }

    fn hand_over(&self, seat: usize, next: Option<usize>) -> bool {
        let next = next.map_or(NOBODY, |next| next as u64);
        let on = &self.writer_wait.on;
        on.compare_exchange(seat as u64, next, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn reads(&self, seat: usize) -> bool {
        self.seats.tail(seat).load(Ordering::Relaxed) & READING != 0
    }

    // Relaxed: the writer checks again before it writes.
    pub(crate) fn lags(&self, seat: usize, target: u64) -> bool {
        position(self.seats.tail(seat).load(Ordering::Relaxed)) < target
    }
}

/// Expected next action of a reader that has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It continues to read, so a writer that waits for it may have more room soon.
    ReadsOn,
    /// It is unknown when it reads again.
    Rests,
}

impl Pause {
    /// A reader that is published at once may not publish anything else for a while, so it counts as resting.
    pub(crate) const fn after(at_once: bool) -> Self {
        if at_once { Self::Rests } else { Self::ReadsOn }
    }
}

/// Outcome of the writer's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It continues, for some reader.
    Goes,
    /// No reader is in the way any more.
    Over,
}
