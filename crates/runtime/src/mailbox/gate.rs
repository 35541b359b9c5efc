//! The atomic word through which other threads reach a process: it combines the inbox and the scheduling state.
//!
//! ```text
//!   63        48 47                          6 5        0
//!  ┌────────────┬─────────────────────────────┬──────────┐
//!  │ pending    │ newest message node         │ flags    │
//!  └────────────┴─────────────────────────────┴──────────┘
//!
//!             open                begin_run              end_run
//!   CLOSED ─────────▶ SCHEDULED ─────────────▶ RUNNING ──────────▶ 0 or NOT_RECEIVING
//!      ▲                  ▲                       │                   │
//!      └──────────────────┼───── close ───────────┘                   │
//!                         └────── push, wake, signal ─────────────────┤
//!                                                 ▲                   │
//!                                                 └── begin_handoff ──┘
//! ```
//!
//! The thread that changes the word from unscheduled to `SCHEDULED` puts the process into a run queue, so the process
//! is in at most one queue. While it is `RUNNING`, no other thread enqueues it; its owner finds what arrived meanwhile
//! when it tries to leave (`end_run`). A message therefore costs its sender one compare-and-swap, which queues the
//! message, counts it and decides about the wake-up. A sender on the scheduler that will run the receiver next does not
//! even queue the message: if the word is 0, the sender becomes the owner (`begin_handoff`), puts the message directly
//! into the backlog, and leaves `RUNNING` set for the thread that takes the process out of the run queue. Invariant:
//! only the thread that holds `RUNNING` (or allocated a `CLOSED` slot) accesses the state that the process owns.

use crate::sync::atomic::{AtomicU64, Ordering};

/// In a run queue, or about to be put there by the thread that set the flag.
const SCHEDULED: u64 = 1;
/// Inside a poll.
const RUNNING: u64 = 1 << 1;
/// Waits for something other than a message: messages do not wake the process.
const NOT_RECEIVING: u64 = 1 << 2;
/// No process: the slot is free, or its process has ended.
const CLOSED: u64 = 1 << 3;
/// Signals are pending for the owner.
const SIGNAL: u64 = 1 << 4;
/// Senders wait for room.
const BACKPRESSURE: u64 = 1 << 5;

const FLAGS: u64 = 0x3f;
const NODE: u64 = 0x0000_ffff_ffff_ffc0;
const COUNT_SHIFT: u32 = 48;

/// Maximum number of messages that the word can count between two visits of the owner.
pub(crate) const PENDING_MAX: u32 = u16::MAX as u32;

/// The atomic word of one process: its inbox and its scheduling state.
pub(crate) struct Gate(AtomicU64);

/// Result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// Queued; the process finds the message without a wake-up.
    Queued,
    /// Queued, and the caller must put the process into a run queue.
    Wake,
    /// Not queued: the mailbox is full.
    Full,
    /// Not queued: the process has ended.
    Closed,
}

/// Contents that the owner has taken from the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrivals(u64);

impl Arrivals {
    /// Returns the newest message node, linked to older ones; 0 without messages.
    pub(crate) const fn newest(self) -> u64 {
        self.0 & NODE
    }

    /// Returns the number of messages in that chain.
    #[allow(dead_code, reason = "used by the models to check the count in the word")]
    pub(crate) const fn count(self) -> u32 {
        (self.0 >> COUNT_SHIFT) as u32
    }

    /// Returns true if signals are pending.
    pub(crate) const fn signal(self) -> bool {
        self.0 & SIGNAL != 0
    }

    /// Returns true if senders wait for room.
    pub(crate) const fn backpressure(self) -> bool {
        self.0 & BACKPRESSURE != 0
    }

    /// Returns true if there is nothing to process.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 & (NODE | SIGNAL | BACKPRESSURE | SCHEDULED) == 0
    }

    /// Returns true if a wake-up arrived while the process ran; it must not be lost.
    pub(crate) const fn woken(self) -> bool {
        self.0 & SCHEDULED != 0
    }
}

/// State of a process as other threads see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No process.
    Closed,
    /// In a run queue.
    Runnable,
    /// Inside a poll.
    Running,
    /// Waits.
    Parked,
}

impl Gate {
    /// Creates a gate without a process.
    pub(crate) fn closed() -> Self {
        Self(AtomicU64::new(CLOSED))
    }

    /// Returns true if signals are pending for the owner.
    pub(crate) fn is_signalled(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SIGNAL != 0
    }

    /// Opens the gate of a new process as scheduled; the caller puts the process into a run queue.
    pub(crate) fn open(&self) {
        self.0.store(SCHEDULED, Ordering::Release);
    }

    /// Queues the node at address `node` if `room(pending)` is true. `link(newest)` writes the node's link before other
    /// threads can see the node.
    #[inline]
    pub(crate) fn push(&self, node: u64, room: impl Fn(u32) -> bool, link: impl FnMut(u64)) -> Push {
        self.push_if(node, |pending| pending < PENDING_MAX && room(pending), link)
    }

    /// Queues the node even without room. The word does not count messages beyond [`PENDING_MAX`].
    pub(crate) fn force_push(&self, node: u64, link: impl FnMut(u64)) -> Push {
        self.push_if(node, |_| true, link)
    }

