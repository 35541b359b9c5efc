//! Topics of the node: each message is delivered to every subscription of its topic, until it is acknowledged there.
//! Needs the capability `topics` and a grant of the topic, on a node that gives guests access to its topics.
//!
//! A guest that uses this module imports the topics: a node that gives guests no access does not load it. Guests cannot
//! create topics.

use std::time::Duration;

use crate::publishing::rusm::runtime::topics as wire;
use crate::{Error, millis};

/// A message of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Payload; the node does not interpret it.
    pub payload: Vec<u8>,
    /// Ordering key: an ordered subscription delivers the messages of a key one batch after the other.
    pub key: Option<String>,
    /// Attributes: names and values.
    pub attributes: Vec<(String, String)>,
}

impl Message {
    /// Creates a message with this payload, without key and attributes.
    pub fn new(payload: impl AsRef<[u8]>) -> Self {
        Self { payload: payload.as_ref().to_vec(), ..Self::default() }
    }

    /// Sets the ordering key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds an attribute.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }
}

/// A topic of the node, by its name. The node decides which topics this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic<'a>(pub &'a str);

impl Topic<'_> {
    /// Publishes a message, and waits for room. On a durable topic, waits until the message is stored.
    ///
    /// # Errors
    /// [`Error::Denied`] without a grant, [`Error::NoSuch`] if the topic does not exist or is closed, and
    /// [`Error::Limit`] or [`Error::Invalid`] if the message exceeds a limit or cannot be stored.
    pub fn publish(self, message: Message) -> Result<(), Error> {
        Ok(wire::publish(self.0, &message.into())?)
    }

    /// Publishes a message without waiting.
    ///
    /// # Errors
    /// As for [`publish`](Self::publish); [`Error::Limit`], with the numbers, if the topic is full; [`Error::Invalid`]
    /// for a durable topic, because storing a message requires a wait.
    pub fn try_publish(self, message: Message) -> Result<(), Error> {
        Ok(wire::try_publish(self.0, &message.into())?)
    }

    /// Publishes messages in order, and waits for room as often as necessary.
    ///
    /// # Errors
    /// As for [`publish`](Self::publish), for the first message that is refused: only those before it are published.
    pub fn publish_all(self, messages: impl IntoIterator<Item = Message>) -> Result<(), Error> {
        let messages: Vec<_> = messages.into_iter().map(wire::Message::from).collect();
        Ok(wire::publish_all(self.0, &messages)?)
    }

    /// Like [`subscribe`](Self::subscribe), with options for a new subscription.
    ///
    /// # Errors
    /// As for [`subscribe`](Self::subscribe); [`Error::Denied`] without a grant of the dead-letter topic.
    pub fn subscribe_with(self, subscription: &str, options: Options) -> Result<Share, Error> {
        let Options { ordered, oldest, ack_deadline, dead_letter } = options;
        let ack_deadline_ms = ack_deadline.map(millis);
        let dead_letter = dead_letter.map(|(topic, attempts_max)| wire::DeadLetter { topic, attempts_max });
        let options = wire::SubscriptionOptions { ordered, oldest, ack_deadline_ms, dead_letter };
        Ok(Share(wire::subscribe_with(self.0, subscription, &options)?))
    }

    /// Adds a listener, which receives each message published from now on at most once, without leases.
    ///
    /// # Errors
    /// As for [`subscribe`](Self::subscribe).
    pub fn listen(self, overflow: Overflow) -> Result<Listener, Error> {
        Ok(Listener(wire::listen(self.0, overflow.into())?))
    }

    /// Adds a consumer to a subscription. Creates it if it does not exist; it then begins with the next message.
    ///
    /// # Errors
    /// [`Error::Denied`] without a grant, [`Error::NoSuch`] if the topic does not exist, [`Error::Invalid`] if the name
    /// is not valid, [`Error::Limit`] beyond 64 consumers and listeners.
    pub fn subscribe(self, subscription: &str) -> Result<Share, Error> {
        Ok(Share(wire::subscribe(self.0, subscription)?))
    }
}

/// Options of a new subscription. They do not change a subscription that exists already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Deliver the messages of a key one batch after the other.
    pub ordered: bool,
    /// Begin with the oldest message that the topic still has, instead of the next one.
    pub oldest: bool,
    /// Time for a consumer to acknowledge; `None` stands for 10 s.
    pub ack_deadline: Option<Duration>,
    /// Destination of messages without attempts left: a topic, and the maximum number of attempts per message.
    pub dead_letter: Option<(String, u32)>,
}

/// Policy for messages that arrive faster than a listener reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Lose nothing: publishers wait.
    Block,
    /// Drop the oldest messages beyond this number.
    DropOldest(u32),
    /// Drop the newest messages beyond this number.
    DropNewest(u32),
    /// Disconnect the listener beyond this number: it receives no more messages.
    Disconnect(u32),
}

/// Listener of a topic. Dropping it removes the listener.
#[derive(Debug, PartialEq, Eq)]
pub struct Listener(u64);

