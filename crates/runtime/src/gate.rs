//! The one word through which the world reaches a process: its inbox and its schedule in a single atomic.
//!
//! ```text
//!   63        48 47                          6 5        0
//!  ┌────────────┬─────────────────────────────┬──────────┐
//!  │ pending    │ newest message node         │ flags    │
//!  └────────────┴─────────────────────────────┴──────────┘
//!
//!             open                begin_run              end_run
//!   CLOSED ─────────▶ SCHEDULED ─────────────▶ RUNNING ──────────▶ 0 or DEAF
//!      ▲                  ▲                       │                   │
//!      └──────────────────┼───── close ───────────┘                   │
//!                         └────── push, wake, signal ─────────────────┤
//!                                                 ▲                   │
//!                                                 └────── hand ───────┘
//! ```
//!
//! Whoever turns the word from unscheduled to `SCHEDULED` puts the process into a run queue, so it is in at most one.
//! While it is `RUNNING` nobody does; its owner finds what came meanwhile when it tries to leave (`end_run`). A message
//! therefore costs its sender one compare-and-swap, which queues the message, counts it and decides about the wake-up. A
//! sender that runs where the receiver will run next need not even queue it: if the word is 0 it becomes the owner
//! (`hand`), puts the message where the owner would, and leaves `RUNNING` to whoever takes the process out of the run queue.
//! Invariant: only the thread that holds `RUNNING` (or allocated a `CLOSED` slot) touches what the process owns.

use crate::sync::atomic::{AtomicU64, Ordering};

/// In a run queue, or about to be put there by whoever set it.
const SCHEDULED: u64 = 1;
/// Inside a poll.
const RUNNING: u64 = 1 << 1;
/// Waits for something else than a message: messages do not wake it.
const DEAF: u64 = 1 << 2;
/// No process: free, or past its last instant.
const CLOSED: u64 = 1 << 3;
/// Signals lie ready for the owner.
const SIGNAL: u64 = 1 << 4;
/// Senders wait for room.
const CROWDED: u64 = 1 << 5;

const FLAGS: u64 = 0x3f;
const NODE: u64 = 0x0000_ffff_ffff_ffc0;
const COUNT_SHIFT: u32 = 48;

/// Messages that the word can count between two visits of the owner.
pub(crate) const PENDING_MAX: u32 = u16::MAX as u32;

/// See the module's picture.
pub(crate) struct Gate(AtomicU64);

/// What became of a pushed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// Queued; the process will come to it by itself.
    Queued,
    /// Queued, and the caller must put the process into a run queue.
    Wake,
    /// Not queued: no room.
    Full,
    /// Not queued: no process.
    Closed,
}

/// What the owner found at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken(u64);

impl Taken {
    /// The newest message node, linked to older ones; 0 if there are none.
    pub(crate) const fn newest(self) -> u64 {
        self.0 & NODE
    }

    /// Messages in that chain.
    #[allow(dead_code, reason = "the models check by it that the word counts right")]
    pub(crate) const fn count(self) -> u32 {
        (self.0 >> COUNT_SHIFT) as u32
    }

    /// Signals lie ready.
    pub(crate) const fn signal(self) -> bool {
        self.0 & SIGNAL != 0
    }

    /// Senders wait for room.
    pub(crate) const fn crowded(self) -> bool {
        self.0 & CROWDED != 0
    }

    /// There is nothing to take in.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 & (NODE | SIGNAL | CROWDED | SCHEDULED) == 0
    }

    /// A wake-up came while the process ran, and must not be lost.
    pub(crate) const fn woken(self) -> bool {
        self.0 & SCHEDULED != 0
    }
}

