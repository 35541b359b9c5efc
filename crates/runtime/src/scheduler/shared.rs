//! State of a scheduler that other threads may access: the far end of its queues, its counters and its sleep.

#![expect(unsafe_code, reason = "reads back slots that their scheduler has stored")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

use crossbeam_deque::{Injector, Stealer};
use crossbeam_utils::CachePadded;

use crate::observe::kinds::EndedProcesses;
use crate::process::header::ProcessHeader;
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::scheduler::lifo_slot::LifoSlot;

/// State of a scheduler that other threads may access.
pub(crate) struct SchedulerShared {
    pub(crate) stealer: Stealer<Slot>,
    /// LIFO slot: the receiver that runs next. Other threads may take it while this scheduler is stuck.
    pub(crate) lifo_slot: CachePadded<LifoSlot<ProcessHeader>>,
    /// Processes that may run only on this scheduler.
    pub(crate) pinned: Injector<Slot>,
    /// Processes that used up their time slice. They run after those in the other queues.
    pub(crate) preempted: Injector<Slot>,
    pub(super) unpark: OnceLock<Waker>,
    /// Its last wake-up or work came from a thread that is not a scheduler.
    external_wake: AtomicBool,
    /// Woken for work that will be queued in a moment.
    pub(super) prewoken: AtomicBool,
    /// Number of the scheduler that monitors this one, counted from 1, or 0 for none. See `steal_monitor.rs`.
    pub(super) monitored_by: AtomicU32,
    /// Number of processes that other threads took from the queues of this scheduler.
    pub(crate) stolen: AtomicU64,
    /// Part of `stolen` that was in the stealable queue.
    pub(super) stolen_from_queue: AtomicU64,
    /// Thread id in the operating system; 0 before the thread has started.
    pub(crate) thread_id: AtomicU32,
    pub(crate) counters: CachePadded<Counters>,
    /// Ended processes by kind and parent.
    pub(crate) ended: EndedProcesses,
}

/// Counters and times of a scheduler, which only its own thread writes. The counters never decrease.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) spawned: AtomicU64,
    /// Processes that no longer count toward the limit. Incremented before other threads can see that the process has
    /// ended.
    pub(crate) closed: AtomicU64,
    /// Processes that have ended completely.
    pub(crate) exited: AtomicU64,
    /// Part of `exited`: processes that ended with an abnormal reason.
    pub(crate) crashed: AtomicU64,
    pub(crate) polls: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) restarts_failed: AtomicU64,
    pub(crate) children_lost: AtomicU64,
    pub(crate) gave_up: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) steals: AtomicU64,
    /// Number of times that something was queued in an empty queue.
    pub(super) refills: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) wakes: AtomicU64,
    /// Number of polls that ended because the time slice was used up.
    pub(crate) preemptions: AtomicU64,
    /// Time at which the scheduler last went to sleep, in nanoseconds since the start of the runtime; 0 for never.
    pub(crate) slept_at_ns: AtomicU64,
    /// Time at which the oldest process in the queue was already there, at the start of the current slice; 0 for none.
    /// Written only while schedulers are watched.
    pub(crate) oldest_ready_ns: AtomicU64,
    /// Events that were dropped because there were too many.
    pub(crate) events_dropped: AtomicU64,
    /// Part of `crashed`: processes ended by an exit signal from another process or from outside.
    pub(crate) killed: AtomicU64,
    /// Part of `crashed`: processes ended by the exit of a linked process.
    pub(crate) linked: AtomicU64,
    /// Nanoseconds inside polls of processes, as far as they were measured: the same sum as in the processes.
    pub(crate) poll_ns: AtomicU64,
    /// Nanoseconds of searching for work in other queues and of waiting for it.
    pub(crate) search_ns: AtomicU64,
    /// Nanoseconds in the reactor while there was work.
    pub(crate) reactor_ns: AtomicU64,
    /// Nanoseconds awake, up to `busy_since_ns`.
    pub(crate) busy_ns: AtomicU64,
    /// Start of the busy time that is not in `busy_ns` yet; 0 while asleep.
    pub(crate) busy_since_ns: AtomicU64,
    /// Header of the running process; null between two polls.
    pub(crate) current: AtomicPtr<ProcessHeader>,
    /// Generation of the running process while its crash is reported, because its slot has the next one already; else 0.
    pub(crate) crashed_generation: AtomicU32,
}

