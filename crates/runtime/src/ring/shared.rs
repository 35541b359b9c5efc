//! What the two sides of a ring share, and what of it is there without knowing the type of its items.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Policy;
use super::cursors::Cursors;
use super::slots::Slots;
use crate::pid::Pid;

/// A ring.
pub(crate) struct Shared<T> {
    pub(crate) cursors: Cursors,
    pub(crate) slots: Slots<T>,
    pub(crate) notes: Notes,
}

/// What only observers read.
pub(crate) struct Notes {
    pub(crate) policy: Policy,
    pub(crate) label: Option<Arc<str>>,
    writer: AtomicU64,
    /// Times that the writer went to sleep.
    pub(crate) parks: AtomicU64,
    /// Readers that were evicted.
    pub(crate) evicted: AtomicU64,
}

impl<T> Shared<T> {
    pub(crate) fn new(cursors: Cursors, slots: Slots<T>, policy: Policy, label: Option<Arc<str>>) -> Self {
        let notes =
            Notes { policy, label, writer: AtomicU64::new(0), parks: AtomicU64::new(0), evicted: AtomicU64::new(0) };
        Self { cursors, slots, notes }
    }
}

/// A ring of whatever.
pub(crate) trait AnyRing: Send + Sync {
    fn cursors(&self) -> &Cursors;
    fn notes(&self) -> &Notes;
    fn item_bytes(&self) -> usize;
    fn bytes(&self) -> usize;
}

impl<T: Send + Sync> AnyRing for Shared<T> {
    fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    fn notes(&self) -> &Notes {
        &self.notes
    }

    fn item_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.slots.bytes() + self.cursors.seats.bytes()
    }
}

impl Notes {
    /// The process that wrote last.
    pub(crate) fn writer(&self) -> Option<Pid> {
        unpacked(self.writer.load(Ordering::Relaxed))
    }

    pub(crate) fn set_writer(&self, pid: Pid) {
        self.writer.store(packed(pid), Ordering::Relaxed);
    }
}

/// A pid of this node in one word.
pub(crate) fn packed(pid: Pid) -> u64 {
    u64::from(pid.slot()) << 32 | u64::from(pid.generation())
}

pub(crate) fn unpacked(word: u64) -> Option<Pid> {
    (word != 0).then(|| Pid::local((word >> 32) as u32, word as u32))
}
