//! The state of a scheduler that only its thread accesses, and how code on that thread finds it.

#![expect(unsafe_code, reason = "finds the scheduler of this thread through a pointer")]

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use crossbeam_deque::Worker;

use super::busy_time::BusyTimer;
use super::fuzzer::ScheduleFuzzer;
use super::queue::age::QueueAge;
use super::queue::children::ChildPlaces;
use super::run::dropped_replies::DroppedReply;
use super::shared::SchedulerShared;
use super::steal_monitor::StealMonitor;
use super::turn_end::Turn;
use crate::mailbox::introductions::IntroductionCache;
use crate::mailbox::queue::NodePool;
use crate::observe::inspect::ended::EndedBy;
use crate::observe::kinds::EndedCache;
use crate::process::free_list::FreeList;
use crate::process::header::bump;
use crate::process::side_table::SideTable;
use crate::process::table::Slot;
use crate::runtime::shared::RuntimeShared;

/// Thread-local state of a scheduler.
pub(crate) struct Local {
    pub(crate) shared: Arc<RuntimeShared>,
    pub(crate) id: usize,
    pub(crate) me: Arc<SchedulerShared>,
    pub(super) queue: Worker<Slot>,
    pub(super) queue_age: QueueAge,
    /// Selects the next process instead of the queue, in runs with a seed.
    pub(crate) fuzzer: Option<ScheduleFuzzer>,
    pub(super) slots: FreeList<Slot>,
    pub(crate) nodes: NodePool,
    /// Empty side tables for processes that need one from their start.
    #[expect(clippy::vec_box, reason = "the boxes themselves are kept for reuse")]
    pub(super) spare_side_tables: Cell<Vec<Box<SideTable>>>,
    pub(super) busy_timer: BusyTimer,
    pub(crate) current: Cell<Option<Slot>>,
    /// Waits of the running poll, as flags of [`ProcessHeader::wait`](crate::process::header::ProcessHeader::wait).
    pub(crate) wait: Cell<u8>,
    /// The running process must be queued again.
    pub(crate) woken: Cell<bool>,
    /// The running process has pending signals.
    pub(crate) signalled: Cell<bool>,
    pub(crate) budget: Cell<u32>,
    /// True while a trace is on; read anew at each slice.
    pub(crate) tracing: Cell<bool>,
    /// Instruments that are on in this slice; see `instruments.rs`.
    pub(super) instruments: Cell<u8>,
    /// Span of the running process, if it was entered.
    pub(super) span: Cell<Option<tracing::Span>>,
    /// Wake-ups that the running process owes to rings.
    pub(crate) turn: Turn,
    /// Number of processes that may still run from the LIFO slot before the queue gets its turn.
    pub(super) lifo_left: Cell<u32>,
    /// True while the reactor runs instead of the task of the loop.
    pub(super) in_reactor: Cell<bool>,
    pub(super) loop_waker: Cell<Option<Waker>>,
    /// See [`ReferenceAllocator`](crate::links::signal::ReferenceAllocator).
    pub(crate) last_reference: Cell<u64>,
    /// Processes that began a wait with a timeout and have set no timer yet; see `timeout.rs`.
    pub(super) deferred_timeouts: Cell<Vec<Slot>>,
    /// No other scheduler was woken for the process in the queue, because this one will run it next.
    pub(super) wake_deferred: Cell<bool>,
    /// The running poll ends as soon as it has queued one process.
    pub(crate) ends_after_enqueue: Cell<bool>,
    pub(super) first: Cell<bool>,
    pub(super) events_left: Cell<u32>,
    /// Number of ended processes that may still be kept for observers in this slice.
    pub(super) ends_left: Cell<u32>,
    /// An observer wants samples of the node or of a process.
    pub(super) samples: Cell<bool>,
    /// Time of the last mark for samples of the node.
    pub(super) marked_ns: Cell<u64>,
    /// Origin of the exit signal that the running process obeys.
    pub(super) ended_by: Cell<Option<EndedBy>>,
    pub(super) dropped_replies: RefCell<Vec<DroppedReply>>,
    pub(super) now_ms: Cell<u64>,
    /// Number of polls until the next check for work from other threads.
    pub(super) polls_until_check: Cell<u32>,
    /// Heap bytes that entered mailboxes minus those that left them, not yet added to the sum of the runtime.
    pub(crate) unsettled_mail: Cell<i64>,
    pub(super) introduction_cache: IntroductionCache,
    pub(super) checks: Cell<u32>,
    /// Number of slices that ended after a few long polls.
    pub(super) long_slices: Cell<u32>,
    /// Guests that the running guest has spawned in this poll.
    pub(super) children: Cell<Vec<Slot>>,
    /// Places in the queue that they take.
    pub(super) child_places: Box<ChildPlaces>,
    /// The process whose poll was ended because its time slice was used up.
    pub(super) preempted: Cell<Option<Slot>>,
    /// The last process taken from the preempted ones.
    pub(super) resumed: Cell<Option<Slot>>,
    /// It used up its time slice again.
    pub(super) resumed_long: Cell<bool>,
    /// Time of the slice after that.
    pub(super) resumed_ns: Cell<u64>,
    /// Time of the last comparison with the preempted processes of other schedulers.
    pub(super) balanced_ns: Cell<u64>,
    /// Number of preempted processes that run next, although others are ready.
    pub(super) preempted_due: Cell<u8>,
    pub(super) spins: Cell<u32>,
    /// True if the last turn of the reactor has woken a process.
    pub(super) fed_by_reactor: Cell<bool>,
    /// Other schedulers recently sent work soon after this one had run out of it.
    pub(super) expects_peer_work: Cell<bool>,
    pub(super) slept_at_ns: Cell<u64>,
    pub(super) searching: Cell<bool>,
    /// Start of the search for work, in nanoseconds; 0 if none is measured.
    pub(super) search_since_ns: Cell<u64>,
    pub(super) ended_cache: EndedCache,
    pub(super) asleep: Cell<bool>,
    pub(super) steal_monitor: StealMonitor,
}

thread_local! {
    pub(super) static LOCAL: Cell<*const Local> = const { Cell::new(ptr::null()) };
}

/// Returns the scheduler of this thread, if it is one.
#[inline]
pub(crate) fn local<'a>() -> Option<&'a Local> {
    // SAFETY: the pointer is set for as long as the scheduler's thread runs its loop, and only this thread reads it. No
    // caller keeps the reference beyond a poll.
    unsafe { LOCAL.with(Cell::get).as_ref() }
}

impl Local {
    /// Returns true if the tenant `generation` of a slot runs on this thread.
    #[inline]
    pub(crate) fn is_running(&self, slot: Slot, generation: u32) -> bool {
        self.current.get() == Some(slot) && slot.header().generation.load(Ordering::Relaxed) == generation
    }

    /// Returns true if a process runs on this thread.
    pub(crate) fn is_running_any(&self) -> bool {
        self.current.get().is_some()
    }

    /// Returns the number of this scheduler in the runtime, counted from 0.
    pub(crate) const fn number(&self) -> usize {
        self.id
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    pub(crate) fn count_spawn(&self) {
        bump(&self.me.counters.spawned, 1);
    }
}
