//! The part of a control block that others may read: what a process is, what it waits for, what it has done.

use crate::gate::Gate;
use crate::slab::CONTROL_BLOCK_BYTES;
use crate::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::sync::{RawMutex, raw_mutex};

/// [`Cell::flags`]: the process holds something that its exit must release.
pub(crate) const HOLDS: u16 = 1;
/// [`Cell::flags`]: the process has a name or a label.
pub(crate) const NAMED: u16 = 1 << 1;
/// [`Cell::flags`]: a poll has not returned for longer than the threshold.
pub(crate) const STUCK: u16 = 1 << 2;
/// [`Cell::flags`], changed under [`Cell::lock`]: exit signals come as messages.
pub(crate) const TRAPS: u16 = 1 << 4;
/// [`Cell::flags`], set under [`Cell::lock`]: an exit signal that cannot be trapped is on its way.
pub(crate) const KILLED: u16 = 1 << 5;
/// [`Cell::flags`], changed under [`Cell::lock`]: senders wait, so nobody overtakes them before they have been woken.
pub(crate) const CONGESTED: u16 = 1 << 6;
/// [`Cell::flags`]: something inside of the process waits for it with a waker of its own.
pub(crate) const OWN_WAKERS: u16 = 1 << 7;
/// [`Cell::flags`]: the body reads messages of bytes in the short form that others like it send.
#[cfg(feature = "wasm")]
pub(crate) const READS_SHORT: u16 = 1 << 8;
/// [`Cell::flags`]: the process may only send to processes that it knows, so senders introduce themselves to it.
pub(crate) const CONFINED: u16 = 1 << 15;
/// The process runs on one scheduler only, whose number is in the bits from [`HOME_SHIFT`] on.
const PINNED: u16 = 1 << 3;
const HOME_SHIFT: u32 = 9;
const HOME_MASK: u16 = 0x3f;
/// The last generation of a slot, a mask. With it a pid in one number never looks like one below zero, which core modules
/// take for an error; at a million processes a second in one slot it lasts for half an hour, and then the slot is left.
const GENERATION_MAX: u32 = u32::MAX >> 1;

/// [`Cell::wait`]: a message would wake it.
pub(crate) const WAIT_RECEIVE: u8 = 1;
/// [`Cell::wait`]: it waits for a timer.
pub(crate) const WAIT_SLEEP: u8 = 2;
/// [`Cell::wait`]: it waits for room in a mailbox, or for the other side of a ring.
pub(crate) const WAIT_SEND: u8 = 4;
/// [`Cell::wait`]: its wait is to end after a time, but has no timer yet; see `timeout.rs`.
pub(crate) const WAIT_LISTED: u8 = 8;
/// [`Cell::wait`]: it gave up its turn and goes on by itself.
pub(crate) const WAIT_AGAIN: u8 = 16;
/// [`Cell::wait`]: it was handed over with its message and waits in a run queue, though its gate says that it runs.
pub(crate) const WAIT_TURN: u8 = 32;

/// The part of a control block that others may read: one cache line.
///
/// Counters are written by the owner alone, as relaxed load and store; readers see each of them at some recent moment,
/// which is all that a statistic needs.
#[repr(C, align(64))]
pub(crate) struct Cell {
    pub(crate) gate: Gate,
    /// The tenant that lives here, or that will live here next.
    pub(crate) generation: AtomicU32,
    /// Polls in a row that are timed whatever the sampling says; see `stopwatch.rs`.
    pub(crate) timed: AtomicU8,
    /// What the last poll waited for.
    pub(crate) wait: AtomicU8,
    /// Set by anybody, read at exit and by observers.
    pub(crate) flags: AtomicU16,
    pub(crate) polls: AtomicU64,
    /// Nanoseconds inside polls; the link of a free slot.
    pub(crate) busy_ns: AtomicU64,
    /// Messages received.
    pub(crate) messages: AtomicU64,
    /// Messages that the owner has taken from the gate and not received.
    pub(crate) backlog: AtomicU32,
    /// Bytes of a future too large for the body.
    pub(crate) future_bytes: AtomicU32,
    /// Heap bytes of waiting messages.
    pub(crate) mail_bytes: AtomicU32,
    /// Messages that fit.
    pub(crate) capacity: AtomicU32,
    /// Guards [`Body::held`](crate::slab::Body::held).
    pub(crate) lock: RawMutex,
    /// Milliseconds from the start of the runtime to the spawn.
    pub(crate) born_ms: AtomicU32,
}

