//! Why a process ended.

use std::fmt;

use crate::Pid;
use crate::bindings::rusm::runtime::types;

/// Why a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExitReason {
    /// It returned.
    Normal,
    /// It was asked to stop, and did.
    Shutdown,
    /// The same, with a word about why.
    ShutdownWith(String),
    /// It was killed.
    Killed,
    /// There is no such process (any more).
    NoProcess,
    /// The node it lives on cannot be reached.
    NoConnection,
    /// A native process panicked; the message and the place.
    Panic(String),
    /// A reason of its own, an error that it returned, a trap or a limit.
    Other(String),
}

impl ExitReason {
    /// Whether it is an end as planned, after which a transient child stays down.
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

/// A linked process ended, or another sent an exit signal, while exits are trapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The process that the signal comes from.
    pub from: Pid,
    /// Why.
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
