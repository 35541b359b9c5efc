//! Sending, receiving, calling.
//!
//! Bytes travel whole and in order. Receiving takes what it asks for and leaves the rest where it is.

use std::borrow::Cow;
use std::time::Duration;

use crate::bindings::rusm::runtime::{process, types};
use crate::{Down, Error, Exit, GroupChange, Pid, millis};

/// What a sender marks a message with, for `receive_tagged` to select by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u64);

impl Tag {
    /// The tag of a message that was not marked.
    pub const NONE: Self = Self(0);
}

/// What one process sent to another.
#[derive(Debug)]
pub struct Message {
    /// What the sender marked it with.
    pub tag: Tag,
    /// The bytes, whole.
    pub body: Vec<u8>,
    reply_to: Option<types::ReplyRef>,
}

impl Message {
    /// The body as text; what is no UTF-8 shows as `�`.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Whether the sender waits in `call`.
    pub fn is_call(&self) -> bool {
        self.reply_to.is_some()
    }

    /// Answers the caller; false where nobody waits, or no longer. The first reply counts.
    pub fn reply(&self, body: impl AsRef<[u8]>) -> bool {
        self.reply_to.is_some_and(|caller| process::reply(caller, body.as_ref()))
    }
}

/// The next thing in a mailbox.
#[derive(Debug)]
pub enum Received {
    /// A message.
    Message(Message),
    /// An exit signal, while exits are trapped.
    Exit(Exit),
    /// A monitor has fired.
    Down(Down),
    /// A group has changed.
    Group(GroupChange),
    /// A native process sent a value that is not bytes; the name of its type.
    Opaque(String),
}

/// Sends bytes, and waits while the receiver's mailbox is full. To a process that is gone it does nothing.
///
/// # Errors
/// [`Error::Limit`] for a body larger than a message may be.
pub fn send(to: Pid, body: impl AsRef<[u8]>) -> Result<(), Error> {
    send_tagged(to, Tag::NONE, body)
}

/// The same, marked with a tag.
///
/// # Errors
/// [`Error::Limit`] for a body larger than a message may be.
pub fn send_tagged(to: Pid, tag: Tag, body: impl AsRef<[u8]>) -> Result<(), Error> {
    Ok(process::send(to.into(), tag.0, body.as_ref())?)
}

/// Sends bytes, or says at once why not.
///
/// # Errors
/// [`Error::MailboxFull`] or [`Error::NoProcess`]; [`Error::Limit`] for a body larger than a message may be.
pub fn try_send(to: Pid, tag: Tag, body: impl AsRef<[u8]>) -> Result<(), Error> {
    Ok(process::try_send(to.into(), tag.0, body.as_ref())?)
}

/// The next thing in the mailbox, oldest first. Waits for ever.
pub fn receive() -> Received {
    loop {
        // Without a timeout the host answers with something; it cannot say so in its type.
        if let Some(received) = process::receive(None) {
            return received.into();
        }
    }
}

/// The next thing in the mailbox, or nothing after this time; zero only looks.
pub fn receive_timeout(timeout: Duration) -> Option<Received> {
    process::receive(Some(millis(timeout))).map(Into::into)
}

/// The oldest message with this tag. All else stays where it is, in its order.
pub fn receive_tagged(tag: Tag) -> Message {
    loop {
        if let Some(message) = process::receive_tagged(tag.0, None) {
            return message.into();
        }
    }
}

/// The same, or nothing after this time; zero only looks.
pub fn receive_tagged_timeout(tag: Tag, timeout: Duration) -> Option<Message> {
    process::receive_tagged(tag.0, Some(millis(timeout))).map(Into::into)
}

/// Sends a request and waits for its reply. A late reply is discarded and never taken for another one.
///
/// # Errors
/// [`Error::TimedOut`], [`Error::NoProcess`], or [`Error::CalleeExited`] with the reason.
pub fn call(to: Pid, tag: Tag, body: impl AsRef<[u8]>, timeout: Duration) -> Result<Vec<u8>, Error> {
    Ok(process::call(to.into(), tag.0, body.as_ref(), millis(timeout))?)
}

impl From<types::Message> for Message {
    fn from(message: types::Message) -> Self {
        Self { tag: Tag(message.tag), body: message.body, reply_to: message.reply_to }
    }
}

impl From<types::Received> for Received {
    fn from(received: types::Received) -> Self {
        match received {
            types::Received::Message(message) => Self::Message(message.into()),
            types::Received::Exit(exit) => Self::Exit(exit.into()),
            types::Received::Down(down) => Self::Down(down.into()),
            types::Received::Group(change) => Self::Group(change.into()),
            types::Received::Opaque(name) => Self::Opaque(name),
        }
    }
}
