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

use super::durable_state::{DurableState, Rows, Write};
use super::journal_queue::{JournalQueue, QueueState, Submission};
use super::record::{self, TopicHeader};
use crate::claim::Claim;
use crate::error::StoreError;
use crate::store::{Bucket, Store};
use crate::transaction::Transaction;
use crate::writer::write::Write as StoreWrite;
use rusm_runtime::embed::topic::{DurableLog, JournalError, StoreCallback, WeakTopic};
use rusm_runtime::topic::Message;

/// Maximum number of messages and bytes per commit.
const BATCH_MESSAGES: usize = 4096;
const BATCH_BYTES: usize = 16 << 20;
/// Delay before the next attempt after a failed commit.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Error reported when earlier, successful commits were lost.
const UNDONE: &str =
    "the store lost unsynced commits, so the topic is closed and its last messages are lost: open it again";

/// Error reported when the writer process ended before the outcome of a commit was known.
const ENDED: &str = "the writer process of the topic ended before the outcome of the commit was known";

/// Writer process of a durable topic.
pub(super) struct JournalWriter {
    pub(super) topic: WeakTopic,
    pub(super) queue: Arc<JournalQueue>,
    pub(super) store: Store,
    pub(super) bucket: Bucket,
    pub(super) durable_state: DurableState,
    /// Stored messages that are waiting for room in the log.
    pub(super) stored: VecDeque<Message>,
    /// Ticket in the log's line of publishers that wait for room.
    pub(super) ticket: u64,
    /// Headers that may be on disk: the last known one, and one per commit attempted since.
    pub(super) heads: Vec<Option<TopicHeader>>,
    /// True if the disk was too full for the last commit.
    pub(super) is_disk_full: bool,
    /// Released before the end of the topic is reported, so that the topic can be opened again at once.
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
struct CommitRound {
    batch: Vec<Message>,
    /// Submissions with the number of their messages in the batch; the last one may be included in part.
    submissions: Vec<(Submission, usize)>,
    refused: Vec<(VecDeque<Message>, StoreCallback, JournalError)>,
    is_over: bool,
}

impl CommitRound {
    fn failed(&mut self, why: &JournalError) {
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

impl Drop for CommitRound {
    fn drop(&mut self) {
        self.refuse();
        if !self.submissions.is_empty() {
            self.failed(&JournalError::Failed(ENDED.into()));
        }
    }
}

impl JournalWriter {
    pub(super) async fn run(mut self) {
        loop {
            let mut round = poll_fn(|cx| self.poll_round(cx)).await;
            round.refuse();
            if round.is_over {
                return;
            }
            let mut rows = self.durable_state.rows(&round.batch);
            let found = Arc::new(OnceLock::new());
            let write = self.commit(std::mem::take(&mut rows.writes), round.batch.is_empty(), &found);
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
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Creates the write; it stores the header found on disk in `found`. A write of progress alone frees space, so it may
    /// use the last space of the disk.
    fn commit(
        &self,
        writes: Vec<Write>,
        is_progress: bool,
        found: &Arc<OnceLock<Option<TopicHeader>>>,
    ) -> StoreWrite<(), CommitError> {
        let (bucket, heads, found) = (self.bucket.clone(), self.heads.clone(), Arc::clone(found));
        let code = move |tx: &mut Transaction<'_, '_>| {
            let head =
                tx.get(&bucket, record::HEADER_KEY)?.map(|value| TopicHeader::decode(&value).unwrap_or_default());
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
        };
        if is_progress { self.store.transaction_of_upkeep(code) } else { self.store.transaction(code) }
    }

    /// Reports a failed commit to all waiters; returns true if no other commit can follow.
    fn failed(&mut self, mut round: CommitRound, error: &CommitError) -> bool {
        let (why, is_end) = match error {
            CommitError::Undone => (UNDONE.into(), true),
            CommitError::Store(error) => (error.to_string(), *error == StoreError::Closed),
        };
        self.is_disk_full = matches!(error, CommitError::Store(StoreError::Full));
        if matches!(error, CommitError::Undone) {
            tracing::error!(topic = self.bucket.name(), UNDONE);
        }
        if is_end {
            self.claim = None;
        }
        let why: Arc<str> = why.into();
        self.queue.failed(&why);
        round.failed(&JournalError::Failed(why));
        is_end
    }

    fn committed(&mut self, rows: &Rows, mut round: CommitRound) {
        self.is_disk_full = false;
        self.durable_state.committed(rows, &round.batch);
        self.stored.extend(std::mem::take(&mut round.batch));
        self.append_stored(None);
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
            self.queue.state.lock().submissions.push_front(submission);
        }
        self.queue.kept(self.durable_state.kept());
    }

    /// Appends stored messages to the log as far as there is room; returns true if none are left.
    fn append_stored(&mut self, cx: Option<&Context<'_>>) -> bool {
        let Some(log) = self.topic.log() else {
            self.stored.clear();
            return true;
        };
        log.append(&mut self.stored, cx, &mut self.ticket)
    }

    /// Collects the content of the next commit, or sleeps.
    fn poll_round(&mut self, cx: &Context<'_>) -> Poll<CommitRound> {
        let is_appended = self.append_stored(Some(cx));
        // Drop this handle after the lock is released: dropping the last handle of a topic takes the same lock.
        let topic = self.topic.log();
        let queue = Arc::clone(&self.queue);
        let mut state = queue.state.lock();
        state.writer_waker = Some(cx.waker().clone());
        let (mut round, recorded) = (CommitRound::default(), state.recorded);
        self.durable_state.apply(std::mem::take(&mut state.changes), recorded);
        let frees_space_first = self.is_disk_full && self.durable_state.is_dirty();
        if state.closed || topic.is_none() {
            let all = state
                .submissions
                .drain(..)
                .map(|Submission { messages, reply }| (messages, reply, JournalError::Closed));
            round.refused.extend(all);
        } else if let Some(topic) = topic.as_ref().filter(|_| is_appended && !frees_space_first) {
            self.take_messages(topic, &mut state, &mut round);
        }
        let idle = round.batch.is_empty() && round.refused.is_empty() && !self.durable_state.is_dirty();
        if idle && state.abandoned {
            round.is_over = true;
        } else if idle {
            // Changes without effect, such as those of an unknown subscription, count as stored.
            let is_new = state.kept < recorded;
            drop(state);
            if is_new {
                queue.kept(recorded);
            }
            return Poll::Pending;
        }
        Poll::Ready(round)
    }

    /// Takes the messages that there is room for, in order of submission.
    fn take_messages(&self, topic: &DurableLog, state: &mut QueueState, round: &mut CommitRound) {
        let paused = topic.paused();
        let is_paused = |message: &Message| message.key().is_some_and(|key| paused.contains(key));
        let mut bytes = 0;
        let most = BATCH_MESSAGES.min(self.durable_state.batch_room());
        while let Some(submission) = state.submissions.front() {
            let mut count = 0;
            for message in &submission.messages {
                let one = message.bytes();
                let fits = round.batch.len() < most && (bytes == 0 || bytes + one <= BATCH_BYTES);
                if !fits || is_paused(message) || !self.durable_state.has_room(round.batch.len(), bytes, one) {
                    break;
                }
                round.batch.push(message.clone());
                bytes += one;
                count += 1;
            }
            if submission.messages.get(count).is_some_and(is_paused) && count == 0 {
                let refused = state.submissions.pop_front();
                round.refused.extend(refused.map(|one| (one.messages, one.reply, JournalError::Paused)));
                continue;
            }
            let whole = count == submission.messages.len();
            if count > 0 {
                round.submissions.extend(state.submissions.pop_front().map(|submission| (submission, count)));
            }
            if !whole {
                return;
            }
        }
    }
}

impl Drop for JournalWriter {
    /// Starts the write of the last changes without waiting for it: the store completes it before it closes.
    fn drop(&mut self) {
        let (changes, recorded) = {
            let mut state = self.queue.state.lock();
            (std::mem::take(&mut state.changes), state.recorded)
        };
        self.durable_state.apply(changes, recorded);
        for rows in self.durable_state.last_rows() {
            let mut write = self.commit(rows, true, &Arc::default());
            drop(Pin::new(&mut write).poll(&mut Context::from_waker(Waker::noop())));
        }
        self.claim = None;
        self.queue.end();
        if let Some(log) = self.topic.log() {
            log.close();
        }
    }
}