/// What a look from outside sees.
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
    /// A gate without a process.
    pub(crate) fn closed() -> Self {
        Self(AtomicU64::new(CLOSED))
    }

    /// Opens the gate of a new process, scheduled; the caller puts it into a run queue.
    pub(crate) fn open(&self) {
        self.0.store(SCHEDULED, Ordering::Release);
    }

    /// Queues the node at address `node` if `room(pending)` allows; `link(newest)` writes its link before it is seen.
    #[inline]
    pub(crate) fn push(&self, node: u64, room: impl Fn(u32) -> bool, link: impl FnMut(u64)) -> Push {
        self.push_if(node, |pending| pending < PENDING_MAX && room(pending), link)
    }

    /// Queues the node whether there is room or not; what the word cannot count stays uncounted in it.
    pub(crate) fn push_anyway(&self, node: u64, link: impl FnMut(u64)) -> Push {
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
            let wake = old & (SCHEDULED | RUNNING | DEAF) == 0;
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

    /// Says that a sender waits for room, unless there is some by now ([`Push::Queued`]) or the process is gone.
    ///
    /// [`Push::Wake`] asks the caller to put the process into a run queue so that it takes what the word cannot count.
    pub(crate) fn crowd(&self, room: impl Fn(u32) -> bool) -> Push {
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
            let new = old | CROWDED | if wake { SCHEDULED } else { 0 };
            match self.0.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if wake => return Push::Wake,
                // The first look may have been at what the owner knew before it parked; this one is not.
                Ok(_) => return if pending < PENDING_MAX && room(pending) { Push::Queued } else { Push::Full },
                Err(now) => old = now,
            }
        }
    }

    /// Wakes the process whatever it waits for; true asks the caller to put it into a run queue.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        self.0.fetch_or(SCHEDULED, Ordering::AcqRel) & (SCHEDULED | RUNNING | CLOSED) == 0
    }

    /// Says that signals lie ready; true asks the caller to put the process into a run queue.
    pub(crate) fn signal(&self) -> bool {
        self.0.fetch_or(SCHEDULED | SIGNAL, Ordering::AcqRel) & (SCHEDULED | RUNNING | CLOSED) == 0
    }

    /// Makes the caller the owner of a process that waits for messages alone; it must put it into a run queue.
    #[inline]
    pub(crate) fn hand(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
            && self.0.compare_exchange(0, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The owner, out of a run queue that it was handed over in, starts to run and takes what has come since.
    #[inline]
    pub(crate) fn begin_handed(&self) -> Taken {
        // A stale look only delays: whatever is missed here stops `end_run`.
        if self.0.load(Ordering::Relaxed) == RUNNING {
            return Taken(0);
        }
        let old = self.0.swap(RUNNING, Ordering::AcqRel);
        debug_assert!(old & (RUNNING | CLOSED) == RUNNING, "nobody else runs a process that was handed over");
        Taken(old & !SCHEDULED)
    }

    /// The owner, out of a run queue, starts to run and takes what has come.
    #[inline]
    pub(crate) fn begin_run(&self) -> Taken {
        let old = self.0.swap(RUNNING, Ordering::AcqRel);
        debug_assert!(old & (SCHEDULED | RUNNING | CLOSED) == SCHEDULED, "only a scheduled process is in a run queue");
        Taken(old & !SCHEDULED)
    }

    /// The owner, while it runs, takes what has come since.
    #[inline]
    pub(crate) fn absorb(&self) -> Option<Taken> {
        self.has_some().then(|| Taken(self.0.swap(RUNNING, Ordering::AcqRel)))
    }

    /// Whether something has come since that the running owner should take.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        // A stale look only delays: whatever is missed here stops `end_run`.
        self.0.load(Ordering::Relaxed) & (NODE | SIGNAL | CROWDED) != 0
    }

    /// The owner stops running; true says that something came and the caller must put the process into a run queue.
    #[inline]
    pub(crate) fn end_run(&self, deaf: bool, woken: bool) -> bool {
        let parked = if deaf { DEAF } else { 0 };
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

    /// The owner, running, ends the process; nothing enters any more.
    #[inline]
    pub(crate) fn close(&self) -> Taken {
        Taken(self.0.swap(CLOSED, Ordering::AcqRel))
    }

    /// Messages since the owner's last visit.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        (self.0.load(Ordering::Relaxed) >> COUNT_SHIFT) as u32
    }

    /// Whether there is no process.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) & CLOSED != 0
    }

    /// What a look from outside sees.
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
