//! The shared part of a control block: flags, wait state and counters of a process, readable by any thread.

use crate::mailbox::gate::Gate;
use crate::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::sync::{RawMutex, raw_mutex};

/// [`ProcessHeader::flags`]: the process holds something that its exit must release.
pub(crate) const HAS_SIDE_TABLE: u16 = 1;
/// [`ProcessHeader::flags`]: the process has a name or a label.
pub(crate) const NAMED: u16 = 1 << 1;
/// [`ProcessHeader::flags`]: sends to the process, its wake-ups and its polls are sampled; see `observe/inspect/watch.rs`.
pub(crate) const WATCHED: u16 = 1 << 2;
/// [`ProcessHeader::flags`], changed under [`ProcessHeader::lock`]: exit signals arrive as messages.
pub(crate) const TRAPS: u16 = 1 << 4;
/// [`ProcessHeader::flags`], set under [`ProcessHeader::lock`]: an exit signal that cannot be trapped is pending.
pub(crate) const KILLED: u16 = 1 << 5;
/// [`ProcessHeader::flags`], changed under [`ProcessHeader::lock`]: senders wait for room; none may overtake them until
/// they are woken.
pub(crate) const HAS_WAITING_SENDERS: u16 = 1 << 6;
/// [`ProcessHeader::flags`]: a future inside the process waits with its own waker, which must be woken before the
/// process runs.
pub(crate) const HAS_INNER_WAKERS: u16 = 1 << 7;
/// [`ProcessHeader::flags`]: the body reads byte messages in the short form, which bodies of its kind send.
pub(crate) const READS_SHORT: u16 = 1 << 8;
/// [`ProcessHeader::flags`]: the process may send only to processes that it knows, so senders introduce themselves to
/// it.
pub(crate) const CONFINED: u16 = 1 << 15;
/// The process runs on one scheduler only. The scheduler's number is in the bits from [`AFFINITY_SHIFT`] on.
const PINNED: u16 = 1 << 3;
const AFFINITY_SHIFT: u32 = 9;
const AFFINITY_MASK: u16 = 0x3f;
/// The last generation of a slot, also used as a mask. It keeps a pid that is packed into one integer from being
/// negative, which core modules treat as an error. At a million processes per second in one slot, the generations last
/// for half an hour; the slot is not used after that.
const GENERATION_MAX: u32 = u32::MAX >> 1;

/// [`ProcessHeader::wait`]: the process waits for a message.
pub(crate) const WAIT_RECEIVE: u8 = 1;
/// [`ProcessHeader::wait`]: the process waits for a timer.
pub(crate) const WAIT_SLEEP: u8 = 2;
/// [`ProcessHeader::wait`]: the process waits for room in a mailbox, or for the other side of a ring.
pub(crate) const WAIT_SEND: u8 = 4;
/// [`ProcessHeader::wait`]: the process waits with a timeout for which it has not set a timer yet; see `timeout.rs`.
pub(crate) const WAIT_TIMER_DEFERRED: u8 = 8;
/// [`ProcessHeader::wait`]: the process yielded and runs again without a wake-up.
pub(crate) const WAIT_AGAIN: u8 = 16;
/// [`ProcessHeader::wait`]: the process was handed over with its message: it is in a run queue, although its gate is
/// `RUNNING`.
pub(crate) const WAIT_HANDOFF: u8 = 32;

/// [`ProcessHeader::wait`]: the process waits for the reply to a call, which is a message.
pub(crate) const WAIT_CALL: u8 = 64;
/// [`ProcessHeader::wait`]: the process waits for a commit of a store.
pub(crate) const WAIT_STORE: u8 = 128;
/// [`ProcessHeader::wait`]: a message may end the wait.
pub(crate) const WAIT_MESSAGE: u8 = WAIT_RECEIVE | WAIT_CALL;

/// The shared part of a control block: one cache line.
///
/// Only the owner writes the `AtomicU64` counters, by a relaxed load and a relaxed store. Readers see a recent value of
/// each counter, which is enough for statistics.
#[repr(C, align(64))]
pub(crate) struct ProcessHeader {
    pub(crate) gate: Gate,
    /// Generation of the process in this slot, or of the next one if the slot is free.
    pub(crate) generation: AtomicU32,
    /// Number of coming polls that are timed regardless of the sampling; see `busy_time.rs`.
    pub(crate) exact_polls_left: AtomicU8,
    /// `WAIT_*` bits of the last poll.
    pub(crate) wait: AtomicU8,
    /// Set by any thread, read by senders, at each turn, at exit and by observers.
    pub(crate) flags: AtomicU16,
    pub(crate) polls: AtomicU64,
    /// Nanoseconds inside polls; in a free slot, the link to the next free slot.
    pub(crate) busy_ns: AtomicU64,
    /// Number of messages received.
    pub(crate) messages: AtomicU64,
    /// Number of messages that the process has not received, except those in the gate. They come from the gate, or from
    /// a sender on the same scheduler that puts one directly here.
    pub(crate) backlog: AtomicU32,
    /// Bytes of a future that is too large for the body.
    pub(crate) future_bytes: AtomicU32,
    /// Heap bytes of waiting messages; senders add to it.
    pub(crate) mail_bytes: AtomicU32,
    /// Maximum number of waiting messages.
    pub(crate) capacity: AtomicU32,
    /// Guards [`Body::side_table`](crate::process::task::Body::side_table).
    pub(crate) lock: RawMutex,
    /// [`trace_mark`] of the process that a trace follows or has followed.
    trace_mark: AtomicU8,
    /// High part of the time of the spawn, in milliseconds since the runtime started.
    spawned_ms_high: AtomicU16,
    /// Low part, which alone is enough for 49 days.
    spawned_ms_low: AtomicU32,
}

