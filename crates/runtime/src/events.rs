//! What happened to processes lately, for observers: crashes, restarts and failed ones, supervisors that gave up and the
//! children that were lost with it, stuck processes.
//!
//! A ring of the newest events and counters of all. A storm of a million crashes a second must not be slowed down by being
//! told about, so each scheduler notes a few of them in every slice and counts the rest as dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::starting::InitError;

/// Events kept.
const KEPT: usize = 1024;
/// Events that a scheduler notes in one slice of its time.
pub(crate) const EVENTS_PER_SLICE: u32 = 8;

/// Something that happened to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Counts all events that were noted, from 1.
    pub seq: u64,
    /// Since the start of the runtime.
    pub at: Duration,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A process ended abnormally.
    Crash {
        /// The process.
        pid: Pid,
        /// Its first name or its label.
        name: Option<Arc<str>>,
        /// Why.
        reason: ExitReason,
    },
    /// A supervisor started a child again.
    Restart {
        /// The supervisor.
        supervisor: Pid,
        /// The child's id.
        child: Arc<str>,
        /// The child that ended.
        old: Pid,
        /// The child that took its place.
        new: Pid,
        /// Why the old one ended.
        reason: ExitReason,
    },
    /// A child did not start again; its supervisor tries again, or gives up.
    RestartFailed {
        /// The supervisor.
        supervisor: Pid,
        /// The child's id.
        child: Arc<str>,
        /// Why it did not start.
        error: InitError,
    },
    /// A child that was to be started again never was, because its supervisor gave up.
    ChildLost {
        /// The supervisor.
        supervisor: Pid,
        /// The child's id.
        child: Arc<str>,
        /// Why it ended last.
        reason: ExitReason,
    },
    /// A supervisor ended because its children ended too often.
    GaveUp {
        /// The supervisor.
        supervisor: Pid,
        /// The child that ended last.
        child: Arc<str>,
        /// Why that one ended.
        reason: ExitReason,
    },
    /// A process asked for something that it may not do.
    Refused {
        /// The process.
        pid: Pid,
        /// What it lacks.
        capability: &'static str,
    },
    /// The poll of a process did not return.
    Stuck {
        /// The process.
        pid: Pid,
    },
}

/// The newest events of a runtime.
pub(crate) struct Events {
    started: Instant,
    ring: Mutex<VecDeque<Event>>,
    noted: AtomicU64,
    dropped: AtomicU64,
}

impl Events {
    pub(crate) fn new(started: Instant) -> Self {
        Self { started, ring: Mutex::default(), noted: AtomicU64::new(0), dropped: AtomicU64::new(0) }
    }

    /// Notes an event, unless somebody else is at the ring just now.
    pub(crate) fn note(&self, kind: impl FnOnce() -> EventKind) {
        let ring = match self.ring.try_lock() {
            Ok(ring) => ring,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.drop_one(),
        };
        self.push(ring, kind());
    }

    /// Notes an event whoever else is at the ring: for the few that are never dropped.
    pub(crate) fn insist(&self, kind: EventKind) {
        self.push(self.ring.lock().unwrap_or_else(PoisonError::into_inner), kind);
    }

    fn push(&self, mut ring: MutexGuard<'_, VecDeque<Event>>, kind: EventKind) {
        let oldest = if ring.len() == KEPT { ring.pop_front() } else { None };
        let seq = self.noted.fetch_add(1, Ordering::Relaxed) + 1;
        ring.push_back(Event { seq, at: self.started.elapsed(), kind });
        drop(ring);
        // What its reason carries may ask for the events as it is dropped.
        drop(oldest);
    }

    /// Counts an event that nobody is told of.
    pub(crate) fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// At most `most` of the events after `seq`, the newest of them, oldest first.
    pub(crate) fn since(&self, seq: u64, most: usize) -> Vec<Event> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = ring.iter().rev().take_while(|event| event.seq > seq).count();
        ring.iter().skip(ring.len() - newer.min(most)).cloned().collect()
    }

    /// Events noted, and events that nobody was told of.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.noted.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest_and_counts_all() {
        let events = Events::new(Instant::now());
        for slot in 1..=2_000 {
            events.note(|| EventKind::Stuck { pid: Pid::local(slot, 1) });
        }
        events.drop_one();

        assert_eq!(events.counts(), (2_000, 1));
        assert_eq!(events.since(0, usize::MAX).len(), KEPT);
        let newest = events.since(1_990, 3);
        assert_eq!(newest.iter().map(|event| event.seq).collect::<Vec<_>>(), [1_998, 1_999, 2_000]);
        assert_eq!(events.since(2_000, 10), []);
    }
    #[test]
    fn an_event_that_is_insisted_on_waits_for_whoever_is_at_the_ring() {
        let events = Events::new(Instant::now());
        let kind = || EventKind::Stuck { pid: Pid::local(1, 1) };
        let reader = events.ring.lock().unwrap();

        events.note(kind);
        std::thread::scope(|scope| {
            let insists = scope.spawn(|| events.insist(kind()));
            drop(reader);
            insists.join().unwrap();
        });

        assert_eq!(events.counts(), (1, 1));
    }
}
