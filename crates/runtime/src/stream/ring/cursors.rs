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

use std::task::Waker;

use crossbeam_utils::CachePadded;

use super::reader_slots::{READING, ReaderSlots, position};
use crate::runtime::panics;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{FenceSite, Mutex, store_load};

/// The writer does not wait for a reader.
pub(crate) const NO_READER: u64 = u64::MAX;

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
pub(crate) enum Available {
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
    pub(crate) reader_slots: ReaderSlots,
}

pub(crate) struct WriterWait {
    /// Reader slot of the reader that the writer waits for.
    pub(crate) reader: AtomicU64,
    /// Position that all readers must reach to give the writer a large amount of room.
    pub(crate) ample: AtomicU64,
    /// Position that all readers must reach to give the writer the room that it needs.
    pub(crate) needed: AtomicU64,
    pub(crate) waker: Mutex<Option<Waker>>,
}

impl Cursors {
    /// Creates cursors for a ring with this capacity, which must be a power of two.
    pub(crate) fn new(capacity: u64, reader_slots: ReaderSlots, guard: Guard) -> Self {
        Self {
            capacity,
            guard,
            head: CachePadded::new(AtomicU64::new(0)),
            readers_asleep: CachePadded::new(AtomicU64::new(0)),
            writer_wait: CachePadded::new(WriterWait {
                reader: AtomicU64::new(NO_READER),
                ample: AtomicU64::new(0),
                needed: AtomicU64::new(0),
                waker: Mutex::new(None),
            }),
            ended: AtomicU32::new(0),
            reader_slots,
        }
    }

    /// Returns the number of items ever written.
    pub(crate) fn written(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// Returns the reader slot of the reader that the writer waits for.
    pub(crate) fn blocked_on(&self) -> Option<usize> {
        let on = self.writer_wait.reader.load(Ordering::Relaxed);
        (on != NO_READER).then_some(on as usize)
    }

    pub(crate) fn ended(&self) -> Ended {
        match self.ended.load(Ordering::Acquire) {
            0 => Ended::Open,
            1 => Ended::Finished,
            _ => Ended::Cut,
        }
    }

    /// Publishes the position of the reader in `reader_slot`. Runs on the thread that ran the reader; the reader may
    /// have moved to another thread since.
    pub(crate) fn publish_reader(&self, reader_slot: usize) {
        if self.guard == Guard::Unguarded {
            let to = self.reader_slots.read_to(reader_slot).load(Ordering::Acquire);
            // A vacant or joining reader slot has a larger word, which stays.
            self.reader_slots.tail(reader_slot).fetch_max(to, Ordering::AcqRel);
        }
        self.on_reader_moved(reader_slot, ReaderActivity::Rests);
    }

    /// Records the end of the items, and wakes all readers.
    pub(crate) fn end(&self, ended: Ended) {
        let code = match ended {
            Ended::Open => 0,
            Ended::Finished => 1,
            Ended::Cut => 2,
        };
        self.ended.store(code, Ordering::SeqCst);
        store_load(FenceSite::Wake);
        self.wake_readers();
    }

    /// Wakes the sleeping readers, if there are any.
    pub(crate) fn wake(&self) {
        store_load(FenceSite::Wake);
        if self.readers_asleep.load(Ordering::Relaxed) > 0 {
            self.wake_readers();
        }
    }

    fn wake_readers(&self) {
        for reader_slot in 0..self.reader_slots.used() {
            if let Some(waker) = self.reader_slots.take_waker(reader_slot) {
                self.readers_asleep.fetch_sub(1, Ordering::Relaxed);
                panics::wake(waker);
            }
        }
    }

    pub(crate) fn remove_waker(&self, reader_slot: usize) {
        if self.reader_slots.take_waker(reader_slot).is_some() {
            self.readers_asleep.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Notifies the writer if it waits for this reader.
    #[inline]
    pub(crate) fn on_reader_moved(&self, reader_slot: usize, activity: ReaderActivity) {
        store_load(FenceSite::Move);
        if self.writer_wait.reader.load(Ordering::Acquire) == reader_slot as u64 {
            self.release_writer(reader_slot, activity);
        }
    }

    #[cold]
    fn release_writer(&self, reader_slot: usize, activity: ReaderActivity) {
        let free = match self.guard {
            // Other lagging readers are in the way only while they read; the writer checks them itself.
            Guard::Skips => self.hand_over(reader_slot, None),
            Guard::Unguarded | Guard::Evicts => self.pass_baton(reader_slot, activity) == WaitOutcome::Over,
        };
        if free {
            let waker = self.writer_wait.waker.lock().take();
            if let Some(waker) = waker {
                panics::wake(waker);
            }
        }
    }

    /// Hands the writer's wait over from a reader that has passed the target to the next reader that has not.
    ///
    /// The next reader may be resting and would then never report that it has passed `ample`: it is chosen only if it
    /// is behind `needed`.
    pub(crate) fn pass_baton(&self, mut reader_slot: usize, mut activity: ReaderActivity) -> WaitOutcome {
        let wait = &self.writer_wait;
        loop {
            // Load it in each round: the target may have changed since this wait was handed over.
            let needed = wait.needed.load(Ordering::Relaxed);
            let target =
                if activity == ReaderActivity::Continues { wait.ample.load(Ordering::Relaxed) } else { needed };
            if self.lags(reader_slot, target) {
                return WaitOutcome::Waits;
            }
            let next = (reader_slot + 1..self.reader_slots.used()).find(|next| self.lags(*next, needed));
            if !self.hand_over(reader_slot, next) {
                // The thread that was faster continues from there.
                return WaitOutcome::Waits;
            }
            match next {
                None => return WaitOutcome::Over,
                Some(next) => reader_slot = next,
            }
            activity = ReaderActivity::Rests;
            store_load(FenceSite::Park);
        }
    }

    fn hand_over(&self, reader_slot: usize, next: Option<usize>) -> bool {
        let next = next.map_or(NO_READER, |next| next as u64);
        let on = &self.writer_wait.reader;
        on.compare_exchange(reader_slot as u64, next, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn reads(&self, reader_slot: usize) -> bool {
        self.reader_slots.tail(reader_slot).load(Ordering::Relaxed) & READING != 0
    }

    // Relaxed: the writer checks again before it writes.
    pub(crate) fn lags(&self, reader_slot: usize, target: u64) -> bool {
        position(self.reader_slots.tail(reader_slot).load(Ordering::Relaxed)) < target
    }
}

/// Expected next action of a reader that has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderActivity {
    /// It continues to read, so a writer that waits for it may have more room soon.
    Continues,
    /// It is unknown when it reads again.
    Rests,
}

impl ReaderActivity {
    /// A reader that is published at once may not publish anything else for a while, so it counts as resting.
    pub(crate) const fn after(at_once: bool) -> Self {
        if at_once { Self::Rests } else { Self::Continues }
    }
}

/// Outcome of the writer's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// It continues, for some reader.
    Waits,
    /// No reader is in the way any more.
    Over,
}
