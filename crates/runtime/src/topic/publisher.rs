//! Publishing through a queue: messages are gathered into batches, and the number in flight is limited.
//!
//! ```text
//!   publish ──▶ │ gathered │ ── full, or old enough, or a reader is idle ──▶ the topic: one lock per batch
//!      ▲        └─ limits ─┘                                                  │
//!      └────── waits, or gets the message back ◀── the topic is full: the messages stay until there is room
//! ```
//!
//! Invariants: accepted = published + refused + outstanding, at any time. Messages of a publisher are published in the
//! order in which it accepted them. Accepted messages are published also if the publisher is dropped, unless the topic
//! refuses them.

mod batcher;
pub(crate) mod config;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::handle::Topic;
use super::message::Message;
use super::publish::PublishError;
use super::subscription::config::ACK_DEADLINE_MAX;
use crate::stream::ring::park;
use crate::stream::ring::turn;
use batcher::{Batcher, Outstanding};
use config::{PublisherAccount, PublisherConfig, PublisherConfigError};

/// Publishes through a queue that gathers batches. Clones share the queue.
///
/// Created by [`Topic::publisher`].
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::topic::{Message, Overflow, PublisherConfig};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let lines = runtime.topics().create("lines")?;
/// let mut reader = lines.subscribe(Overflow::Block);
/// runtime.block_on(move |_| async move {
///     let publisher = lines.publisher(PublisherConfig::default()).expect("the default is valid");
///     publisher.publish(Message::new("one")).await.expect("the topic is open");
///     publisher.publish(Message::new("two")).await.expect("the topic is open");
///     publisher.flush().await.expect("both are in the topic now");
/// });
/// assert_eq!(reader.blocking_next()?.payload(), "one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Publisher {
    batcher: Arc<Batcher>,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let account = self.account();
        f.debug_struct("Publisher")
            .field("topic", &self.topic().name())
            .field("account", &account)
            .finish_non_exhaustive()
    }
}

impl Topic {
    /// Creates a publisher with its own queue and limits.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// use rusm::topic::{Message, Overflow, PublisherConfig};
    /// use rusm::{Config, Runtime};
    ///
    /// let runtime = Runtime::start(Config::default())?;
    /// let lines = runtime.topics().create("lines")?;
    /// let mut reader = lines.subscribe(Overflow::Block);
    /// let publisher = lines.publisher(PublisherConfig { outstanding_messages: 10, ..PublisherConfig::default() })?;
    /// for line in ["one", "two"] {
    ///     publisher.blocking_publish(Message::new(line))?;
    /// }
    /// publisher.blocking_flush()?;
    /// assert_eq!(reader.blocking_next()?.payload(), "one");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PublisherConfigError`] for a value out of its range.
    pub fn publisher(&self, config: PublisherConfig) -> Result<Publisher, PublisherConfigError> {
        let within = |what, value: u128, min: u128, max: u128| {
            if (min..=max).contains(&value) { Ok(()) } else { Err(PublisherConfigError { what, value, min, max }) }
        };
        within("batch messages", config.batch_messages as u128, 1, 10_000)?;
        within("batch bytes", config.batch_bytes as u128, 1, 1 << 30)?;
        within("batch delay in ms", config.batch_delay.as_millis(), 0, ACK_DEADLINE_MAX.as_millis())?;
        within("outstanding messages", config.outstanding_messages as u128, 1, 1 << 24)?;
        within("outstanding bytes", config.outstanding_bytes as u128, 1, 1 << 40)?;
        Ok(Publisher { batcher: Batcher::new(self.clone(), config) })
    }
}

impl Publisher {
    /// Returns the topic.
    pub fn topic(&self) -> &Topic {
        &self.batcher.topic
    }

    /// Accepts a message, and waits while the limits are reached.
    ///
    /// Once it returns the message is in flight; [`flush`](Self::flush) waits until it is in the topic.
    ///
    /// # Errors
    /// [`PublishError::Message`] if the message is too large, [`PublishError::Unpublished`] if earlier messages were
    /// refused.
    pub async fn publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.topic().checked(message.into())?);
        poll_fn(|cx| {
            if !turn::may_proceed(cx) {
                return Poll::Pending;
            }
            let outcome = self.batcher.poll_accept(&mut message, Some(cx.waker()));
            if outcome.is_pending() {
                turn::record_wait();
            }
            outcome
        })
        .await
    }

    /// Accepts a message without waiting.
    ///
    /// # Errors
    /// As [`publish`](Self::publish), and [`PublishError::Limit`], which hands the message back.
    pub fn try_publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.topic().checked(message.into())?);
        match self.batcher.poll_accept(&mut message, None) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => message.map_or(Ok(()), |message| Err(self.batcher.limit_error(message))),
        }
    }

    /// Accepts a message, and blocks the calling thread while the limits are reached.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn blocking_publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.topic().checked(message.into())?);
        let accept = |cx: &mut std::task::Context<'_>| self.batcher.poll_accept(&mut message, Some(cx.waker()));
        park::block_until(None, accept).unwrap_or(Ok(()))
    }

    /// Publishes the gathered messages, and waits until every message accepted before is in the topic.
    ///
    /// # Errors
    /// The error of the first refused message, which it hands back. Call again for the next one.
    pub async fn flush(&self) -> Result<(), PublishError> {
        let upto = self.batcher.flush();
        poll_fn(|cx| {
            if !turn::may_proceed(cx) {
                return Poll::Pending;
            }
            let outcome = self.batcher.poll_settled(upto, cx.waker());
            if outcome.is_pending() {
                turn::record_wait();
            }
            outcome
        })
        .await
    }

    /// Like [`flush`](Self::flush), but blocks the calling thread.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn blocking_flush(&self) -> Result<(), PublishError> {
        let upto = self.batcher.flush();
        park::block_until(None, |cx| self.batcher.poll_settled(upto, cx.waker())).unwrap_or(Ok(()))
    }

    /// Returns the oldest message that the topic refused after the publisher accepted it, with the reason.
    pub fn take_refused(&self) -> Option<PublishError> {
        self.batcher.take_refused()
    }

    /// Returns what happened to the accepted messages; exact at any time.
    pub fn account(&self) -> PublisherAccount {
        self.batcher.account()
    }

    /// Returns the configuration.
    pub fn config(&self) -> PublisherConfig {
        self.batcher.config
    }
}

impl Outstanding {
    /// Returns true if a message of `bytes` bytes may be accepted.
    const fn admits(self, bytes: usize, config: &PublisherConfig) -> bool {
        self.messages == 0
            || (self.messages < config.outstanding_messages
                && self.bytes.saturating_add(bytes) <= config.outstanding_bytes)
    }
}
