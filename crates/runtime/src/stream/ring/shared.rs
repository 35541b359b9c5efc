//! State shared by both sides of a ring.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cursors::Cursors;
use super::policy::Policy;
use super::slots::Slots;
use crate::process::pid::Pid;

/// A value that lives as long as the memory of a ring.
pub(crate) type Held = Option<Arc<dyn Any + Send + Sync>>;

/// State of a ring, shared by its writer and its readers.
pub(crate) struct RingShared<T> {
    pub(crate) cursors: Cursors,
    pub(crate) slots: Slots<T>,
    pub(crate) info: RingInfo,
}

/// Data that only observers read.
pub(crate) struct RingInfo {
    pub(crate) policy: Policy,
    pub(crate) label: Option<Arc<str>>,
    /// Dropped with the ring.
    _held: Held,
    writer: AtomicU64,
    /// Number of times that the writer parked.
    pub(crate) parks: AtomicU64,
    /// Number of evicted readers.
    pub(crate) evicted: AtomicU64,
}

impl<T> RingShared<T> {
    pub(crate) fn new(
        cursors: Cursors,
        slots: Slots<T>,
        policy: Policy,
        (label, held): (Option<Arc<str>>, Held),
    ) -> Self {
        let info = RingInfo {
            policy,
            label,
            _held: held,
            writer: AtomicU64::new(0),
            parks: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        };
        Self { cursors, slots, info }
    }

    /// Returns the memory used by the ring, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.slots.bytes() + self.cursors.reader_slots.bytes()
    }
}

impl RingInfo {
    /// Returns the process that wrote last.
    pub(crate) fn writer(&self) -> Option<Pid> {
        unpacked(self.writer.load(Ordering::Relaxed))
    }

    pub(crate) fn set_writer(&self, pid: Pid) {
        self.writer.store(packed(pid), Ordering::Relaxed);
    }
}

/// Packs a pid of this node into one word.
pub(crate) fn packed(pid: Pid) -> u64 {
    u64::from(pid.slot()) << 32 | u64::from(pid.generation())
}

pub(crate) fn unpacked(word: u64) -> Option<Pid> {
    (word != 0).then(|| Pid::local((word >> 32) as u32, word as u32))
}
