//! Limit on the heap bytes of the messages in all mailboxes of a runtime together.
//!
//! ```text
//!   send ──▶ charge ──▶ bytes of this scheduler's slice ──▶ settle ──▶ bytes of the runtime ──▶ above max: full
//!   receive, drop ──▶ release ──┘                            └─ at the end of a slice, at 64 KiB, always while full
//! ```
//!
//! Policy: while the budget is full, a mailbox that holds a message counts as full, and an empty one accepts one
//! message. A process that receives can therefore always be reached, and a process that does not receive holds back
//! only its own senders. Signals, replies and timers are delivered at any time: each is bounded where it is created.
//! Senders that wait continue when an eighth of the budget is free.
//!
//! Messages without heap bytes are not counted. Each takes one node of 64 bytes, and a mailbox has at most
//! [`mailbox_capacity`](crate::Config::mailbox_capacity) of them.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::process::pid::Pid;
use crate::sync::Mutex;

/// Maximum bytes that one scheduler holds back before it adds them to the sum of the runtime.
const UNSETTLED_BYTES_MAX: i64 = 64 * 1024;

/// Heap bytes of the messages in all mailboxes of a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxBytes {
    /// Bytes in mailboxes, except up to 64 KiB that each scheduler has counted in its current slice.
    pub bytes: u64,
    /// Maximum number of bytes; see [`mailbox_total_bytes`](crate::Config::mailbox_total_bytes).
    pub max_bytes: u64,
    /// True if the limit is reached: a mailbox that holds a message accepts no other.
    pub is_full: bool,
    /// Number of times that the limit was reached.
    pub filled_total: u64,
}

/// Heap bytes in all mailboxes of a runtime, and their limit.
pub(crate) struct MailboxBudget {
    max_bytes: i64,
    bytes: CachePadded<AtomicI64>,
    is_full: CachePadded<AtomicBool>,
    /// Number of times the budget became full.
    filled: AtomicU64,
    /// Receivers with senders that began to wait while the budget was full.
    blocked_receivers: Mutex<Vec<Pid>>,
}

impl MailboxBudget {
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes: i64::try_from(max_bytes).unwrap_or(i64::MAX),
            bytes: CachePadded::default(),
            is_full: CachePadded::default(),
            filled: AtomicU64::new(0),
            blocked_receivers: Mutex::default(),
        }
    }

    /// Returns the values for observers.
    pub(crate) fn report(&self) -> MailboxBytes {
        MailboxBytes {
            bytes: u64::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0),
            max_bytes: self.max_bytes as u64,
            is_full: self.is_full(),
            filled_total: self.filled.load(Ordering::Relaxed),
        }
    }

    /// Returns true if mailboxes that hold a message accept no other.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Returns the bytes to add to the sum now, `bytes` included; `None` while the scheduler may hold them back.
    #[inline]
    pub(super) fn due(&self, held_back: Option<&Cell<i64>>, bytes: i64) -> Option<i64> {
        let Some(held_back) = held_back else { return Some(bytes) };
        let unsettled = held_back.get() + bytes;
        let most = UNSETTLED_BYTES_MAX.min(self.max_bytes / 64);
        if unsettled.abs() < most && !self.is_full() {
            held_back.set(unsettled);
            return None;
        }
        held_back.set(0);
        Some(unsettled)
    }

    /// Adds bytes to the sum and returns the new sum.
    pub(super) fn add(&self, bytes: i64) -> i64 {
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if all > self.max_bytes && !self.is_full() {
            self.is_full.store(true, Ordering::SeqCst);
            self.filled.fetch_add(1, Ordering::Relaxed);
        }
        all
    }

    /// Adds bytes to the sum. Returns true if a full budget has room again: the caller then resumes the senders.
    pub(super) fn settle(&self, bytes: i64) -> bool {
        let has_room = self.add(bytes) <= self.max_bytes - self.max_bytes / 8;
        // SeqCst: a sender adds its receiver to the list and then reads the flag; one of the two sees the other.
        has_room && self.is_full() && self.is_full.swap(false, Ordering::SeqCst)
    }

    /// Registers a receiver whose senders wait for the budget.
    pub(super) fn block(&self, receiver: Pid) {
        self.blocked_receivers.lock().push(receiver);
    }

    /// Takes the receivers whose senders wait for the budget.
    pub(super) fn take_blocked(&self) -> Vec<Pid> {
        std::mem::take(&mut *self.blocked_receivers.lock())
    }
}