    #[inline]
    fn push_if(&self, node: u64, room: impl Fn(u32) -> bool, mut link: impl FnMut(u64)) -> Push {
        debug_assert!(node & !NODE == 0 && node != 0, "message nodes are 64-byte aligned");
        let mut old = self.0.load(Ordering::Relaxed);
        loop {
            if old & CLOSED != 0 {
                return Push::Closed;
            }
            let pending = (old >> COUNT_SHIFT) as u32;
            if !room(pending) {
                return Push::Full;
            }
            link(old & NODE);
            let wake = old & (SCHEDULED | RUNNING | NOT_RECEIVING) == 0;
            let flags = old & FLAGS | if wake { SCHEDULED } else { 0 };
            let counted = (pending + 1).min(PENDING_MAX);
            let new = flags | node | u64::from(counted) << COUNT_SHIFT;
            // Release publishes the node; the owner's swap acquires it.
            match self.0.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return if wake { Push::Wake } else { Push::Queued },
                Err(now) => old = now,
            }
        }
    }

    /// Records that a sender waits for room, unless there is room by now ([`Push::Queued`]) or the process has ended.
    ///
    /// On [`Push::Wake`], the caller must put the process into a run queue, so that it empties the inbox: the word can
    /// count no further messages.
    pub(crate) fn request_room(&self, room: impl Fn(u32) -> bool) -> Push {
        let mut old = self.0.load(Ordering::Relaxed);
        loop {
            if old & CLOSED != 0 {
                return Push::Closed;
            }
            let pending = (old >> COUNT_SHIFT) as u32;
            if pending < PENDING_MAX && room(pending) {
                return Push::Queued;
            }
            let wake = pending == PENDING_MAX && old & (SCHEDULED | RUNNING) == 0;
            let new = old | BACKPRESSURE | if wake { SCHEDULED } else { 0 };
            match self.0.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if wake => return Push::Wake,
                // The first check may have read counters from before the owner parked; this check cannot.
                Ok(_) => return if pending < PENDING_MAX && room(pending) { Push::Queued } else { Push::Full },
                Err(now) => old = now,
            }
        }
    }

    /// Wakes the process regardless of what it waits for. If true, the caller must put the process into a run queue.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        self.0.fetch_or(SCHEDULED, Ordering::AcqRel) & (SCHEDULED | RUNNING | CLOSED) == 0
    }

    /// Records that signals are pending. If true, the caller must put the process into a run queue.
    pub(crate) fn signal(&self) -> bool {
        self.0.fetch_or(SCHEDULED | SIGNAL, Ordering::AcqRel) & (SCHEDULED | RUNNING | CLOSED) == 0
    }

    /// Makes the caller the owner of a process that waits only for messages; false if the process does not. The new
    /// owner must put the process into a run queue.
    #[inline]
    pub(crate) fn begin_handoff(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
            && self.0.compare_exchange(0, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Begins the turn of a process that was handed over, and takes what has arrived since then.
    #[inline]
    pub(crate) fn begin_after_handoff(&self) -> Arrivals {
        // A stale read only delays: anything missed here keeps `end_run` from parking the process.
        if self.0.load(Ordering::Relaxed) == RUNNING {
            return Arrivals(0);
        }
        let old = self.0.swap(RUNNING, Ordering::AcqRel);
        debug_assert!(old & (RUNNING | CLOSED) == RUNNING, "no other scheduler runs a process that was handed over");
        Arrivals(old & !SCHEDULED)
    }

    /// Begins the turn of a process from a run queue, and takes what has arrived.
    #[inline]
    pub(crate) fn begin_run(&self) -> Arrivals {
        let old = self.0.swap(RUNNING, Ordering::AcqRel);
        debug_assert!(old & (SCHEDULED | RUNNING | CLOSED) == SCHEDULED, "only a scheduled process is in a run queue");
        Arrivals(old & !SCHEDULED)
    }

    /// Takes what has arrived while the owner runs; `None` if nothing has.
    #[inline]
    pub(crate) fn absorb(&self) -> Option<Arrivals> {
        self.has_arrivals().then(|| Arrivals(self.0.swap(RUNNING, Ordering::AcqRel)))
    }

    /// Returns true if something has arrived that the running owner should take.
    #[inline]
    pub(crate) fn has_arrivals(&self) -> bool {
        // A stale read only delays: anything missed here keeps `end_run` from parking the process.
        self.0.load(Ordering::Relaxed) & (NODE | SIGNAL | BACKPRESSURE) != 0
    }

    /// Ends the turn. If true, something has arrived and the caller must put the process into a run queue.
    #[inline]
    pub(crate) fn end_run(&self, not_receiving: bool, woken: bool) -> bool {
        let parked = if not_receiving { NOT_RECEIVING } else { 0 };
        if !woken && self.0.compare_exchange(RUNNING, parked, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return false;
        }
        let mut old = self.0.load(Ordering::Relaxed);
        loop {
            let new = old & !RUNNING | SCHEDULED;
            match self.0.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
    }

    /// Closes the gate when the running process ends, and takes what is left; nothing enters from then on.
    #[inline]
    pub(crate) fn close(&self) -> Arrivals {
        Arrivals(self.0.swap(CLOSED, Ordering::AcqRel))
    }

    /// Returns the number of messages that arrived since the owner's last visit.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        (self.0.load(Ordering::Relaxed) >> COUNT_SHIFT) as u32
    }

    /// Returns true if the slot is free or its process has ended.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Returns the state as other threads see it.
    pub(crate) fn phase(&self) -> Phase {
        let word = self.0.load(Ordering::Relaxed);
        if word & CLOSED != 0 {
            Phase::Closed
        } else if word & RUNNING != 0 {
            Phase::Running
        } else if word & SCHEDULED != 0 {
            Phase::Runnable
        } else {
            Phase::Parked
        }
    }
}
