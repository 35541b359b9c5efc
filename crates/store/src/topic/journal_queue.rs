//! Queue between a durable topic and its writer process: submissions and changes to store, and the wakers of both
//! sides.
//!
//! Changes of a subscription are merged while they wait, so there are never more of them than it has messages in
//! flight.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use rusm_runtime::embed::panics;
use rusm_runtime::embed::topic::{DeliveryOutcome, FlushPoint, Journal, JournalError, SavedProgress, StoreCallback};
use rusm_runtime::topic::Message;

/// Number of queued submissions from which on no dead letters are accepted.
const QUEUE_MAX: usize = 1024;

/// Messages to store, and the callback for the result.
pub(super) struct Submission {
    pub(super) messages: VecDeque<Message>,
    pub(super) reply: StoreCallback,
}

/// Changes of a subscription's progress, to apply in this order: it ended, it began, these messages were handled.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) ended: bool,
    pub(super) begun: Option<u64>,
    pub(super) outcomes: BTreeMap<u64, DeliveryOutcome>,
}

#[derive(Default)]
pub(super) struct QueueState {
    pub(super) submissions: VecDeque<Submission>,
    pub(super) changes: BTreeMap<Arc<str>, Changes>,
    /// Number of changes recorded, and the number of them that are stored.
    pub(super) recorded: u64,
    pub(super) kept: u64,
    /// Number of failed commits, and the reason of the last failure.
    failures: u64,
    failure: Arc<str>,
    waiting: Vec<Waker>,
    /// Waker of the writer process while it sleeps.
    pub(super) writer_waker: Option<Waker>,
    /// The topic accepts no more messages.
    pub(super) closed: bool,
    /// All handles of the topic and its subscriptions are gone.
    pub(super) abandoned: bool,
    /// The writer process has ended.
    ended: bool,
    /// Subscriptions that were found on disk and not resumed yet.
    pub(super) found: BTreeMap<Arc<str>, SavedProgress>,
}

/// The queue, shared by the topic and its writer process.
#[derive(Default)]
pub(super) struct JournalQueue {
    pub(super) state: Mutex<QueueState>,
}

impl JournalQueue {
    fn change(&self, subscription: &Arc<str>, change: impl FnOnce(&mut Changes)) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        state.recorded += 1;
        match state.changes.get_mut(subscription) {
            Some(changes) => change(changes),
            None => change(state.changes.entry(Arc::clone(subscription)).or_default()),
        }
        wake(state.writer_waker.take());
    }

    /// Records that the first `recorded` changes are stored.
    pub(super) fn kept(&self, recorded: u64) {
        let mut state = self.state.lock();
        state.kept = recorded;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(panics::wake);
    }

    /// Records that a commit failed. Its changes will be tried again.
    pub(super) fn failed(&self, why: &Arc<str>) {
        let mut state = self.state.lock();
        state.failures += 1;
        state.failure = Arc::clone(why);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(panics::wake);
    }

    /// Records that the writer process has ended.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let waiting = std::mem::take(&mut state.waiting);
        let submissions = std::mem::take(&mut state.submissions);
        // Break the reference cycle: the topic owns the queue, the runtime owns the topic, and the writer's waker owns
        // the runtime.
        let rest = (state.writer_waker.take(), std::mem::take(&mut state.changes), std::mem::take(&mut state.found));
        drop(state);
        drop(rest);
        waiting.into_iter().for_each(panics::wake);
        for Submission { messages, reply } in submissions {
            reply(messages, Err(JournalError::Closed));
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        panics::wake(waker);
    }
}

/// The topic's end of the queue.
pub(super) struct JournalHandle(pub(super) Arc<JournalQueue>);

impl Journal for JournalHandle {
    fn submit(&self, messages: VecDeque<Message>, reply: StoreCallback) {
        if messages.is_empty() {
            return reply(messages, Ok(()));
        }
        let mut state = self.0.state.lock();
        if state.closed || state.ended {
            drop(state);
            return reply(messages, Err(JournalError::Closed));
        }
        state.submissions.push_back(Submission { messages, reply });
        let writer_waker = state.writer_waker.take();
        drop(state);
        wake(writer_waker);
    }

    fn is_queue_full(&self) -> bool {
        self.0.state.lock().submissions.len() >= QUEUE_MAX
    }

    fn begin(&self, subscription: &Arc<str>, start: u64) {
        self.0.change(subscription, |changes| changes.begun = Some(start));
    }

    fn end(&self, subscription: &Arc<str>) {
        self.0.change(subscription, |changes| *changes = Changes { ended: true, ..Changes::default() });
    }

    fn note(&self, subscription: &Arc<str>, position: u64, outcome: DeliveryOutcome) {
        self.0.change(subscription, |changes| {
            changes.outcomes.insert(position, outcome);
        });
    }

    fn flush_point(&self) -> FlushPoint {
        let state = self.0.state.lock();
        FlushPoint { changes: state.recorded, failures: state.failures }
    }

    fn is_flushed(&self, flush_point: FlushPoint, waker: &Waker) -> Result<bool, JournalError> {
        let mut state = self.0.state.lock();
        if state.kept >= flush_point.changes {
            return Ok(true);
        }
        if state.failures > flush_point.failures {
            return Err(JournalError::Failed(Arc::clone(&state.failure)));
        }
        if state.ended {
            return Err(JournalError::Closed);
        }
        if !state.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        Ok(false)
    }

    fn resume(&self, subscription: &str) -> Option<SavedProgress> {
        self.0.state.lock().found.remove(subscription)
    }

    fn close(&self) {
        let mut state = self.0.state.lock();
        state.closed = true;
        wake(state.writer_waker.take());
    }
}

impl Drop for JournalHandle {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.abandoned = true;
        // Subscriptions that were found and never resumed stay on disk.
        let found = std::mem::take(&mut state.found);
        let writer_waker = state.writer_waker.take();
        drop(state);
        drop(found);
        wake(writer_waker);
    }
}
