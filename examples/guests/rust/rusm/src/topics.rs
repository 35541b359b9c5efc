//! Topics of the node: what one publishes, many receive, each message until it is acknowledged. Needs the capability `topics`
//! and a grant of the topic, on a node that gives its topics to guests.
//!
//! A guest that uses this module asks for topics by doing so: a node that gives none does not load it. Guests make no topics;
//! the node does.

use std::time::Duration;

use crate::publishing::rusm::runtime::topics as wire;
use crate::{Error, millis};

/// What is published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The bytes; what they mean is between publisher and subscribers.
    pub payload: Vec<u8>,
    /// Messages of the same key go out one after the other where the subscription keeps order.
    pub key: Option<String>,
    /// Names and values beside the payload.
    pub attributes: Vec<(String, String)>,
}

impl Message {
    /// A message of these bytes, without key and attributes.
    pub fn new(payload: impl AsRef<[u8]>) -> Self {
        Self { payload: payload.as_ref().to_vec(), ..Self::default() }
    }

    /// The same with an ordering key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same with one attribute more.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }
}

/// A topic of the node, which decides who may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic<'a>(pub &'a str);

impl Topic<'_> {
    /// Publishes, and waits for room; on a topic that is kept on disk, until the message is there.
    ///
    /// # Errors
    /// [`Error::Denied`] without a grant, [`Error::NoSuch`] where there is no such topic or it is closed, [`Error::Limit`] and
    /// [`Error::Invalid`] for a message that no topic takes, or for a disk that does not.
    pub fn publish(self, message: Message) -> Result<(), Error> {
        Ok(wire::publish(self.0, &message.into())?)
    }

    /// Publishes now.
    ///
    /// # Errors
    /// As for [`publish`](Self::publish); [`Error::Limit`] with the numbers when the topic is full, [`Error::Invalid`] for one
    /// that is kept on disk, because that takes a wait.
    pub fn try_publish(self, message: Message) -> Result<(), Error> {
        Ok(wire::try_publish(self.0, &message.into())?)
    }

    /// Publishes messages in order, and waits for room as often as it must.
    ///
    /// # Errors
    /// As for [`publish`](Self::publish), of the first message that is refused; those before it are published.
    pub fn publish_all(self, messages: impl IntoIterator<Item = Message>) -> Result<(), Error> {
        let messages: Vec<_> = messages.into_iter().map(wire::Message::from).collect();
        Ok(wire::publish_all(self.0, &messages)?)
    }

    /// Takes a share in a subscription, which is made as these options say unless it is there.
    ///
    /// # Errors
    /// As for [`subscribe`](Self::subscribe); [`Error::Denied`] for a topic of dead letters without a grant.
    pub fn subscribe_with(self, subscription: &str, options: Options) -> Result<Share, Error> {
        let Options { ordered, oldest, ack_deadline, dead_letter } = options;
        let ack_deadline_ms = ack_deadline.map(millis);
        let dead_letter = dead_letter.map(|(topic, attempts_max)| wire::DeadLetter { topic, attempts_max });
        let options = wire::SubscriptionOptions { ordered, oldest, ack_deadline_ms, dead_letter };
        Ok(Share(wire::subscribe_with(self.0, subscription, &options)?))
    }

    /// Listens to what is published from now on: each message once at most, without leases.
    ///
    /// # Errors
    /// As for [`subscribe`](Self::subscribe).
    pub fn listen(self, overflow: Overflow) -> Result<Listener, Error> {
        Ok(Listener(wire::listen(self.0, overflow.into())?))
    }

    /// Takes a share in a subscription, which is made unless it is there, with what is published from now on.
    ///
    /// # Errors
    /// [`Error::Denied`] without a grant, [`Error::NoSuch`] where there is no such topic, [`Error::Invalid`] for the name,
    /// [`Error::Limit`] beyond 64 shares.
    pub fn subscribe(self, subscription: &str) -> Result<Share, Error> {
        Ok(Share(wire::subscribe(self.0, subscription)?))
    }
}

