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
use rusm_runtime::embed::topic::{Fate, Journal, NotKept, Noted, Reply, Resumed};
use rusm_runtime::topic::Message;

/// Number of queued submissions from which on no dead letters are accepted.
const CROWD: usize = 1024;

/// Messages to store, and the callback for the result.
pub(super) struct Submission {
    pub(super) messages: VecDeque<Message>,
    pub(super) reply: Reply,
}

/// Changes of a subscription's progress, to apply in this order: it ended, it began, these messages were handled.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) ended: bool,
    pub(super) begun: Option<u64>,
    pub(super) fates: BTreeMap<u64, Fate>,
}

#[derive(Default)]
pub(super) struct Inbox {
    pub(super) submissions: VecDeque<Submission>,
    pub(super) changes: BTreeMap<Arc<str>, Changes>,
    /// Number of changes noted, and the number of them that are stored.
    pub(super) noted: u64,
    pub(super) kept: u64,
    /// Number of failed commits, and the reason of the last failure.
    failures: u64,
    failure: Arc<str>,
    waiting: Vec<Waker>,
    /// Waker of the writer process while it sleeps.
    pub(super) keeper: Option<Waker>,
    /// The topic accepts no more messages.
    pub(super) closed: bool,
    /// All handles of the topic and its subscriptions are gone.
    pub(super) abandoned: bool,
    /// The writer process has ended.
    ended: bool,
    /// Subscriptions that were found on disk and not resumed yet.
    pub(super) found: BTreeMap<Arc<str>, Resumed>,
}

/// The queue, shared by the topic and its writer process.
#[derive(Default)]
pub(super) struct Post {
    pub(super) inbox: Mutex<Inbox>,
}

impl Post {
    fn change(&self, subscription: &Arc<str>, change: impl FnOnce(&mut Changes)) {
        let mut inbox = self.inbox.lock();
        if inbox.ended {
            return;
        }
        inbox.noted += 1;
        match inbox.changes.get_mut(subscription) {
            Some(changes) => change(changes),
            None => change(inbox.changes.entry(Arc::clone(subscription)).or_default()),
        }
        wake(inbox.keeper.take());
    }

    /// Records that the first `noted` changes are stored.
    pub(super) fn kept(&self, noted: u64) {
        let mut inbox = self.inbox.lock();
        inbox.kept = noted;
        let waiting = std::mem::take(&mut inbox.waiting);
        drop(inbox);
        waiting.into_iter().for_each(panics::wake);
    }

    /// Records that a commit failed. Its changes will be tried again.
    pub(super) fn failed(&self, why: &Arc<str>) {
        let mut inbox = self.inbox.lock();
        inbox.failures += 1;
        inbox.failure = Arc::clone(why);
        let waiting = std::mem::take(&mut inbox.waiting);
        drop(inbox);
        waiting.into_iter().for_each(panics::wake);
    }

    /// Records that the writer process has ended.
    pub(super) fn end(&self) {
        let mut inbox = self.inbox.lock();
        inbox.ended = true;
        let waiting = std::mem::take(&mut inbox.waiting);
        let submissions = std::mem::take(&mut inbox.submissions);
        // Break the reference cycle: the topic owns the post, the runtime owns the topic, and the writer's waker owns
        // the runtime.
        let rest = (inbox.keeper.take(), std::mem::take(&mut inbox.changes), std::mem::take(&mut inbox.found));
        drop(inbox);
        drop(rest);
        waiting.into_iter().for_each(panics::wake);
        for Submission { messages, reply } in submissions {
            reply(messages, Err(NotKept::Closed));
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        panics::wake(waker);
    }
}

/// The topic's end of the queue.
pub(super) struct Handle(pub(super) Arc<Post>);

impl Journal for Handle {
    fn submit(&self, messages: VecDeque<Message>, reply: Reply) {
        if messages.is_empty() {
            return reply(messages, Ok(()));
        }
        let mut inbox = self.0.inbox.lock();
        if inbox.closed || inbox.ended {
            drop(inbox);
            return reply(messages, Err(NotKept::Closed));
        }
        inbox.submissions.push_back(Submission { messages, reply });
        let keeper = inbox.keeper.take();
        drop(inbox);
        wake(keeper);
    }

    fn is_crowded(&self) -> bool {
        self.0.inbox.lock().submissions.len() >= CROWD
    }

    fn begin(&self, subscription: &Arc<str>, start: u64) {
        self.0.change(subscription, |changes| changes.begun = Some(start));
    }

    fn end(&self, subscription: &Arc<str>) {
        self.0.change(subscription, |changes| *changes = Changes { ended: true, ..Changes::default() });
    }

    fn note(&self, subscription: &Arc<str>, position: u64, fate: Fate) {
        self.0.change(subscription, |changes| {
            changes.fates.insert(position, fate);
        });
    }

    fn noted(&self) -> Noted {
        let inbox = self.0.inbox.lock();
        Noted { changes: inbox.noted, failures: inbox.failures }
    }

    fn is_kept(&self, noted: Noted, waker: &Waker) -> Result<bool, NotKept> {
        let mut inbox = self.0.inbox.lock();
        if inbox.kept >= noted.changes {
            return Ok(true);
        }
        if inbox.failures > noted.failures {
            return Err(NotKept::Failed(Arc::clone(&inbox.failure)));
        }
        if inbox.ended {
            return Err(NotKept::Closed);
        }
        if !inbox.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            inbox.waiting.push(waker.clone());
        }
        Ok(false)
    }

    fn resume(&self, subscription: &str) -> Option<Resumed> {
        self.0.inbox.lock().found.remove(subscription)
    }

    fn close(&self) {
        let mut inbox = self.0.inbox.lock();
        inbox.closed = true;
        wake(inbox.keeper.take());
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut inbox = self.0.inbox.lock();
        inbox.abandoned = true;
        // Subscriptions that were found and never resumed stay on disk.
        let found = std::mem::take(&mut inbox.found);
        let keeper = inbox.keeper.take();
        drop(inbox);
        drop(found);
        wake(keeper);
    }
}
