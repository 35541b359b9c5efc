//! Publishing through a queue of one's own: messages gathered into batches, and no more of them on their way than agreed.
//!
//! ```text
//!   publish ──▶ │ gathered │ ── full, or old enough, or somebody has nothing to read ──▶ the topic: one lock for all
//!      ▲        └─ limits ─┘                                                               │
//!      └────── waits, or gets the message back ◀── the topic is full: they stay, and come in when there is room
//! ```
//!
//! Invariants: accepted = published + refused + outstanding, at any moment; messages of a publisher are published in the order in
//! which it took them; what was taken is published also if the publisher is dropped, unless the topic refuses it.

mod engine;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use thiserror::Error;

use self::engine::{Engine, Room};
use super::message::Message;
use super::publish::PublishError;
use super::{ACK_DEADLINE_MAX, Topic};
use crate::ring::park;
use crate::ring::turn;

/// How a publisher gathers, and how much of it may be on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublisherConfig {
    /// Messages that are published at once, between 1 and 10,000; 100. More takes the topic's lock more rarely.
    pub batch_messages: usize,
    /// Bytes that are published at once, between 1 and 1 GiB; 1 MB. The message that reaches them is part of the batch.
    pub batch_bytes: usize,
    /// How long a message waits for others at the most, up to an hour; 10 ms. It does not wait while somebody has nothing to
    /// read.
    pub batch_delay: Duration,
    /// Messages that are gathered or wait for room in the topic, at the most, between 1 and 2²⁴; 1,000.
    pub outstanding_messages: usize,
    /// Bytes of them, between 1 and 1 TiB; 10 MB. A larger message may come when it is alone.
    pub outstanding_bytes: usize,
}

impl Default for PublisherConfig {
    fn default() -> Self {
        Self {
            batch_messages: 100,
            batch_bytes: 1_000_000,
            batch_delay: Duration::from_millis(10),
            outstanding_messages: 1000,
            outstanding_bytes: 10_000_000,
        }
    }
}

/// A value of [`PublisherConfig`] out of its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} of {value} is not between {min} and {max}")]
pub struct PublisherRange {
    /// Which value.
    pub what: &'static str,
    /// What it is.
    pub value: u128,
    /// The least.
    pub min: u128,
    /// The most.
    pub max: u128,
}

/// What became of everything that a publisher took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherAccount {
    /// Messages that it took.
    pub accepted: u64,
    /// Messages that are in the topic.
    pub published: u64,
    /// Messages that the topic refused.
    pub refused: u64,
    /// Messages that are gathered or wait for room.
    pub outstanding: u64,
    /// Bytes of them.
    pub outstanding_bytes: usize,
    /// Times that messages were published.
    pub batches: u64,
}

impl PublisherAccount {
    /// Whether nothing is unaccounted for.
    pub const fn is_exact(&self) -> bool {
        self.accepted == self.published + self.refused + self.outstanding
    }
}

/// One that gathers what it publishes; a clone is the same publisher.
///
/// Made by [`Topic::publisher`].
#[derive(Clone)]
pub struct Publisher {
    engine: Arc<Engine>,
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
    /// A publisher with limits of its own.
    ///
    /// ```
    /// use rusm_runtime::topic::{Message, Overflow, PublisherConfig};
    /// use rusm_runtime::{Config, Runtime};
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
    /// [`PublisherRange`] for a value out of its range.
    pub fn publisher(&self, config: PublisherConfig) -> Result<Publisher, PublisherRange> {
        let within = |what, value: u128, min: u128, max: u128| {
            if (min..=max).contains(&value) { Ok(()) } else { Err(PublisherRange { what, value, min, max }) }
        };
        within("batch messages", config.batch_messages as u128, 1, 10_000)?;
        within("batch bytes", config.batch_bytes as u128, 1, 1 << 30)?;
        within("batch delay in ms", config.batch_delay.as_millis(), 0, ACK_DEADLINE_MAX.as_millis())?;
        within("outstanding messages", config.outstanding_messages as u128, 1, 1 << 24)?;
        within("outstanding bytes", config.outstanding_bytes as u128, 1, 1 << 40)?;
        Ok(Publisher { engine: Engine::new(self.clone(), config) })
    }
}

impl Publisher {
    /// The topic.
    pub fn topic(&self) -> &Topic {
        &self.engine.topic
    }

    /// Takes a message, and waits while the limits are reached.
    ///
    /// Once it returns the message is on its way; [`flush`](Self::flush) waits until it is in the topic.
    ///
    /// # Errors
    /// [`PublishError::Message`] for one that is too large, [`PublishError::Unpublished`] while others were refused.
    pub async fn publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.topic().checked(message.into())?);
        poll_fn(|cx| {
            if !turn::may_go_on(cx) {
                return Poll::Pending;
            }
            let outcome = self.engine.poll_accept(&mut message, Some(cx.waker()));
            if outcome.is_pending() {
                turn::waits();
            }
            outcome
        })
        .await
    }

    /// Takes a message now or not at all.
    ///
    /// # Errors
    /// As [`publish`](Self::publish), and [`PublishError::Limit`], which hands the message back.
    pub fn try_publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.topic().checked(message.into())?);
        match self.engine.poll_accept(&mut message, None) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => message.map_or(Ok(()), |message| Err(self.engine.limit(message))),
        }
    }

    /// Takes a message on a thread that may block.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    ///
    /// # Panics
    /// On a scheduler's thread, which must not block.
    pub fn blocking_publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.topic().checked(message.into())?);
        let accept = |cx: &mut std::task::Context<'_>| self.engine.poll_accept(&mut message, Some(cx.waker()));
        park::block_until(None, accept).unwrap_or(Ok(()))
    }

    /// Publishes what is gathered, and waits until everything that was taken before is in the topic.
    ///
    /// # Errors
    /// Why the first one was refused that was, which comes back; call again for the next one.
    pub async fn flush(&self) -> Result<(), PublishError> {
        let upto = self.engine.flush();
        poll_fn(|cx| {
            if !turn::may_go_on(cx) {
                return Poll::Pending;
            }
            let outcome = self.engine.poll_settled(upto, cx.waker());
            if outcome.is_pending() {
                turn::waits();
            }
            outcome
        })
        .await
    }

    /// The same on a thread that may block.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    ///
    /// # Panics
    /// On a scheduler's thread, which must not block.
    pub fn blocking_flush(&self) -> Result<(), PublishError> {
        let upto = self.engine.flush();
        park::block_until(None, |cx| self.engine.poll_settled(upto, cx.waker())).unwrap_or(Ok(()))
    }

    /// A message that the topic refused after it was taken, and why; the oldest first.
    pub fn take_refused(&self) -> Option<PublishError> {
        self.engine.take_refused()
    }

    /// What became of everything that it took; exact at any moment.
    pub fn account(&self) -> PublisherAccount {
        self.engine.account()
    }

    /// What was set about it.
    pub fn config(&self) -> PublisherConfig {
        self.engine.config
    }
}

impl Room {
    /// Whether a message of so many bytes may come.
    const fn is_for(self, bytes: usize, config: &PublisherConfig) -> bool {
        self.messages == 0
            || (self.messages < config.outstanding_messages
                && self.bytes.saturating_add(bytes) <= config.outstanding_bytes)
    }
}