impl Listener {
    /// Returns the next message. Waits without a limit.
    ///
    /// # Errors
    /// [`Error::NoSuch`] if there will be no more messages.
    pub fn hear(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(message) = wire::hear(self.0, None)? {
                return Ok(message.into());
            }
        }
    }

    /// Returns the next message, or `None` after the timeout; zero does not wait.
    ///
    /// # Errors
    /// As for [`hear`](Self::hear).
    pub fn hear_timeout(&mut self, timeout: Duration) -> Result<Option<Message>, Error> {
        Ok(wire::hear(self.0, Some(millis(timeout)))?.map(Message::from))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        wire::unsubscribe(self.0);
    }
}

/// Consumer of a subscription. Dropping it removes the consumer: other consumers get its leased messages, and the
/// subscription remains.
#[derive(Debug, PartialEq, Eq)]
pub struct Share(u64);

/// A message leased to this process, until it is acknowledged or returned, the process ends, or the deadline passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Id to pass to `ack`, `nack` or `extend`.
    pub id: LeaseId,
    /// Number of deliveries, including this one.
    pub attempt: u32,
    /// Position in the topic.
    pub position: u64,
    /// The message.
    pub message: Message,
}

/// Id of a lease. It is never reused for another lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(u64);

/// Result of `ack`, `nack` or `extend`. Every value but `Done` has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "any status other than `Done` means that nothing was changed"]
pub enum Settled {
    /// The call succeeded.
    Done,
    /// The message was already acknowledged.
    AlreadyAcked,
    /// The message was already returned.
    AlreadyNacked,
    /// The deadline has passed, and the message is or was delivered again.
    Expired,
    /// The lease was revoked: an earlier message of its key must be delivered again first.
    Revoked,
    /// The lease does not exist, or belongs to another process.
    Unknown,
}

impl Share {
    /// Returns the next message. Waits without a limit.
    ///
    /// # Errors
    /// [`Error::NoSuch`] if there will be no more messages.
    #[allow(clippy::should_implement_trait, reason = "named as in the WIT; the end of the topic is an error")]
    pub fn next(&mut self) -> Result<Lease, Error> {
        loop {
            if let Some(lease) = wire::next(self.0, None)? {
                return Ok(lease.into());
            }
        }
    }

    /// Returns the next message, or `None` after the timeout; zero does not wait.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Lease>, Error> {
        Ok(wire::next(self.0, Some(millis(timeout)))?.map(Lease::from))
    }

    /// Like [`next`](Self::next), but also returns further available messages, up to `most` in total, 1 to 1,000.
    ///
    /// # Errors
    /// As for [`next`](Self::next); [`Error::Limit`] if `most` is out of range.
    pub fn next_batch(&mut self, most: u32) -> Result<Vec<Lease>, Error> {
        Ok(wire::next_batch(self.0, most, None)?.into_iter().map(Lease::from).collect())
    }

    /// Acknowledges several messages; returns the number of them that were leased.
    ///
    /// # Errors
    /// None while the consumer exists.
    pub fn ack_all(&mut self, leases: impl IntoIterator<Item = LeaseId>) -> Result<u32, Error> {
        let ids: Vec<u64> = leases.into_iter().map(|lease| lease.0).collect();
        Ok(wire::ack_all(self.0, &ids)?)
    }

    /// Extends a lease by this time, to at most an hour from now.
    ///
    /// # Errors
    /// None while the consumer exists.
    pub fn extend(&mut self, lease: LeaseId, by: Duration) -> Result<Settled, Error> {
        Ok(wire::extend(self.0, lease.0, millis(by))?.into())
    }

    /// Acknowledges a message.
    ///
    /// # Errors
    /// None while the consumer exists.
    pub fn ack(&mut self, lease: LeaseId) -> Result<Settled, Error> {
        Ok(wire::ack(self.0, lease.0)?.into())
    }

    /// Returns a message, which will be delivered again.
    ///
    /// # Errors
    /// None while the consumer exists.
    pub fn nack(&mut self, lease: LeaseId) -> Result<Settled, Error> {
        Ok(wire::nack(self.0, lease.0)?.into())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        wire::unsubscribe(self.0);
    }
}

impl From<Overflow> for wire::Overflow {
    fn from(overflow: Overflow) -> Self {
        match overflow {
            Overflow::Block => Self::Block,
            Overflow::DropOldest(most) => Self::DropOldest(most),
            Overflow::DropNewest(most) => Self::DropNewest(most),
            Overflow::Disconnect(most) => Self::Disconnect(most),
        }
    }
}

impl From<Message> for wire::Message {
    fn from(message: Message) -> Self {
        Self { payload: message.payload, key: message.key, attributes: message.attributes }
    }
}

impl From<wire::Message> for Message {
    fn from(message: wire::Message) -> Self {
        Self { payload: message.payload, key: message.key, attributes: message.attributes }
    }
}

impl From<wire::Lease> for Lease {
    fn from(lease: wire::Lease) -> Self {
        let wire::Lease { id, attempt, position, message } = lease;
        Self { id: LeaseId(id), attempt, position, message: message.into() }
    }
}

impl From<wire::Settled> for Settled {
    fn from(settled: wire::Settled) -> Self {
        match settled {
            wire::Settled::Done => Self::Done,
            wire::Settled::AlreadyAcked => Self::AlreadyAcked,
            wire::Settled::AlreadyNacked => Self::AlreadyNacked,
            wire::Settled::Expired => Self::Expired,
            wire::Settled::Revoked => Self::Revoked,
            wire::Settled::Unknown => Self::Unknown,
        }
    }
}
