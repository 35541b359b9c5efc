//! Access of a [`Journal`] to the topic that it persists.
//!
//! ```text
//!   Journal ◀── submit ── publisher           journal's writer ── append ──▶ log of the topic ──▶ cursors
//! ```
//!
//! Only the writer of the journal appends to the log of such a topic, and only messages that are stored already.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::Context;

use rustc_hash::FxHashSet;

use super::Journal;
use crate::runtime::handle::Handle;
use crate::stream::ring::turn::defer_turn_end;
use crate::topic::cursor::Cursor;
use crate::topic::handle::Topic;
use crate::topic::log::Log;
use crate::topic::message::Message;
use crate::topic::registry::TopicsHandle;
use crate::topic::registry::config::{CreateError, TopicConfig, check};
use crate::topic::retention::{AppendError, LogLimits, Waiter};
use crate::topic::shared::TopicShared;

impl TopicsHandle {
    /// Adds a topic that a journal persists; its first message has the position `base`.
    ///
    /// # Errors
    /// [`CreateError`] if the name is taken, or the name or a bound is out of range.
    #[doc(hidden)]
    pub fn add_durable(
        &self,
        name: &str,
        config: &TopicConfig,
        base: u64,
        payload_max: usize,
        journal: Arc<dyn Journal>,
    ) -> Result<(Topic, WeakTopic), CreateError> {
        check(name, config)?;
        let payload_max = payload_max.min(config.payload_max());
        let topic = self.add(name, |name, runtime| {
            let mut shared = TopicShared::new(name, Log::new(LogLimits::from(config), base), payload_max, runtime);
            shared.journal = Some(journal);
            shared
        })?;
        let stored = WeakTopic(Arc::downgrade(&topic.shared));
        Ok((topic, stored))
    }

    /// Returns the runtime of these topics.
    #[doc(hidden)]
    pub fn runtime(&self) -> Handle {
        Handle::new(Arc::clone(&self.0))
    }
}

/// A reference to a topic that does not keep it alive.
#[derive(Clone)]
pub struct WeakTopic(Weak<TopicShared>);

impl fmt::Debug for WeakTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WeakTopic").finish_non_exhaustive()
    }
}

impl WeakTopic {
    /// Returns the log of the topic, unless all handles of the topic are gone.
    pub fn log(&self) -> Option<DurableLog> {
        self.0.upgrade().map(DurableLog)
    }
}

/// The log of a topic, for the writer of its journal.
pub struct DurableLog(Arc<TopicShared>);

impl fmt::Debug for DurableLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DurableLog").field(&self.0.name).finish()
    }
}

impl DurableLog {
    /// Records that the topic has had a subscriber before.
    pub fn set_had_subscriber(&self) {
        self.0.log.lock().had_subscriber = true;
    }

    /// Keeps all messages from the oldest one on in the log, until the returned value is dropped.
    pub fn hold(&self) -> Box<dyn Send> {
        let waiter: Arc<dyn Waiter> = Arc::new(NoWaiter);
        let cursor = Cursor::join(&self.0.log, true, true, &waiter);
        Box::new(RetentionHold { topic: Arc::downgrade(&self.0), cursor, waiter })
    }

    /// Returns the ordering keys that are paused.
    pub fn paused(&self) -> FxHashSet<Arc<str>> {
        self.0.log.lock().paused.clone()
    }

    /// Appends stored messages as far as there is room, and wakes the readers. Returns true if none are left.
    ///
    /// With a context, the task is woken when there is room for the rest. `ticket`, 0 at first, is its place among the
    /// publishers that wait.
    pub fn append(&self, stored: &mut VecDeque<Message>, cx: Option<&Context<'_>>, ticket: &mut u64) -> bool {
        while let Some(first) = stored.front() {
            if cx.is_some_and(|cx| self.0.log.wait_stored(first, cx.waker(), ticket)) {
                return false;
            }
            let (appended, wakes) = self.0.log.append_stored(stored, || self.0.now_ns());
            if wakes && !defer_turn_end(&self.0) {
                self.0.wake();
            }
            if appended == Err(AppendError::Full) && cx.is_none() {
                return false;
            }
        }
        true
    }

    /// Closes the log: readers still receive the messages in it.
    pub fn close(&self) {
        for waiter in self.0.log.close() {
            waiter.wake();
        }
    }
}

/// Keeps messages in the log for a subscription that has not resumed yet.
struct RetentionHold {
    topic: Weak<TopicShared>,
    cursor: Cursor,
    waiter: Arc<dyn Waiter>,
}

impl Drop for RetentionHold {
    fn drop(&mut self) {
        if let Some(topic) = self.topic.upgrade() {
            self.cursor.leave(&topic.log, &self.waiter);
        }
    }
}

struct NoWaiter;

impl Waiter for NoWaiter {
    fn wake(&self) {}
}
