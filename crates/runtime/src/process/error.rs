//! Errors of spawning and of sending; a send error returns the message.

use std::fmt;
use std::sync::atomic::Ordering;

use thiserror::Error;

use crate::mailbox::message::Message;
use crate::mailbox::send::SendOutcome;
use crate::process::pid::Pid;
use crate::runtime::shared::RuntimeShared;

/// Error returned when a process cannot be spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SpawnError {
    /// The process limit is reached. Wait until processes have ended, or start the runtime with a higher limit.
    #[error("process limit of {limit} reached")]
    Limit {
        /// Maximum number of live processes.
        limit: usize,
    },
    /// The scheduler does not exist. Count from 0, or start the runtime with more schedulers.
    #[error("scheduler {scheduler} does not exist: there are {schedulers}, counted from 0")]
    NoScheduler {
        /// Requested number.
        scheduler: usize,
        /// Number of schedulers of the runtime.
        schedulers: usize,
    },
    /// The runtime is shutting down and accepts no new processes from outside.
    #[error("the runtime is shutting down")]
    ShuttingDown,
}

/// Limit that a full mailbox has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxBound {
    /// Maximum number of messages in this mailbox.
    Messages(u32),
    /// Maximum heap bytes of the messages in this mailbox.
    Bytes(u32),
    /// Maximum heap bytes of the messages in all mailboxes; this mailbox is not empty.
    Total(u64),
}

impl fmt::Display for MailboxBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(messages) => write!(f, "{messages} messages"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Self::Total(bytes) => write!(f, "all mailboxes together hold {bytes} bytes, the limit of this runtime"),
        }
    }
}

impl MailboxBound {
    #[cold]
    fn of(shared: &RuntimeShared, to: Pid) -> Self {
        let Some(slot) = shared.table.slot(to) else { return Self::Messages(0) };
        let (header, config) = (slot.header(), &shared.config);
        let capacity = header.capacity.load(Ordering::Relaxed);
        if header.mailbox_len() >= u64::from(capacity) {
            Self::Messages(capacity)
        } else if header.mail_bytes.load(Ordering::Relaxed) > config.mailbox_bytes {
            Self::Bytes(config.mailbox_bytes)
        } else if shared.mailboxes.is_full() {
            Self::Total(config.mailbox_total_bytes)
        } else {
            // Other senders wait for room. They are woken when half of the mailbox is free, and must not be overtaken.
            Self::Messages(capacity)
        }
    }
}

/// Error returned when a message cannot be sent; contains the message.
#[derive(Debug, Error)]
pub enum TrySendError {
    /// The mailbox is full: its process is slower than the senders. Wait with `send`, or drop the message and count it.
    #[error("mailbox of {to} is full ({bound})")]
    Full {
        /// Message that was not sent.
        message: Message,
        /// Pid of the receiver.
        to: Pid,
        /// Limit that the mailbox has reached.
        bound: MailboxBound,
    },
    /// The process does not exist or has ended.
    #[error("no process {to}")]
    NoProcess {
        /// Message that was not sent.
        message: Message,
        /// Pid of the receiver.
        to: Pid,
    },
}

impl TrySendError {
    #[inline]
    pub(crate) fn of(outcome: SendOutcome, shared: &RuntimeShared, to: Pid) -> Result<(), Self> {
        match outcome {
            SendOutcome::Sent => Ok(()),
            SendOutcome::Full(envelope) => {
                Err(Self::Full { message: envelope.into_message(), to, bound: MailboxBound::of(shared, to) })
            }
            SendOutcome::NoProcess(envelope) => Err(Self::NoProcess { message: envelope.into_message(), to }),
        }
    }

    /// Returns the message that was not sent.
    pub fn into_message(self) -> Message {
        match self {
            Self::Full { message, .. } | Self::NoProcess { message, .. } => message,
        }
    }
}
