//! Interface between a topic and the component that persists its messages and the progress of its subscriptions.
//!
//! ```text
//!   publish ──▶ submit ──▶ stored ──▶ in the log ──▶ lease ─▶ leased ─┐
//!                 reply ◀────┘                        ack  ─▶ done   ─┴─▶ stored soon, in one commit
//! ```
//!
//! Invariants: a message of a durable topic enters the log only after it is stored. No code waits under a lock for
//! recorded changes to be stored.

pub(crate) mod durable;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use thiserror::Error;

use super::message::Message;

/// Error returned when messages were not stored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JournalError {
    /// The topic is closed, so no reader would see them.
    #[error("the topic is closed")]
    Closed,
    /// The ordering key of the first message is paused.
    #[error("the ordering key is paused")]
    Paused,
    /// The store failed with this message.
    #[error("{0}")]
    Failed(Arc<str>),
}

/// Callback that receives the messages that were not stored, and the reason if there are any.
pub type StoreCallback = Box<dyn FnOnce(VecDeque<Message>, Result<(), JournalError>) + Send>;

/// Outcome of a message that a subscription's cursor has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// Delivered this number of times and not finished.
    Attempted(u32),
    /// Acknowledged.
    Acked,
    /// Dead-lettered: attempts exhausted, and stored in the dead-letter topic.
    DeadLettered,
}

/// Snapshot of the changes recorded until now.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlushPoint {
    /// Number of changes recorded.
    pub changes: u64,
    /// Number of commits that had failed by then.
    pub failures: u64,
}

/// Persists the messages of a topic and the progress of its subscriptions.
pub trait Journal: Send + Sync {
    /// Takes messages to store and calls `reply` when they are stored. They enter the log as soon as it has room.
    fn submit(&self, messages: VecDeque<Message>, reply: StoreCallback);

    /// Returns true if the number of queued submissions has reached the limit above which no dead letters are added.
    fn is_queue_full(&self) -> bool;

    /// Notes that a subscription begins at the message with position `start`.
    fn begin(&self, subscription: &Arc<str>, start: u64);

    /// Notes that a subscription has ended.
    fn end(&self, subscription: &Arc<str>);

    /// Notes the outcome of a message.
    fn note(&self, subscription: &Arc<str>, position: u64, outcome: DeliveryOutcome);

    /// Returns a snapshot of the recorded changes, for a later call of `is_flushed`.
    fn flush_point(&self) -> FlushPoint;

    /// Returns true if the changes of that snapshot are stored; otherwise registers the waker.
    ///
    /// # Errors
    /// [`JournalError`] if a commit failed meanwhile.
    fn is_flushed(&self, flush_point: FlushPoint, waker: &Waker) -> Result<bool, JournalError>;

    /// Returns the progress that an earlier node stored for a subscription; only the first call does.
    fn resume(&self, subscription: &str) -> Option<SavedProgress>;

    /// Closes the topic for new messages.
    fn close(&self);
}

/// Progress of a subscription when its node ended.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "what holds the messages cannot be printed")]
pub struct SavedProgress {
    /// Position of the first message that the subscription was ever to receive.
    pub start: u64,
    /// Everything before this position is finished.
    pub floor: u64,
    /// Positions at or after the floor that are finished.
    pub done: Vec<u64>,
    /// Unfinished positions, with their number of deliveries.
    pub attempts: Vec<(u64, u32)>,
    /// Number of messages that were dead-lettered.
    pub dead_lettered: u64,
    /// Keeps the subscription's messages in the log until its own cursor does.
    pub hold: Option<Box<dyn Send>>,
}

impl SavedProgress {
    /// Number of messages that were acknowledged.
    pub fn acked(&self) -> u64 {
        self.floor - self.start + self.done.len() as u64 - self.dead_lettered
    }
}
