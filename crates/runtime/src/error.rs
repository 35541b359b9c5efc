//! Why something could not be done, and what was not consumed.

use thiserror::Error;

use crate::message::Message;
use crate::pid::Pid;
use crate::post::Posted;
use crate::runtime::Shared;

/// Why no process was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SpawnError {
    /// Wait until some have ended, or start the runtime with a higher limit.
    #[error("process limit of {limit} reached")]
    Limit {
        /// Processes that may live at once.
        limit: usize,
    },
    /// Count from 0, or start the runtime with more schedulers.
    #[error("no scheduler {scheduler}: there are {schedulers}, counted from 0")]
    NoScheduler {
        /// The number asked for.
        scheduler: usize,
        /// Schedulers of the runtime.
        schedulers: usize,
    },
    /// The runtime shuts down and takes no new processes from outside.
    #[error("the runtime is shutting down")]
    ShuttingDown,
}

/// Why a message was not sent; it is handed back.
#[derive(Debug, Error)]
pub enum TrySendError {
    /// The receiver is slower than its senders: wait with `send`, or drop the message and count it.
    #[error("mailbox of {to} is full ({capacity} messages)")]
    Full {
        /// The message.
        message: Message,
        /// The receiver.
        to: Pid,
        /// Messages that fit.
        capacity: u32,
    },
    /// There is no such process (any more).
    #[error("no process {to}")]
    NoProcess {
        /// The message.
        message: Message,
        /// The pid asked for.
        to: Pid,
    },
}

impl TrySendError {
    #[inline]
    pub(crate) fn of(posted: Posted, shared: &Shared, to: Pid) -> Result<(), Self> {
        match posted {
            Posted::Sent => Ok(()),
            Posted::Full(letter) => {
                Err(Self::Full { message: letter.into_message(), to, capacity: shared.config.mailbox_capacity })
            }
            Posted::NoProcess(letter) => Err(Self::NoProcess { message: letter.into_message(), to }),
        }
    }

    /// The message that was not sent.
    pub fn into_message(self) -> Message {
        match self {
            Self::Full { message, .. } | Self::NoProcess { message, .. } => message,
        }
    }
}
