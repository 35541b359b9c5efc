//! Which schedulers sleep, and whom to wake when there is more to run.
//!
//! ```text
//!   running ── nothing found ──▶ searching ── still nothing ──▶ asleep
//!      ▲                            │ ▲                            │
//!      └──────── found ─────────────┘ └────────── woken ───────────┘
//! ```
//!
//! A scheduler marks itself asleep *before* it looks a last time at every queue; whoever queues looks at the marks
//! *after* queueing. With a sequentially consistent fence in between on both sides, one of them sees the other. A
//! scheduler that queues for itself skips that fence, since it will run what it queued, and makes up for it once a slice.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The most schedulers of a runtime: one bit each.
pub(crate) const SCHEDULERS_MAX: usize = 64;

/// See the module's picture.
pub(crate) struct Parking {
    asleep: AtomicU64,
    searching: AtomicU32,
}

/// How an attempt to sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Asleep: whoever queues may pick this scheduler.
    Asleep,
    /// Awake: there is work.
    Work,
    /// Awake: somebody picked this scheduler, which therefore counts as searching.
    Picked,
}

impl Parking {
    pub(crate) fn new() -> Self {
        Self { asleep: AtomicU64::new(0), searching: AtomicU32::new(0) }
    }

    /// A cheap look that may be stale.
    #[inline]
    pub(crate) fn might_wake(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) != 0
    }

    /// Makes what this thread has queued visible to a scheduler that is about to sleep, or that one's mark visible here.
    #[inline]
    pub(crate) fn announce_work() {
        fence(Ordering::SeqCst);
    }

    /// Picks a sleeping scheduler to wake, unless one is already looking for work; the caller must wake it.
    ///
    /// The picked one counts as searching from here on.
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

    /// Picks this very scheduler if it sleeps; the caller must wake it. It then counts as searching, too.
    pub(crate) fn pick_this(&self, scheduler: usize) -> bool {
        let bit = 1 << scheduler;
        let picked =
            self.asleep.load(Ordering::SeqCst) & bit != 0 && self.asleep.fetch_and(!bit, Ordering::SeqCst) & bit != 0;
        if picked {
            self.searching.fetch_add(1, Ordering::SeqCst);
        }
        picked
    }

    /// Starts to look for work.
    pub(crate) fn search(&self) {
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the search; true for the last one who searched, who wakes another if it found work.
    pub(crate) fn end_search(&self) -> bool {
        self.searching.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Goes to sleep unless `work` finds some after everybody can know of the sleep.
    pub(crate) fn sleep(&self, scheduler: usize, work: impl FnOnce() -> bool) -> Sleep {
        let bit = 1 << scheduler;
        self.asleep.fetch_or(bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !work() {
            return Sleep::Asleep;
        }
        if self.asleep.fetch_and(!bit, Ordering::SeqCst) & bit == 0 { Sleep::Picked } else { Sleep::Work }
    }

    /// Takes back the mark of a scheduler that woke; false if it was picked, and counts as searching.
    pub(crate) fn wake_up(&self, scheduler: usize) -> bool {
        let bit = 1 << scheduler;
        self.asleep.load(Ordering::Relaxed) & bit != 0 && self.asleep.fetch_and(!bit, Ordering::SeqCst) & bit != 0
    }
}
