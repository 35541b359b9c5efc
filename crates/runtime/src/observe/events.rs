//! Recent events of processes, for observers: failures, restarts, failed restarts, supervisors that gave up, the
//! children lost with them, and stuck processes.
//!
//! A ring buffer keeps the newest events, and counters count all of them. Recording must not slow down a storm of a
//! million crashes per second, so each scheduler records only a few events per slice and counts the rest as dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::observe::inspect::causes::CauseKind;
use crate::process::error::InitError;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;

/// Number of events kept.
const EVENTS_KEPT: usize = 1024;
/// Maximum number of events that a scheduler records in one time slice.
pub(crate) const EVENTS_PER_SLICE: u32 = 8;

/// An event of a process or a supervisor.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::observe::{self, EventKind};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// let failing = runtime.spawn(|_| async { ExitReason::other("no disk") })?;
/// runtime.wait(failing);
/// let events = observe::events(&runtime, 0, 10);
/// assert!(matches!(&events[0].kind, EventKind::Failure { pid, .. } if *pid == failing));
/// // The next look begins after the last event that was seen.
/// assert!(observe::events(&runtime, events[0].seq, 10).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeEvent {
    /// Number of the event among all recorded events, from 1.
    pub seq: u64,
    /// Time since the runtime started.
    pub at: Duration,
    /// Kind of the event, with its details.
    pub kind: EventKind,
}

/// Kind of an event, with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A process ended abnormally.
    Failure {
        /// Pid of the process.
        pid: Pid,
        /// First name or label of the process.
        name: Option<Arc<str>>,
        /// Exit reason of the process.
        reason: ExitReason,
        /// Kind of the failure: by itself, by an exit signal or by a link.
        kind: CauseKind,
    },
    /// A supervisor restarted a child.
    Restart {
        /// Pid of the supervisor.
        supervisor: Pid,
        /// Id of the child.
        child: Arc<str>,
        /// Pid of the child that ended.
        old: Pid,
        /// Pid of the child that replaced it.
        new: Pid,
        /// Exit reason of the old child.
        reason: ExitReason,
    },
    /// A restart of a child failed; its supervisor retries or gives up.
    RestartFailed {
        /// Pid of the supervisor.
        supervisor: Pid,
        /// Id of the child.
        child: Arc<str>,
        /// Error of the start.
        error: InitError,
    },
    /// A child was not restarted because its supervisor gave up.
    ChildLost {
        /// Pid of the supervisor.
        supervisor: Pid,
        /// Id of the child.
        child: Arc<str>,
        /// Exit reason of the child when it last ended.
        reason: ExitReason,
    },
    /// A supervisor ended because its children ended too often.
    GaveUp {
        /// Pid of the supervisor.
        supervisor: Pid,
        /// Id of the child that ended last.
        child: Arc<str>,
        /// Exit reason of that child.
        reason: ExitReason,
    },
    /// A process requested an operation that it may not carry out.
    Refused {
        /// Pid of the process.
        pid: Pid,
        /// Capability that the process lacks.
        capability: &'static str,
    },
    /// A poll of a process has not returned for longer than the threshold.
    Stuck {
        /// Pid of the process.
        pid: Pid,
    },
}

/// The newest events of a runtime.
pub(crate) struct Events {
    started: Instant,
    ring: Mutex<VecDeque<RuntimeEvent>>,
    recorded: AtomicU64,
    dropped: AtomicU64,
}

impl Events {
    pub(crate) fn new(started: Instant) -> Self {
        Self { started, ring: Mutex::default(), recorded: AtomicU64::new(0), dropped: AtomicU64::new(0) }
    }

    /// Records an event; if another thread holds the lock of the ring, counts the event as dropped.
    pub(crate) fn record(&self, kind: impl FnOnce() -> EventKind) {
        let Some(ring) = self.ring.try_lock() else { return self.drop_one() };
        self.push(ring, kind());
    }

    /// Records an event, and waits for the lock of the ring: for the few events that are never dropped.
    pub(crate) fn record_blocking(&self, kind: EventKind) {
        self.push(self.ring.lock(), kind);
    }

    fn push(&self, mut ring: MutexGuard<'_, VecDeque<RuntimeEvent>>, kind: EventKind) {
        let oldest = if ring.len() == EVENTS_KEPT { ring.pop_front() } else { None };
        let seq = self.recorded.fetch_add(1, Ordering::Relaxed) + 1;
        ring.push_back(RuntimeEvent { seq, at: self.started.elapsed(), kind });
        drop(ring);
        // Drop the oldest event after the lock: the destructor of a value in its reason may read the events.
        drop(oldest);
    }

    /// Counts an event as dropped.
    pub(crate) fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the newest events after `seq`, at most `limit`, oldest first.
    pub(crate) fn since(&self, seq: u64, limit: usize) -> Vec<RuntimeEvent> {
        let ring = self.ring.lock();
        let newer = ring.iter().rev().take_while(|event| event.seq > seq).count();
        ring.iter().skip(ring.len() - newer.min(limit)).cloned().collect()
    }

    /// Returns the number of events recorded and the number of events dropped.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.recorded.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest_and_counts_all() {
        let events = Events::new(Instant::now());
        for slot in 1..=2_000 {
            events.record(|| EventKind::Stuck { pid: Pid::local(slot, 1) });
        }
        events.drop_one();

        assert_eq!(events.counts(), (2_000, 1));
        assert_eq!(events.since(0, usize::MAX).len(), EVENTS_KEPT);
        let newest = events.since(1_990, 3);
        assert_eq!(newest.iter().map(|event| event.seq).collect::<Vec<_>>(), [1_998, 1_999, 2_000]);
        assert_eq!(events.since(2_000, 10), []);
    }
    #[test]
    fn an_event_that_is_insisted_on_waits_for_whoever_is_at_the_ring() {
        let events = Events::new(Instant::now());
        let kind = || EventKind::Stuck { pid: Pid::local(1, 1) };
        let reader = events.ring.lock();

        events.record(kind);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| events.record_blocking(kind()));
            drop(reader);
            waiting.join().unwrap();
        });

        assert_eq!(events.counts(), (1, 1));
    }
}
