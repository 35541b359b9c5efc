//! Writer process of a durable topic: stores all queued submissions and changes in one commit, then appends the
//! messages to the log.
//!
//! ```text
//!   submissions ─┐                                  ┌─▶ the log ─▶ cursors
//!                ├─▶ one transaction ──▶ committed ─┼─▶ replies
//!   changes ─────┘        └── failed: replies       └─▶ waiters for changes
//! ```
//!
//! One commit runs at a time; what arrives meanwhile goes into the next one. Each commit checks that the previous one
//! is still there: a store that does not sync may have undone it, and other data may be lost as well. The topic is
//! then closed, and has lost its last messages when it is opened again.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::book::{Book, Rows, Write};
use super::post::{Inbox, Post, Submission};
use super::record::{self, Head};
use crate::{self as store, Bucket, Claim, Store, StoreError};
use rusm_runtime::embed::topic::{NotKept, Reply, StoredLog, StoredTopic};
use rusm_runtime::topic::Message;

/// Maximum number of messages and bytes per commit.
const BATCH_MESSAGES: usize = 4096;
const BATCH_BYTES: usize = 16 << 20;
/// Delay before the next attempt after a failed commit.
const AGAIN: Duration = Duration::from_millis(100);

/// Error reported when earlier, successful commits were lost.
const UNDONE: &str =
    "the store lost unsynced commits, so the topic is closed and its last messages are lost: open it again";

/// Error reported when the writer process ended before the outcome of a commit was known.
const ENDED: &str = "the writer process of the topic ended before the outcome of the commit was known";

/// Writer process of a durable topic.
pub(super) struct Keeper {
    pub(super) topic: StoredTopic,
    pub(super) post: Arc<Post>,
    pub(super) store: Store,
    pub(super) bucket: Bucket,
    pub(super) book: Book,
    /// Stored messages that are waiting for room in the log.
    pub(super) kept: VecDeque<Message>,
    /// Ticket in the log's line of publishers that wait for room.
    pub(super) ticket: u64,
    /// Headers that may be on disk: the last known one, and one per commit attempted since.
    pub(super) heads: Vec<Option<Head>>,
    /// Released before anyone learns that the topic has ended, so that it can be opened again at once.
    pub(super) claim: Option<Claim>,
}

/// Reason why a commit failed.
enum CommitError {
    /// Earlier commits were lost.
    Undone,
    Store(StoreError),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Content of one commit. Every submission in it gets a reply, also if the writer process ends in the middle.
#[derive(Default)]
struct Round {
    batch: Vec<Message>,
    /// Submissions with the number of their messages in the batch; the last one may be included in part.
    submissions: Vec<(Submission, usize)>,
    refused: Vec<(VecDeque<Message>, Reply, NotKept)>,
    is_over: bool,
}

impl Round {
    fn failed(&mut self, why: &NotKept) {
        for (submission, _) in self.submissions.drain(..) {
            (submission.reply)(submission.messages, Err(why.clone()));
        }
    }

