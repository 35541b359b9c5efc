//! What others may see and touch of a scheduler: its queues from their far end, its counters, its sleep.

#![expect(unsafe_code, reason = "reads slots back from where their scheduler has put them")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

use crossbeam_deque::{Injector, Stealer};
use crossbeam_utils::CachePadded;

use crate::cell::Cell;
use crate::next::NextPlace;
use crate::pid::Pid;
use crate::slab::Slot;

/// See the module.
pub(crate) struct SchedulerShared {
    pub(crate) stealer: Stealer<Slot>,
    /// The receiver to run next; others may take it while this scheduler is stuck.
    pub(crate) next: CachePadded<NextPlace<Cell>>,
    /// Processes that run nowhere else.
    pub(crate) pinned: Injector<Slot>,
    pub(super) unpark: OnceLock<Waker>,
    /// A thread that is no scheduler woke it last, or gave it something to run.
    outside: AtomicBool,
    /// Woken for what will be queued in a moment.
    #[cfg(feature = "store")]
    pub(super) promised: AtomicBool,
    /// The scheduler that guards this one, counted from 1; 0 if there is none. See `guard.rs`.
    pub(super) guard: AtomicU32,
    pub(crate) counters: CachePadded<Counters>,
}

/// Counters that only their scheduler writes; they only go up.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) spawned: AtomicU64,
    /// Processes that do not count for the limit any more: raised before others can see that one has ended.
    pub(crate) closed: AtomicU64,
    /// Processes of which nothing is left.
    pub(crate) exited: AtomicU64,
    pub(crate) crashed: AtomicU64,
    pub(crate) polls: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) restarts_failed: AtomicU64,
    pub(crate) children_lost: AtomicU64,
    pub(crate) gave_up: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) steals: AtomicU64,
    /// Times that something was queued where nothing was.
    pub(super) refills: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) wakes: AtomicU64,
    /// Events that nobody was told of.
    pub(crate) events_dropped: AtomicU64,
    /// Nanoseconds not asleep, up to `busy_since_ns`.
    pub(crate) busy_ns: AtomicU64,
    /// The instant from which busy time is not in `busy_ns` yet; 0 while asleep.
    pub(crate) busy_since_ns: AtomicU64,
    /// The cell of the running process; null between two.
    pub(crate) current: AtomicPtr<Cell>,
}

impl SchedulerShared {
    pub(crate) fn new(stealer: Stealer<Slot>, barrier: bool) -> Self {
        Self {
            stealer,
            next: CachePadded::new(NextPlace::new(barrier)),
            pinned: Injector::new(),
            unpark: OnceLock::new(),
            outside: AtomicBool::new(false),
            #[cfg(feature = "store")]
            promised: AtomicBool::new(false),
            guard: AtomicU32::new(0),
            counters: CachePadded::default(),
        }
    }

    /// Runnable processes that wait here.
    pub(crate) fn run_queue(&self) -> usize {
        self.stealer.len() + usize::from(!self.next.is_empty()) + self.pinned.len()
    }

    /// The process inside a poll.
    pub(crate) fn running(&self) -> Option<Pid> {
        let cell = self.counters.current.load(Ordering::Acquire);
        // SAFETY: a scheduler names only cells of its own runtime, whose chunks are held until its thread has ended, and
        // it names none after that.
        unsafe { Slot::from_ptr(cell) }.map(Slot::pid)
    }

    /// Takes the process that runs next here, while this scheduler is stuck.
    pub(crate) fn steal_next(&self) -> Option<Slot> {
        // SAFETY: the place holds slots of its own runtime, which runs.
        unsafe { Slot::from_ptr(self.next.steal()) }
    }

    /// Whether it waits for work.
    #[cfg(feature = "test")]
    pub(crate) fn is_asleep(&self) -> bool {
        self.counters.busy_since_ns.load(Ordering::Relaxed) == 0
    }

    /// Notes that what comes now is not another scheduler's; relaxed, for it only saves or costs a sleep.
    pub(crate) fn is_served_from_outside(&self) {
        self.outside.store(true, Ordering::Relaxed);
    }

    /// Whether it was since the last look.
    pub(super) fn was_served_from_outside(&self) -> bool {
        let was = self.outside.load(Ordering::Relaxed);
        if was {
            self.outside.store(false, Ordering::Relaxed);
        }
        was
    }

    /// Wakes this scheduler, which then stays awake a little for what will be queued. Relaxed, as it only saves a sleep.
    #[cfg(feature = "store")]
    pub(crate) fn promise(&self) {
        self.promised.store(true, Ordering::Relaxed);
        self.unpark();
    }

    pub(crate) fn unpark(&self) {
        if let Some(waker) = self.unpark.get() {
            waker.wake_by_ref();
        }
    }
}
