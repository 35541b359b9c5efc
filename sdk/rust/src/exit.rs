//! Exit reasons and exit signals.

use std::fmt;

use crate::Pid;
use crate::bindings::rusm::runtime::types;

/// Reason why a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExitReason {
    /// The process returned.
    Normal,
    /// The process stopped on request.
    Shutdown,
    /// The process stopped on request, with a text about the cause.
    ShutdownWith(String),
    /// The process was killed.
    Killed,
    /// The process does not exist, or no longer does.
    NoProcess,
    /// The node of the process cannot be reached.
    NoConnection,
    /// A native process panicked; the text holds the message and the source location.
    Panic(String),
    /// Another reason: an error that the process returned, a trap, or a limit.
    Other(String),
}

impl ExitReason {
    /// Returns true if the end was planned: a supervisor does not restart a transient child after it.
    pub fn is_normal(&self) -> bool {
        matches!(self, Self::Normal | Self::Shutdown | Self::ShutdownWith(_))
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("normal"),
            Self::Shutdown => f.write_str("shutdown"),
            Self::ShutdownWith(why) => write!(f, "shutdown: {why}"),
            Self::Killed => f.write_str("killed"),
            Self::NoProcess => f.write_str("no such process"),
            Self::NoConnection => f.write_str("no connection"),
            Self::Panic(what) => write!(f, "panic: {what}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// Exit signal: a linked process ended, or a process asked this one to exit. Delivered while exits are trapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Process that sent the signal.
    pub from: Pid,
    /// Reason of the signal.
    pub reason: ExitReason,
}

impl From<types::ExitReason> for ExitReason {
    fn from(reason: types::ExitReason) -> Self {
        match reason {
            types::ExitReason::Normal => Self::Normal,
            types::ExitReason::Shutdown => Self::Shutdown,
            types::ExitReason::ShutdownWith(why) => Self::ShutdownWith(why),
            types::ExitReason::Killed => Self::Killed,
            types::ExitReason::NoProcess => Self::NoProcess,
            types::ExitReason::NoConnection => Self::NoConnection,
            types::ExitReason::Panic(what) => Self::Panic(what),
            types::ExitReason::Other(what) => Self::Other(what),
        }
    }
}

impl From<ExitReason> for types::ExitReason {
    fn from(reason: ExitReason) -> Self {
        match reason {
            ExitReason::Normal => Self::Normal,
            ExitReason::Shutdown => Self::Shutdown,
            ExitReason::ShutdownWith(why) => Self::ShutdownWith(why),
            ExitReason::Killed => Self::Killed,
            ExitReason::NoProcess => Self::NoProcess,
            ExitReason::NoConnection => Self::NoConnection,
            ExitReason::Panic(what) => Self::Panic(what),
            ExitReason::Other(what) => Self::Other(what),
        }
    }
}

impl From<types::ExitSignal> for Exit {
    fn from(signal: types::ExitSignal) -> Self {
        Self { from: signal.from.into(), reason: signal.reason.into() }
    }
}