impl SchedulerShared {
    pub(crate) fn new(stealer: Stealer<Slot>, barrier: bool) -> Self {
        Self {
            stealer,
            lifo_slot: CachePadded::new(LifoSlot::new(barrier)),
            pinned: Injector::new(),
            preempted: Injector::new(),
            unpark: OnceLock::new(),
            external_wake: AtomicBool::new(false),
            prewoken: AtomicBool::new(false),
            monitored_by: AtomicU32::new(0),
            stolen: AtomicU64::new(0),
            stolen_from_queue: AtomicU64::new(0),
            thread_id: AtomicU32::new(0),
            counters: CachePadded::default(),
            ended: EndedProcesses::default(),
        }
    }

    /// Returns the number of runnable processes in the queues of this scheduler.
    pub(crate) fn run_queue(&self) -> usize {
        self.stealer.len() + usize::from(!self.lifo_slot.is_empty()) + self.pinned.len() + self.preempted.len()
    }

    /// Returns true if an idle scheduler may take work from this one.
    pub(crate) fn has_work_for_others(&self) -> bool {
        (!self.stealer.is_empty() && !self.is_monitored()) || !self.preempted.is_empty()
    }

    /// Returns the process that is being polled.
    pub(crate) fn running(&self) -> Option<Pid> {
        let header = self.counters.current.load(Ordering::Acquire);
        // SAFETY: a scheduler stores only headers of its own runtime. Their chunks exist until its thread has ended,
        // and it stores none after that.
        let slot = unsafe { Slot::from_ptr(header) }?;
        // Its slot may already belong to another process.
        let crashed = self.counters.crashed_generation.load(Ordering::Acquire);
        let is_same = self.counters.current.load(Ordering::Relaxed) == header;
        Some(if crashed == 0 || !is_same { slot.pid() } else { Pid::local(slot.number(), crashed) })
    }

    /// Takes the process in the LIFO slot, while this scheduler is stuck.
    pub(crate) fn steal_lifo(&self) -> Option<Slot> {
        // SAFETY: the LIFO slot holds slots of its own runtime, which is running.
        unsafe { Slot::from_ptr(self.lifo_slot.steal()) }
    }

    /// Counts processes that another thread took from here, `queued` of them from the stealable queue. Relaxed: the
    /// numbers are only shown.
    pub(super) fn count_stolen(&self, processes: u64, queued: u64) {
        self.stolen.fetch_add(processes, Ordering::Relaxed);
        self.stolen_from_queue.fetch_add(queued, Ordering::Relaxed);
    }

    /// Returns true if the scheduler waits for work.
    #[cfg(feature = "test")]
    pub(crate) fn is_asleep(&self) -> bool {
        self.counters.busy_since_ns.load(Ordering::Relaxed) == 0
    }

    /// Notes that work or a wake-up comes from outside. Relaxed: a late value only saves or costs a sleep.
    pub(crate) fn mark_external_wake(&self) {
        self.external_wake.store(true, Ordering::Relaxed);
    }

    /// Returns true if work or a wake-up came from outside since the last call.
    pub(super) fn take_external_wake(&self) -> bool {
        let was = self.external_wake.load(Ordering::Relaxed);
        if was {
            self.external_wake.store(false, Ordering::Relaxed);
        }
        was
    }

    /// Wakes this scheduler, which then stays awake briefly for prewoken work. Relaxed: a late value only costs a
    /// sleep.
    pub(crate) fn prewake(&self) {
        self.prewoken.store(true, Ordering::Relaxed);
        self.unpark();
    }

    pub(crate) fn unpark(&self) {
        if let Some(waker) = self.unpark.get() {
            waker.wake_by_ref();
        }
    }

    /// Returns true if another scheduler monitors this queue, so that enqueuing need not wake one.
    #[inline]
    pub(crate) fn is_monitored(&self) -> bool {
        self.monitored_by.load(Ordering::Relaxed) != 0
    }
}
