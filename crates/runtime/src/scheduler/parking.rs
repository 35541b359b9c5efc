//! Tracks which schedulers sleep, and selects one to wake when there is more work.
//!
//! ```text
//!   running ── nothing found ──▶ searching ── still nothing ──▶ asleep
//!      ▲                            │ ▲                            │
//!      └──────── found ─────────────┘ └────────── woken ───────────┘
//! ```
//!
//! A scheduler marks itself asleep *before* its last check of every queue. An enqueuing thread checks the marks *after*
//! it has enqueued. With a sequentially consistent fence in between on both sides, at least one of them sees the other.
//! A scheduler that enqueues on itself skips that fence, since it will run the process, and executes one per slice
//! instead.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Largest number of schedulers of a runtime: one bit each.
pub(crate) const SCHEDULERS_MAX: usize = 64;

/// State of all schedulers: a set of those asleep, and the number of those searching for work.
pub(crate) struct Parking {
    asleep: AtomicU64,
    searching: AtomicU32,
}

/// Result of an attempt to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Asleep: an enqueuing thread may pick this scheduler.
    Asleep,
    /// Awake: there is work.
    Work,
    /// Awake: another thread has picked this scheduler, which therefore counts as searching.
    Picked,
}

impl Parking {
    pub(crate) fn new() -> Self {
        Self { asleep: AtomicU64::new(0), searching: AtomicU32::new(0) }
    }

    /// Returns true if a scheduler sleeps. Cheap, but may be stale.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) != 0
    }

    /// Fence: makes queued work visible to a scheduler that is about to sleep, or the mark of that scheduler visible
    /// here.
    #[inline]
    pub(crate) fn announce_work() {
        fence(Ordering::SeqCst);
    }

    /// Picks a sleeping scheduler to wake, unless one is already searching for work. The caller must wake it.
    ///
    /// The picked scheduler counts as searching from here on.
    pub(crate) fn pick(&self) -> Option<usize> {
        if self.searching.load(Ordering::SeqCst) != 0 {
            return None;
        }
        let mut asleep = self.asleep.load(Ordering::SeqCst);
        while asleep != 0 {
            let bit = asleep & asleep.wrapping_neg();
            asleep = self.asleep.fetch_and(!bit, Ordering::SeqCst);
            if asleep & bit != 0 {
                self.searching.fetch_add(1, Ordering::SeqCst);
                return Some(bit.trailing_zeros() as usize);
            }
        }
        None
    }

    /// Picks the given scheduler if it sleeps. The caller must wake it. It then counts as searching, too.
    pub(crate) fn pick_this(&self, scheduler: usize) -> bool {
        let bit = 1 << scheduler;
        let picked =
            self.asleep.load(Ordering::SeqCst) & bit != 0 && self.asleep.fetch_and(!bit, Ordering::SeqCst) & bit != 0;
        if picked {
            self.searching.fetch_add(1, Ordering::SeqCst);
        }
        picked
    }

    /// Starts a search for work.
    pub(crate) fn search(&self) {
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a search. Returns true for the last searching scheduler, which must wake another one if it found work.
    pub(crate) fn end_search(&self) -> bool {
        self.searching.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Goes to sleep, unless `work` returns true after the mark is visible to all threads.
    pub(crate) fn sleep(&self, scheduler: usize, work: impl FnOnce() -> bool) -> Sleep {
        let bit = 1 << scheduler;
        self.asleep.fetch_or(bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !work() {
            return Sleep::Asleep;
        }
        if self.asleep.fetch_and(!bit, Ordering::SeqCst) & bit == 0 { Sleep::Picked } else { Sleep::Work }
    }

    /// Clears the mark of a scheduler that woke. Returns false if it was picked, and so counts as searching.
    pub(crate) fn wake_up(&self, scheduler: usize) -> bool {
        let bit = 1 << scheduler;
        self.asleep.load(Ordering::Relaxed) & bit != 0 && self.asleep.fetch_and(!bit, Ordering::SeqCst) & bit != 0
    }
}