    fn refuse(&mut self) {
        for (messages, reply, why) in self.refused.drain(..) {
            reply(messages, Err(why));
        }
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        self.refuse();
        if !self.submissions.is_empty() {
            self.failed(&NotKept::Failed(ENDED.into()));
        }
    }
}

impl Keeper {
    pub(super) async fn run(mut self) {
        loop {
            let mut round = poll_fn(|cx| self.poll_round(cx)).await;
            round.refuse();
            if round.is_over {
                return;
            }
            let mut rows = self.book.rows(&round.batch);
            let found = Arc::new(OnceLock::new());
            let write = self.commit(std::mem::take(&mut rows.writes), &found);
            self.heads.push(Some(rows.head));
            match write.await {
                Ok(()) => {
                    self.heads = vec![Some(rows.head)];
                    self.committed(&rows, round);
                }
                Err(error) => {
                    match found.get().copied() {
                        Some(before) => self.heads = vec![before, Some(rows.head)],
                        // The commit was not attempted.
                        None => _ = self.heads.pop(),
                    }
                    if self.failed(round, &error) {
                        return;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Creates the write; it stores the header found on disk in `found`.
    fn commit(&self, writes: Vec<Write>, found: &Arc<OnceLock<Option<Head>>>) -> store::Write<(), CommitError> {
        let (bucket, heads, found) = (self.bucket.clone(), self.heads.clone(), Arc::clone(found));
        self.store.transaction(move |tx| {
            let head = tx.get(&bucket, record::HEAD)?.map(|value| Head::decode(&value).unwrap_or_default());
            if !heads.contains(&head) {
                return Err(CommitError::Undone);
            }
            // The transaction runs once, so `found` is empty.
            found.set(head).ok();
            for (key, value) in writes {
                match value {
                    Some(value) => tx.put(&bucket, key, value)?,
                    None => tx.delete(&bucket, key)?,
                }
            }
            Ok(())
        })
    }

    /// Reports a failed commit to all waiters; returns true if no other commit can follow.
    fn failed(&mut self, mut round: Round, error: &CommitError) -> bool {
        let (why, is_end) = match error {
            CommitError::Undone => (UNDONE.into(), true),
            CommitError::Store(error) => (error.to_string(), *error == StoreError::Closed),
        };
        if matches!(error, CommitError::Undone) {
            tracing::error!(topic = self.bucket.name(), UNDONE);
        }
        if is_end {
            self.claim = None;
        }
        let why: Arc<str> = why.into();
        self.post.failed(&why);
        round.failed(&NotKept::Failed(why));
        is_end
    }

    fn committed(&mut self, rows: &Rows, mut round: Round) {
        self.book.committed(rows, &round.batch);
        self.kept.extend(std::mem::take(&mut round.batch));
        self.let_out(None);
        let mut unfinished = None;
        for (mut submission, count) in round.submissions.drain(..) {
            submission.messages.drain(..count);
            if submission.messages.is_empty() {
                (submission.reply)(submission.messages, Ok(()));
            } else {
                unfinished = Some(submission);
            }
        }
        if let Some(submission) = unfinished {
            self.post.inbox.lock().submissions.push_front(submission);
        }
        self.post.kept(self.book.kept());
    }

    /// Appends stored messages to the log as far as there is room; returns true if none are left.
    fn let_out(&mut self, cx: Option<&Context<'_>>) -> bool {
        let Some(log) = self.topic.log() else {
            self.kept.clear();
            return true;
        };
        log.append(&mut self.kept, cx, &mut self.ticket)
    }

    /// Collects the content of the next commit, or sleeps.
    fn poll_round(&mut self, cx: &Context<'_>) -> Poll<Round> {
        let is_out = self.let_out(Some(cx));
        // Drop this handle after the lock is released: dropping the last handle of a topic takes the same lock.
        let topic = self.topic.log();
        let post = Arc::clone(&self.post);
        let mut inbox = post.inbox.lock();
        inbox.keeper = Some(cx.waker().clone());
        let (mut round, noted) = (Round::default(), inbox.noted);
        self.book.take_in(std::mem::take(&mut inbox.changes), noted);
        if inbox.closed || topic.is_none() {
            let all =
                inbox.submissions.drain(..).map(|Submission { messages, reply }| (messages, reply, NotKept::Closed));
            round.refused.extend(all);
        } else if let Some(topic) = topic.as_ref().filter(|_| is_out) {
            self.take_messages(topic, &mut inbox, &mut round);
        }
        let idle = round.batch.is_empty() && round.refused.is_empty() && !self.book.is_dirty();
        if idle && inbox.abandoned {
            round.is_over = true;
        } else if idle {
            // Changes without effect, such as those of an unknown subscription, count as stored.
            let is_new = inbox.kept < noted;
            drop(inbox);
            if is_new {
                post.kept(noted);
            }
            return Poll::Pending;
        }
        Poll::Ready(round)
    }

    /// Takes the messages that there is room for, in order of submission.
    fn take_messages(&self, topic: &StoredLog, inbox: &mut Inbox, round: &mut Round) {
        let paused = topic.paused();
        let is_paused = |message: &Message| message.key().is_some_and(|key| paused.contains(key));
        let mut bytes = 0;
        while let Some(submission) = inbox.submissions.front() {
            let mut count = 0;
            for message in &submission.messages {
                let one = message.bytes();
                let fits = round.batch.len() < BATCH_MESSAGES && (bytes == 0 || bytes + one <= BATCH_BYTES);
                if !fits || is_paused(message) || !self.book.has_room(round.batch.len(), bytes, one) {
                    break;
                }
                round.batch.push(message.clone());
                bytes += one;
                count += 1;
            }
            if submission.messages.get(count).is_some_and(is_paused) && count == 0 {
                let refused = inbox.submissions.pop_front();
                round.refused.extend(refused.map(|one| (one.messages, one.reply, NotKept::Paused)));
                continue;
            }
            let whole = count == submission.messages.len();
            if count > 0 {
                round.submissions.extend(inbox.submissions.pop_front().map(|submission| (submission, count)));
            }
            if !whole {
                return;
            }
        }
    }
}

impl Drop for Keeper {
    /// Starts the write of the last changes without waiting for it: the store completes it before it closes.
    fn drop(&mut self) {
        let (changes, noted) = {
            let mut inbox = self.post.inbox.lock();
            (std::mem::take(&mut inbox.changes), inbox.noted)
        };
        self.book.take_in(changes, noted);
        for rows in self.book.last_rows() {
            let mut write = self.commit(rows, &Arc::default());
            drop(Pin::new(&mut write).poll(&mut Context::from_waker(Waker::noop())));
        }
        self.claim = None;
        self.post.end();
        if let Some(log) = self.topic.log() {
            log.close();
        }
    }
}
