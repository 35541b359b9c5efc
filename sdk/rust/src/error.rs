//! Errors of calls into the node.

use std::fmt;

use crate::ExitReason;
use crate::bindings::rusm::runtime::types;

/// Error returned by a call into the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// This process lacks the capability with this name; the profile with which it is started can grant it.
    Denied(String),
    /// The process does not exist, or no longer does.
    NoProcess,
    /// The receiver's mailbox is full: try again later, or call `send`, which waits.
    MailboxFull,
    /// No reply arrived within the timeout.
    TimedOut,
    /// The callee ended before it replied.
    CalleeExited(ExitReason),
    /// A name, group, module, timer, topic or stream does not exist or has ended; the text says which.
    NoSuch(String),
    /// The name is taken; the text says by which process.
    Taken(String),
    /// A limit of the node or of this process is reached; the text gives its value and the setting that changes it.
    Limit(String),
    /// An argument is not valid; the text gives the reason.
    Invalid(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(capability) => write!(f, "denied: this process lacks the capability {capability}"),
            Self::NoProcess => f.write_str("no such process"),
            Self::MailboxFull => f.write_str("the receiver's mailbox is full"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::CalleeExited(reason) => write!(f, "the callee ended: {reason}"),
            Self::NoSuch(what) => write!(f, "no such: {what}"),
            Self::Taken(what) => write!(f, "taken: {what}"),
            Self::Limit(what) => write!(f, "limit: {what}"),
            Self::Invalid(why) => write!(f, "invalid: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<types::Error> for Error {
    fn from(error: types::Error) -> Self {
        match error {
            types::Error::Denied(capability) => Self::Denied(capability),
            types::Error::NoProcess => Self::NoProcess,
            types::Error::MailboxFull => Self::MailboxFull,
            types::Error::TimedOut => Self::TimedOut,
            types::Error::CalleeExited(reason) => Self::CalleeExited(reason.into()),
            types::Error::NoSuch(what) => Self::NoSuch(what),
            types::Error::Taken(what) => Self::Taken(what),
            types::Error::Limit(what) => Self::Limit(what),
            types::Error::Invalid(why) => Self::Invalid(why),
        }
    }
}
