//! Who may write and read where in a ring, and who sleeps until when: everything but the items themselves.
//!
//! ```text
//!   writer:  copy in ─▶ head (Release) ─▶ [fence] ─▶ anybody asleep? wake them all       (in batches)
//!   reader:  register ─▶ asleep + 1    ─▶ [fence] ─▶ head once more ─▶ sleep
//!
//!   reader:  copy out ─▶ tail (Release) ─▶ [fence] ─▶ the writer waits for me? pass it on, or wake it
//!   writer:  waits for = first laggard  ─▶ [fence] ─▶ its tail once more ─▶ sleep
//! ```
//!
//! Each pair of lines is a store–load pair around two sequentially consistent fences: one of the two sees the other, so no
//! wake-up is lost. `tests/models_ring.rs` runs this file under loom, and shows that it fails with any fence left out.
//!
//! A writer that must wait does not wait for "room" but for one reader that is in its way. That reader, once it has
//! passed the mark, hands the wait over to the next one that has not, and the last one wakes the writer: the readers
//! together look at each seat once, however many they are, and observers see who holds up whom.
//!
//! Invariants: `head - capacity <= tail <= head` for every reader, and the writer's `floor` is never above any of the tails.
//! Positions never go back.

use std::sync::PoisonError;
use std::task::Waker;

use crossbeam_utils::CachePadded;

use super::read_cursor::ReaderCursor;
use super::seats::{READING, Seats, position};
use crate::panics;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Dekker, Mutex, overwrite, store_load};

/// The writer waits for nobody.
pub(crate) const NOBODY: u64 = u64::MAX;

/// How a ring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It has not.
    Open,
    /// The writer said that this was all.
    Finished,
    /// The writer is gone without a word.
    Cut,
}

/// What the writer does with readers that are in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Nothing: it waits.
    Unguarded,
    /// It moves them forward.
    Skips,
    /// It may evict them.
    Evicts,
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// As many items.
    Items(u64),
    /// Nothing more will come.
    End(Ended),
    /// It was too slow and is no reader any more.
    Evicted,
}

/// The shared part.
pub(crate) struct Cursors {
    pub(crate) capacity: u64,
    pub(crate) guard: Guard,
    pub(crate) head: CachePadded<AtomicU64>,
    /// Never less than the wakers that are noted.
    pub(crate) readers_asleep: CachePadded<AtomicU64>,
    pub(crate) writer_wait: CachePadded<WriterWait>,
    ended: AtomicU32,
    pub(crate) seats: Seats,
}

pub(crate) struct WriterWait {
    /// The seat of the reader that the writer waits for.
    pub(crate) on: AtomicU64,
    /// The position that all must have reached so that the writer has much to do.
    pub(crate) eased: AtomicU64,
    /// The position that all must have reached so that it has anything to do.
    pub(crate) needed: AtomicU64,
    pub(crate) waker: Mutex<Option<Waker>>,
}

impl Cursors {
    /// Cursors for a ring whose capacity is a power of two.
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

    /// Items ever written.
    pub(crate) fn written(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// The seat that the writer waits for.
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

    /// Adds a reader that reads what is written from now on; `None` if all seats are taken.
    pub(crate) fn join(&self) -> Option<ReaderCursor> {
        let seat = self.seats.take()?;
        // A writer that has not seen this reader yet goes by a floor that is not above the head that is read here.
        store_load(Dekker::Join);
        let head = self.head.load(Ordering::Acquire);
        self.seats.read_to(seat).store(head, Ordering::Relaxed);
        self.seats.missed(seat).store(0, Ordering::Relaxed);
        self.seats.owner(seat).store(0, Ordering::Relaxed);
        overwrite(self.seats.tail(seat), head, Ordering::Release);
        self.has_moved(seat, Pause::Rests);
        Some(ReaderCursor::at(self, seat, head))
    }

    /// Takes a reader out; the ring goes on without it.
    pub(crate) fn leave(&self, reader: &ReaderCursor) {
        self.forget(reader.seat());
        self.seats.vacate(reader.seat());
        self.has_moved(reader.seat(), Pause::Rests);
        self.seats.give(reader.seat());
    }

    /// Publishes what the reader in `seat` has read; from the thread that ran it, perhaps after the reader has moved on.
    pub(crate) fn publish_seat(&self, seat: usize) {
        if self.guard == Guard::Unguarded {
            let to = self.seats.read_to(seat).load(Ordering::Acquire);
            // A vacant or joining seat has a larger word, which stays.
            self.seats.tail(seat).fetch_max(to, Ordering::AcqRel);
        }
        self.has_moved(seat, Pause::Rests);
    }

    /// Says that nothing more comes, and wakes everybody.
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

    /// Wakes the readers that sleep, if there are any.
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

    /// Tells the writer, if it waits for this reader.
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
            // Others that are behind are not in its way unless they read; it looks for itself.
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

    /// Hands the writer's wait from a reader that has passed the mark to the next that has not.
    ///
    /// That one may be at rest, so it must be in the way of what is needed: of what would ease the writer it would never tell.
    pub(crate) fn pass_on(&self, mut seat: usize, mut pause: Pause) -> Wait {
        let wait = &self.writer_wait;
        loop {
            // Each time anew: whoever took the wait over may have known what the writer wanted before.
            let needed = wait.needed.load(Ordering::Relaxed);
            let target = if pause == Pause::ReadsOn { wait.eased.load(Ordering::Relaxed) } else { needed };
            if self.lags(seat, target) {
                return Wait::Goes;
            }
            let next = (seat + 1..self.seats.used()).find(|next| self.lags(*next, needed));
            if !self.hand_over(seat, next) {
                // Whoever was faster goes on from there.
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

    // Relaxed: the writer looks again before it writes.
    pub(crate) fn lags(&self, seat: usize, target: u64) -> bool {
        position(self.seats.tail(seat).load(Ordering::Relaxed)) < target
    }
}

/// What a reader that has moved will do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It reads on, so a writer that waits for it may have more room soon.
    ReadsOn,
    /// Nobody knows when it reads again.
    Rests,
}

impl Pause {
    /// Of one who is to be heard at once nothing else will be heard.
    pub(crate) const fn after(at_once: bool) -> Self {
        if at_once { Self::Rests } else { Self::ReadsOn }
    }
}

/// What became of the writer's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It goes on, on some reader.
    Goes,
    /// Nobody is in its way any more.
    Over,
}
