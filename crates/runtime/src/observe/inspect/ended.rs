//! Remembers processes that ended abnormally, were ended by another process, or were watched.
//!
//! ```text
//!   end of a process ──▶ EndedMemory: the newest 1,024, at most 64 of one cause ──▶ detail of a pid that has ended
//!   kill by an observer ──▶ note ──┘
//! ```
//!
//! Invariant: a storm of ends never waits here. Schedulers record a few ends per slice and skip those that find the
//! lock taken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::process::exit::ExitReason;
use crate::process::pid::Pid;

/// Number of ended processes kept.
const KEPT: usize = 1024;
/// Number of ended processes kept of one cause: a storm must not displace the rare ends.
const KEPT_OF_A_CAUSE: usize = 64;
/// Number of ends kept because an observer has seen them.
const SEEN_KEPT: usize = 256;
/// Number of notes about the origin of an end, kept until the process ends.
const NOTES_KEPT: usize = 1024;

/// A process that has ended.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::observe::{self, EndedBy};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// let failing = runtime.spawn(|_| async { ExitReason::other("no disk") })?;
/// runtime.wait(failing);
/// let ended = observe::ended(&runtime, failing).expect("ends by a failure are kept");
/// assert_eq!((ended.reason, ended.by), (ExitReason::other("no disk"), EndedBy::Itself));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedProcess {
    /// Pid of the process.
    pub pid: Pid,
    /// First name or label of the process.
    pub name: Option<Arc<str>>,
    /// Rust type of its future.
    pub future_type: &'static str,
    /// Process that spawned it; `None` if it was spawned from outside.
    pub parent: Option<Pid>,
    /// Time of the end since the runtime started.
    pub at: Duration,
    /// Exit reason.
    pub reason: ExitReason,
    /// Origin of the end.
    pub by: EndedBy,
    /// Figures at the end.
    pub figures: LastFigures,
}

/// Origin of the end of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EndedBy {
    /// The process itself: it returned, failed or panicked.
    #[default]
    Itself,
    /// Another process sent the exit signal.
    Process(Pid),
    /// A linked process had ended.
    Link(Pid),
    /// Code outside of processes sent the exit signal.
    Outside,
    /// An observer sent the exit signal; the text describes the observer.
    Observer(Arc<str>),
}

/// Figures of a process when it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastFigures {
    /// Time since it was spawned, in milliseconds.
    pub age_ms: u64,
    /// Number of polls plus the number of messages received.
    pub reductions: u64,
    /// Time inside polls, in nanoseconds.
    pub busy_ns: u64,
    /// Number of messages received.
    pub messages: u64,
    /// Number of messages that it had not received.
    pub mailbox_len: u64,
    /// Bytes of control block and future.
    pub memory_bytes: u64,
}

/// The ended processes of a runtime.
#[derive(Default)]
pub(crate) struct EndedMemory {
    kept: Mutex<VecDeque<(Option<u16>, EndedProcess)>>,
    /// Ends that an observer has seen, which no storm displaces.
    seen: Mutex<VecDeque<EndedProcess>>,
    notes: Mutex<FxHashMap<Pid, EndedBy>>,
    note_count: AtomicUsize,
}

impl EndedMemory {
    /// Keeps an ended process unless another thread holds the lock; `cause` is the number of its cause.
    pub(crate) fn record(&self, cause: Option<u16>, ended: EndedProcess) {
        let Some(mut kept) = self.kept.try_lock() else { return };
        let same = |(other, _): &(Option<u16>, EndedProcess)| cause.is_some() && *other == cause;
        let is_frequent = kept.iter().filter(|entry| same(entry)).count() >= KEPT_OF_A_CAUSE;
        let oldest = match kept.iter().position(same) {
            Some(at) if is_frequent => kept.remove(at),
            _ if kept.len() >= KEPT => kept.pop_front(),
            _ => None,
        };
        kept.push_back((cause, ended));
        drop(kept);
        // Drop the displaced reason after the lock: the destructor of a value in it may read this memory.
        drop(oldest);
    }

