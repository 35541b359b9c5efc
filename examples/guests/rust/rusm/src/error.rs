//! Why something was not done.

use std::fmt;

use crate::ExitReason;
use crate::bindings::rusm::runtime::types;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// This process lacks the capability of this name; whoever starts it can grant it.
    Denied(String),
    /// There is no such process (any more).
    NoProcess,
    /// The receiver's mailbox has no room: try again later, or `send`, which waits.
    MailboxFull,
    /// No answer within the time given.
    TimedOut,
    /// The callee ended before it answered.
    CalleeExited(ExitReason),
    /// A name, group, module or timer that is not there; which.
    NoSuch(String),
    /// Already there; which.
    Taken(String),
    /// A limit of the node or of this process, with its number and the setting that moves it.
    Limit(String),
    /// An argument that makes no sense, and why.
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