/// How a subscription is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Messages of the same key go out one batch after the other.
    pub ordered: bool,
    /// It begins with the oldest message that the topic still has, and not with the next.
    pub oldest: bool,
    /// Time to acknowledge; 10 s for `None`.
    pub ack_deadline: Option<Duration>,
    /// The topic for what was tried so many times.
    pub dead_letter: Option<(String, u32)>,
}

/// What becomes of messages that a listener is too slow for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Nothing is lost: publishers wait.
    Block,
    /// The oldest are dropped beyond so many.
    DropOldest(u32),
    /// The newest are dropped beyond so many.
    DropNewest(u32),
    /// Beyond so many nothing will ever come again.
    Disconnect(u32),
}

/// This process as a listener of a topic; dropped, it is none any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Listener(u64);

impl Listener {
    /// The next message, as soon as there is one.
    ///
    /// # Errors
    /// [`Error::NoSuch`] when nothing will ever come again.
    pub fn hear(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(message) = wire::hear(self.0, None)? {
                return Ok(message.into());
            }
        }
    }

    /// The next message, or none after so long; with no time at all it only looks.
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

/// This process's share in a subscription. Dropped, it gives what this process still has of it to the others; the subscription
/// stays.
#[derive(Debug, PartialEq, Eq)]
pub struct Share(u64);

/// A message in the hands of this process, until it acknowledges it, gives it back, ends, or takes too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What to acknowledge.
    pub id: LeaseId,
    /// How many times the message was handed out, this one included.
    pub attempt: u32,
    /// Its number in the topic.
    pub position: u64,
    /// What was published.
    pub message: Message,
}

/// The name of a lease, which no other one ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(u64);

/// What came of an acknowledgement or its like; all but `Done` have changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lease that had ended before may be with somebody else"]
pub enum Settled {
    /// It was done.
    Done,
    /// The message was acknowledged before.
    AlreadyAcked,
    /// The lease was given back before.
    AlreadyNacked,
    /// The deadline had passed, and the message is or was given again.
    Expired,
    /// The lease was taken away: a message before it in its key goes first again.
    Revoked,
    /// No such lease, or one of another process.
    Unknown,
}

impl Share {
    /// The next message, as soon as there is one.
    ///
    /// # Errors
    /// [`Error::NoSuch`] when nothing will ever come again.
    #[allow(clippy::should_implement_trait, reason = "the word of the WIT; it can fail, and never says that this was all")]
    pub fn next(&mut self) -> Result<Lease, Error> {
        loop {
            if let Some(lease) = wire::next(self.0, None)? {
                return Ok(lease.into());
            }
        }
    }

    /// The next message, or none after so long; with no time at all it only looks.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Lease>, Error> {
        Ok(wire::next(self.0, Some(millis(timeout)))?.map(Lease::from))
    }

    /// As [`next`](Self::next), and what more is there already, at most so many, 1 to 1,000.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn next_batch(&mut self, most: u32) -> Result<Vec<Lease>, Error> {
        Ok(wire::next_batch(self.0, most, None)?.into_iter().map(Lease::from).collect())
    }

    /// Says of several messages that they were dealt with; how many of them were leased.
    ///
    /// # Errors
    /// None while the share is there.
    pub fn ack_all(&mut self, leases: impl IntoIterator<Item = LeaseId>) -> Result<u32, Error> {
        let ids: Vec<u64> = leases.into_iter().map(|lease| lease.0).collect();
        Ok(wire::ack_all(self.0, &ids)?)
    }

    /// Takes so much more time for a message, at most an hour from now.
    ///
    /// # Errors
    /// None while the share is there.
    pub fn extend(&mut self, lease: LeaseId, by: Duration) -> Result<Settled, Error> {
        Ok(wire::extend(self.0, lease.0, millis(by))?.into())
    }

    /// Says that a message was dealt with.
    ///
    /// # Errors
    /// None while the share is there.
    pub fn ack(&mut self, lease: LeaseId) -> Result<Settled, Error> {
        Ok(wire::ack(self.0, lease.0)?.into())
    }

    /// Gives a message back, to be tried again.
    ///
    /// # Errors
    /// None while the share is there.
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
