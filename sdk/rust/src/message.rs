//! Sending and receiving messages, and calls.
//!
//! Messages arrive whole and in order. A selective receive takes the matching item and leaves the others in place.

use std::borrow::Cow;
use std::time::Duration;

use crate::bindings::rusm::runtime::{process, types};
use crate::{Down, Error, Exit, GroupChange, Pid, millis};

/// Tag that a sender sets on a message; `receive_tagged` selects by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u64);

impl Tag {
    /// Tag of a message without a tag.
    pub const NONE: Self = Self(0);
}

/// A message from another process.
#[derive(Debug)]
pub struct Message {
    /// Tag set by the sender.
    pub tag: Tag,
    /// Payload.
    pub body: Vec<u8>,
    reply_to: Option<types::ReplyRef>,
}

impl Message {
    /// Returns the body as text; bytes that are not valid UTF-8 become `�`.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Returns true if the sender waits in `call`.
    pub fn is_call(&self) -> bool {
        self.reply_to.is_some()
    }

    /// Answers the caller; returns false if no caller waits, or no longer waits. Only the first reply counts.
    pub fn reply(&self, body: impl AsRef<[u8]>) -> bool {
        self.reply_to.is_some_and(|caller| process::reply(caller, body.as_ref()))
    }
}

/// The next item in the mailbox.
#[derive(Debug)]
pub enum Received {
    /// A message.
    Message(Message),
    /// An exit signal; delivered only while exits are trapped.
    Exit(Exit),
    /// A monitored process ended.
    Down(Down),
    /// A monitored group changed.
    Group(GroupChange),
    /// A value that is not bytes, sent by a native process; the name of its type.
    Opaque(String),
}

/// Sends bytes, and waits while the receiver's mailbox is full. Does nothing if the process has ended.
///
/// # Errors
/// [`Error::Limit`] if the body exceeds the maximum size of a message.
pub fn send(to: Pid, body: impl AsRef<[u8]>) -> Result<(), Error> {
    send_tagged(to, Tag::NONE, body)
}

/// Like [`send`], with a tag.
///
/// # Errors
/// [`Error::Limit`] if the body exceeds the maximum size of a message.
pub fn send_tagged(to: Pid, tag: Tag, body: impl AsRef<[u8]>) -> Result<(), Error> {
    Ok(process::send(to.into(), tag.0, body.as_ref())?)
}

/// Sends bytes, or returns an error immediately if that is not possible.
///
/// # Errors
/// [`Error::MailboxFull`] or [`Error::NoProcess`]; [`Error::Limit`] if the body exceeds the maximum size of a message.
pub fn try_send(to: Pid, tag: Tag, body: impl AsRef<[u8]>) -> Result<(), Error> {
    Ok(process::try_send(to.into(), tag.0, body.as_ref())?)
}

/// Returns the oldest item in the mailbox. Waits without a limit.
pub fn receive() -> Received {
    loop {
        // Without a timeout the host always returns an item, which its return type cannot express.
        if let Some(received) = process::receive(None) {
            return received.into();
        }
    }
}

/// Returns the oldest item in the mailbox, or `None` after the timeout; zero does not wait.
pub fn receive_timeout(timeout: Duration) -> Option<Received> {
    process::receive(Some(millis(timeout))).map(Into::into)
}

/// Returns the oldest message with this tag. All other items stay in the mailbox, in their order.
pub fn receive_tagged(tag: Tag) -> Message {
    loop {
        if let Some(message) = process::receive_tagged(tag.0, None) {
            return message.into();
        }
    }
}

/// Like [`receive_tagged`], but returns `None` after the timeout; zero does not wait.
pub fn receive_tagged_timeout(tag: Tag, timeout: Duration) -> Option<Message> {
    process::receive_tagged(tag.0, Some(millis(timeout))).map(Into::into)
}

/// Sends a request and waits for its reply. A late reply is discarded, never taken for the reply to another request.
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
