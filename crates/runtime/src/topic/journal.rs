//! What a topic asks of whoever keeps its messages and the progress of its subscriptions beyond the end of the node.
//!
//! ```text
//!   publish ──▶ submit ──▶ kept ──▶ in the log ──▶ lease ─▶ leased ─┐
//!                 reply ◀────┘                      ack  ─▶ done   ─┴─▶ kept soon, and all at once
//! ```
//!
//! Invariants: a message is in the log of such a topic only after it is kept; what is noted is never waited for under a lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use thiserror::Error;

use super::message::Message;

/// Why messages were not kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only a store keeps anything"))]
pub(super) enum NotKept {
    /// Nobody will read them.
    #[error("the topic is closed")]
    Closed,
    /// The key of the first one takes no messages.
    #[error("the ordering key is paused")]
    Paused,
    /// The store says why.
    #[error("{0}")]
    Failed(Arc<str>),
}

/// Told what is left of the messages, and why if it is not nothing.
pub(super) type Reply = Box<dyn FnOnce(VecDeque<Message>, Result<(), NotKept>) + Send>;

/// What becomes of a message that a subscription has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was handed out so often and is not done.
    Tried(u32),
    Acked,
    /// It was tried too often, and is in another topic.
    Buried,
}

/// What there was to keep at some moment.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only a store keeps anything"))]
pub(super) struct Noted {
    /// How much.
    pub(super) changes: u64,
    /// How often it had not been kept by then.
    pub(super) failures: u64,
}

/// See the module.
pub(super) trait Journal: Send + Sync {
    /// Takes messages in, and tells when they are kept; then they are in the log as soon as it has room.
    fn submit(&self, messages: VecDeque<Message>, reply: Reply);

    /// Whether so much waits that no dead letters are to be added.
    fn is_crowded(&self) -> bool;

    /// A subscription begins with the message at a position.
    fn begin(&self, subscription: &Arc<str>, start: u64);

    /// A subscription has ended.
    fn end(&self, subscription: &Arc<str>);

    fn note(&self, subscription: &Arc<str>, position: u64, fate: Fate);

    /// What there is to keep so far, to be asked about later.
    fn noted(&self) -> Noted;

    /// Whether that is kept; else the waker is told. `Err` if it was tried in vain.
    fn is_kept(&self, noted: Noted, waker: &Waker) -> Result<bool, NotKept>;

    /// What an earlier node has left of a subscription, once.
    fn resume(&self, subscription: &str) -> Option<Resumed>;

    /// The topic takes no more messages.
    fn close(&self);
}

/// How far a subscription was.
#[derive(Default)]
pub(super) struct Resumed {
    /// The first message that it ever was to have.
    pub(super) start: u64,
    /// Everything before this position is done.
    pub(super) floor: u64,
    /// Positions from there on that are done.
    pub(super) done: Vec<u64>,
    /// Positions that are not, and how often they were handed out.
    pub(super) tried: Vec<(u64, u32)>,
    pub(super) dead_lettered: u64,
    /// What keeps its messages in the log until its own cursor does.
    pub(super) hold: Option<Box<dyn Send>>,
}

impl Resumed {
    /// Messages that were acknowledged.
    pub(super) fn acked(&self) -> u64 {
        self.floor - self.start + self.done.len() as u64 - self.dead_lettered
    }
}