/// The flags of a process that runs on one scheduler only.
pub(crate) const fn pinned_to(scheduler: usize) -> u16 {
    PINNED | (scheduler as u16) << HOME_SHIFT
}

impl Cell {
    /// The one scheduler that the process runs on, if there is one.
    #[inline]
    pub(crate) fn home(&self) -> Option<usize> {
        let flags = self.flags.load(Ordering::Relaxed);
        (flags & PINNED != 0).then_some((flags >> HOME_SHIFT & HOME_MASK) as usize)
    }

    pub(crate) fn free() -> Self {
        Self {
            gate: Gate::closed(),
            generation: AtomicU32::new(1),
            timed: AtomicU8::new(0),
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
            born_ms: AtomicU32::new(0),
        }
    }

    /// Flags that keep a sender from putting a message into the mailbox itself; 0 for most processes.
    ///
    /// The sender may ignore [`CONFINED`] if it was introduced to the process.
    #[inline]
    pub(crate) fn hindrances(&self) -> u16 {
        self.flags.load(Ordering::Relaxed) & (PINNED | OWN_WAKERS | CONGESTED | CONFINED)
    }

    /// Returns true if the mailbox has room by the number of its messages. Only its owner is told so for sure.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) < self.capacity.load(Ordering::Relaxed)
    }

    /// Readies a free cell for its next tenant and opens its gate, scheduled: from here on others may add something.
    #[inline]
    pub(crate) fn admit(&self, flags: u16, future_bytes: u32, capacity: u32, born_ms: u32) {
        self.timed.store(0, Ordering::Relaxed);
        self.wait.store(0, Ordering::Relaxed);
        // Released with the new generation: who sees these flags does not take them for those of the one before.
        self.flags.store(flags, Ordering::Release);
        self.polls.store(0, Ordering::Relaxed);
        self.busy_ns.store(0, Ordering::Relaxed);
        self.messages.store(0, Ordering::Relaxed);
        self.future_bytes.store(future_bytes, Ordering::Relaxed);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.born_ms.store(born_ms, Ordering::Relaxed);
        self.gate.open();
    }

    /// Ends the tenancy of a process whose gate is closed: nothing is added to it any more. Gives the next generation, 0 if
    /// they are used up, and whether the process holds something.
    #[inline]
    pub(crate) fn retire(&self, generation: u32) -> (u32, bool) {
        let next = (generation + 1) & GENERATION_MAX;
        #[cfg(feature = "wasm")]
        if self.flags.load(Ordering::Relaxed) & READS_SHORT != 0 {
            // Before the new generation, whose process may be of another kind.
            self.flags.fetch_and(!READS_SHORT, Ordering::Relaxed);
        }
        self.generation.store(next, Ordering::SeqCst);
        // After the new generation; whoever adds something sets the flag before it looks at the generation.
        (next, self.flags.load(Ordering::SeqCst) & HOLDS != 0)
    }

    /// Messages waiting.
    pub(crate) fn mailbox_len(&self) -> u64 {
        u64::from(self.gate.pending()) + u64::from(self.backlog.load(Ordering::Relaxed))
    }

    /// Bytes that waiting messages take.
    pub(crate) fn mailbox_bytes(&self) -> u64 {
        self.mailbox_len() * crate::mailbox::NODE_BYTES as u64 + u64::from(self.mail_bytes.load(Ordering::Relaxed))
    }

    /// Control block, future and mailbox.
    pub(crate) fn memory_bytes(&self) -> u64 {
        CONTROL_BLOCK_BYTES as u64 + u64::from(self.future_bytes.load(Ordering::Relaxed)) + self.mailbox_bytes()
    }

    /// Polls and messages.
    pub(crate) fn reductions(&self) -> u64 {
        self.polls.load(Ordering::Relaxed) + self.messages.load(Ordering::Relaxed)
    }
}

/// Adds to a counter that only this thread writes: a load and a store, eighteen times cheaper than a locked add.
#[inline]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
