//! What waits for the keeper of a topic, and who waits for it.
//!
//! Changes of a subscription are put together while they wait, so there are never more of them than messages that it has in hand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use crate::panics;
use crate::topic::journal::{Fate, Journal, NotKept, Noted, Reply, Resumed};
use crate::topic::message::Message;

/// Submissions that are no crowd yet.
const CROWD: usize = 1024;

/// Messages that are to be kept, and whom to tell.
pub(super) struct Submission {
    pub(super) messages: VecDeque<Message>,
    pub(super) reply: Reply,
}

/// What became of a subscription's messages, in this order: it ended, it began, these were dealt with.
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
    /// Changes so far, and how many of them are kept.
    pub(super) noted: u64,
    pub(super) kept: u64,
    /// Commits that failed, and why the last one did.
    failures: u64,
    failure: Arc<str>,
    waiting: Vec<Waker>,
    /// The keeper, if it sleeps.
    pub(super) keeper: Option<Waker>,
    /// The topic takes no more messages.
    pub(super) closed: bool,
    /// Nobody has the topic or a subscription of it any more.
    pub(super) abandoned: bool,
    /// There is no keeper any more.
    ended: bool,
    /// Subscriptions that were found and not asked for yet.
    pub(super) found: BTreeMap<Arc<str>, Resumed>,
}

/// See the module.
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

    /// Says that so many changes are kept.
    pub(super) fn kept(&self, noted: u64) {
        let mut inbox = self.inbox.lock();
        inbox.kept = noted;
        let waiting = std::mem::take(&mut inbox.waiting);
        drop(inbox);
        waiting.into_iter().for_each(panics::wake);
    }

    /// Says that a commit failed; what was noted is tried again.
    pub(super) fn failed(&self, why: &Arc<str>) {
        let mut inbox = self.inbox.lock();
        inbox.failures += 1;
        inbox.failure = Arc::clone(why);
        let waiting = std::mem::take(&mut inbox.waiting);
        drop(inbox);
        waiting.into_iter().for_each(panics::wake);
    }

    /// Says that there is no keeper any more.
    pub(super) fn end(&self) {
        let mut inbox = self.inbox.lock();
        inbox.ended = true;
        let waiting = std::mem::take(&mut inbox.waiting);
        let submissions = std::mem::take(&mut inbox.submissions);
        // The topic has the post, the runtime has the topic, and the keeper's waker has the runtime: nobody would let go.
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

/// The post as the topic has it.
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
        // What was found and never asked for stays on disk.
        let found = std::mem::take(&mut inbox.found);
        let keeper = inbox.keeper.take();
        drop(inbox);
        drop(found);
        wake(keeper);
    }
}
