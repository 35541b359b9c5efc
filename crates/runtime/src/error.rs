//! Why something could not be done, and what was not consumed.

use std::fmt;
use std::sync::atomic::Ordering;

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

/// The bound that a full mailbox has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxBound {
    /// So many messages are in it.
    Messages(u32),
    /// Bytes that its messages may keep on the heap.
    Bytes(u32),
    /// Bytes that the messages of all mailboxes may keep on the heap; this mailbox is not empty.
    Total(u64),
}

impl fmt::Display for MailboxBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(messages) => write!(f, "{messages} messages"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Self::Total(bytes) => write!(f, "all mailboxes hold {bytes} bytes, the most for this runtime"),
        }
    }
}

impl MailboxBound {
    #[cold]
    fn of(shared: &Shared, to: Pid) -> Self {
        let Some(slot) = shared.slab.slot(to) else { return Self::Messages(0) };
        let (cell, config) = (slot.cell(), &shared.config);
        let capacity = cell.capacity.load(Ordering::Relaxed);
        if cell.mailbox_len() >= u64::from(capacity) {
            Self::Messages(capacity)
        } else if cell.mail_bytes.load(Ordering::Relaxed) > config.mailbox_bytes {
            Self::Bytes(config.mailbox_bytes)
        } else if shared.mailboxes.is_full() {
            Self::Total(config.mailbox_total_bytes)
        } else {
            // Others wait for room, which comes when half of the mailbox is free.
            Self::Messages(capacity)
        }
    }
}

/// Why a message was not sent; it is handed back.
#[derive(Debug, Error)]
pub enum TrySendError {
    /// The receiver is slower than its senders: wait with `send`, or drop the message and count it.
    #[error("mailbox of {to} is full ({bound})")]
    Full {
        /// The message.
        message: Message,
        /// The receiver.
        to: Pid,
        /// The bound that is reached.
        bound: MailboxBound,
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
                Err(Self::Full { message: letter.into_message(), to, bound: MailboxBound::of(shared, to) })
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
