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

    /// Takes a share in a subscription, which is made unless it is there, with what is published from now on.
    ///
    /// # Errors
    /// [`Error::Denied`] without a grant, [`Error::NoSuch`] where there is no such topic, [`Error::Invalid`] for the name,
    /// [`Error::Limit`] beyond 64 shares.
    pub fn subscribe(self, subscription: &str) -> Result<Share, Error> {
        Ok(Share(wire::subscribe(self.0, subscription)?))
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