/// Returns the mark of a traced process, which depends on its generation: nothing has to be cleared when the slot is
/// reused. Never 0.
const fn trace_mark(generation: u32) -> u8 {
    (generation % 255) as u8 + 1
}

/// Returns the flags of a process that runs only on this scheduler.
pub(crate) const fn pinned_to(scheduler: usize) -> u16 {
    PINNED | (scheduler as u16) << AFFINITY_SHIFT
}

impl ProcessHeader {
    /// Returns the scheduler that the process is pinned to; `None` if it may run on any.
    #[inline]
    pub(crate) fn affinity(&self) -> Option<usize> {
        let flags = self.flags.load(Ordering::Relaxed);
        (flags & PINNED != 0).then_some((flags >> AFFINITY_SHIFT & AFFINITY_MASK) as usize)
    }

    /// Returns the flags if putting the process into a run queue needs more than the queue: it is pinned or watched.
    #[inline]
    pub(crate) fn queue_flags(&self) -> Option<u16> {
        Some(self.flags.load(Ordering::Relaxed)).filter(|flags| flags & (PINNED | WATCHED) != 0)
    }

    pub(crate) fn free() -> Self {
        Self {
            gate: Gate::closed(),
            generation: AtomicU32::new(1),
            exact_polls_left: AtomicU8::new(0),
            wait: AtomicU8::new(0),
            flags: AtomicU16::new(0),
            polls: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            backlog: AtomicU32::new(0),
            future_bytes: AtomicU32::new(0),
            mail_bytes: AtomicU32::new(0),
            capacity: AtomicU32::new(0),
            lock: raw_mutex(),
            trace_mark: AtomicU8::new(0),
            spawned_ms_high: AtomicU16::new(0),
            spawned_ms_low: AtomicU32::new(0),
        }
    }

    /// Returns the flags that prevent a sender from putting a message directly into the backlog; 0 for most processes.
    ///
    /// The sender may ignore [`CONFINED`] if it was introduced to the process.
    #[inline]
    pub(crate) fn handoff_blockers(&self) -> u16 {
        self.flags.load(Ordering::Relaxed) & (PINNED | WATCHED | HAS_INNER_WAKERS | HAS_WAITING_SENDERS | CONFINED)
    }

    /// Returns true if the backlog is shorter than the capacity of the mailbox. The result is exact only for the owner.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) < self.capacity.load(Ordering::Relaxed)
    }

    /// Prepares a free header for its next process and opens its gate as scheduled. Other threads may add something to
    /// the process from then on.
    #[inline]
    pub(crate) fn activate(&self, flags: u16, future_bytes: u32, capacity: u32, spawned_ms: u64) {
        self.exact_polls_left.store(0, Ordering::Relaxed);
        self.wait.store(0, Ordering::Relaxed);
        // Release: a thread that sees these flags also sees the new generation, and does not take them for those of the
        // previous process.
        self.flags.store(flags, Ordering::Release);
        self.polls.store(0, Ordering::Relaxed);
        self.busy_ns.store(0, Ordering::Relaxed);
        self.messages.store(0, Ordering::Relaxed);
        self.future_bytes.store(future_bytes, Ordering::Relaxed);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.spawned_ms_high.store((spawned_ms >> 32) as u16, Ordering::Relaxed);
        self.spawned_ms_low.store(spawned_ms as u32, Ordering::Relaxed);
        self.gate.open();
    }

    /// Advances the generation after the gate was closed: from then on nothing can be added to the process. Returns the
    /// next generation (0 if all are used up), and true if the process holds something.
    #[inline]
    pub(crate) fn retire(&self, generation: u32) -> (u32, bool) {
        let next = (generation + 1) & GENERATION_MAX;
        if self.flags.load(Ordering::Relaxed) & READS_SHORT != 0 {
            // Clear the flag before storing the new generation: the next process may be of another kind.
            self.flags.fetch_and(!READS_SHORT, Ordering::Relaxed);
        }
        self.generation.store(next, Ordering::SeqCst);
        // Read the flags after storing the new generation: a thread that adds something sets the flag before it checks
        // the generation, so at least one of the two sees the other.
        (next, self.flags.load(Ordering::SeqCst) & HAS_SIDE_TABLE != 0)
    }

    /// Marks the process as one that a trace follows.
    pub(crate) fn mark_traced(&self) {
        self.trace_mark.store(trace_mark(self.generation.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Returns true if a trace may follow the process; the trace knows for certain.
    pub(crate) fn is_traced(&self) -> bool {
        self.trace_mark.load(Ordering::Relaxed) == trace_mark(self.generation.load(Ordering::Relaxed))
    }

    /// Returns the time of the spawn, in milliseconds since the runtime started.
    pub(crate) fn spawned_ms(&self) -> u64 {
        let high = u64::from(self.spawned_ms_high.load(Ordering::Relaxed));
        high << 32 | u64::from(self.spawned_ms_low.load(Ordering::Relaxed))
    }

    /// Returns the number of waiting messages.
    pub(crate) fn mailbox_len(&self) -> u64 {
        u64::from(self.gate.pending()) + u64::from(self.backlog.load(Ordering::Relaxed))
    }

    /// Returns the bytes that the waiting messages take.
    pub(crate) fn mailbox_bytes(&self) -> u64 {
        self.mailbox_len() * crate::mailbox::queue::NODE_BYTES as u64
            + u64::from(self.mail_bytes.load(Ordering::Relaxed))
    }

    /// Returns the number of polls plus the number of messages received.
    pub(crate) fn reductions(&self) -> u64 {
        self.polls.load(Ordering::Relaxed) + self.messages.load(Ordering::Relaxed)
    }
}

/// Adds to a counter that only this thread writes. The load and the store are eighteen times cheaper than a locked add.
#[inline]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