    /// Returns an ended process, if it is still kept.
    pub(crate) fn find(&self, pid: Pid) -> Option<EndedProcess> {
        let kept = self.kept.lock();
        let found = kept.iter().rev().find(|(_, ended)| ended.pid == pid).map(|(_, ended)| ended.clone());
        drop(kept);
        found.or_else(|| {
            let seen = self.seen.lock();
            seen.iter().find(|ended| ended.pid == pid).cloned()
        })
    }

    /// Keeps an end that an observer sees now, so that the observer can open it.
    pub(crate) fn keep_seen(&self, ended: EndedProcess) {
        let mut seen = self.seen.lock();
        if seen.iter().any(|other| other.pid == ended.pid) {
            return;
        }
        let oldest = if seen.len() == SEEN_KEPT { seen.pop_front() } else { None };
        seen.push_back(ended);
        drop(seen);
        drop(oldest);
    }

    /// Notes the origin of the coming end of a process. A later note about the same process replaces an earlier one.
    pub(crate) fn note(&self, pid: Pid, by: EndedBy) {
        let mut notes = self.notes.lock();
        if notes.len() == NOTES_KEPT {
            // Either a storm of kills, or notes about processes that trapped the signal: neither needs an order.
            notes.clear();
        }
        notes.insert(pid, by);
        self.note_count.store(notes.len(), Ordering::Relaxed);
    }

    /// Takes the note about a process.
    pub(crate) fn take_note(&self, pid: Pid) -> Option<EndedBy> {
        if self.note_count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut notes = self.notes.lock();
        let found = notes.remove(&pid);
        self.note_count.store(notes.len(), Ordering::Relaxed);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(slot: u32) -> EndedProcess {
        EndedProcess {
            pid: Pid::local(slot, 1),
            name: None,
            future_type: "",
            parent: None,
            at: Duration::from_secs(u64::from(slot)),
            reason: ExitReason::Killed,
            by: EndedBy::Itself,
            figures: LastFigures::default(),
        }
    }

    #[test]
    fn a_storm_of_one_cause_does_not_displace_a_rare_end() {
        let memory = EndedMemory::default();
        memory.record(Some(1), ended(7));

        for slot in 100..10_000 {
            memory.record(Some(2), ended(slot));
        }

        assert!(memory.find(Pid::local(7, 1)).is_some());
        assert!(memory.find(Pid::local(9_999, 1)).is_some());
        assert!(memory.find(Pid::local(100, 1)).is_none());
        assert_eq!(memory.kept.lock().len(), 1 + KEPT_OF_A_CAUSE);
    }

    #[test]
    fn an_end_that_was_seen_is_found_after_any_storm() {
        let memory = EndedMemory::default();
        memory.keep_seen(ended(7));
        memory.keep_seen(ended(7));

        for slot in 100..10_000 {
            memory.record(Some(2), ended(slot));
        }

        assert!(memory.find(Pid::local(7, 1)).is_some());
        assert_eq!(memory.seen.lock().len(), 1);
    }

    #[test]
    fn the_memory_is_bounded_whatever_the_causes_are() {
        let memory = EndedMemory::default();

        for slot in 1..=3_000 {
            memory.record(Some((slot % 100) as u16), ended(slot));
        }

        assert_eq!(memory.kept.lock().len(), KEPT);
    }

    #[test]
    fn the_newest_note_about_a_process_is_taken_once() {
        let memory = EndedMemory::default();
        let pid = Pid::local(7, 1);
        memory.note(pid, EndedBy::Outside);
        memory.note(pid, EndedBy::Observer("observer 3".into()));

        assert_eq!(memory.take_note(Pid::local(8, 1)), None);
        assert_eq!(memory.take_note(pid), Some(EndedBy::Observer("observer 3".into())));
        assert_eq!(memory.take_note(pid), None);
    }
}
