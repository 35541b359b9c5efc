//! Errors of spawning, starting and sending; a send error returns the message.

use std::fmt;

use thiserror::Error;

use crate::mailbox::message::Message;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;

/// Error returned when a process cannot be spawned.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Runtime, SpawnError};
///
/// let runtime = Runtime::start(Config { process_limit: 1, ..Config::default() })?;
/// runtime.spawn(|_| std::future::pending::<()>())?;
///
/// let error = runtime.spawn(|_| async {}).unwrap_err();
///
/// assert_eq!(error, SpawnError::Limit { limit: 1 });
/// assert_eq!(error.to_string(), "process limit of 1 reached");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// Error returned when a process did not start.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::actor::Actor;
/// use rusm::{Config, Context, ExitReason, InitError, Runtime};
///
/// struct Picky;
///
/// impl Actor for Picky {
///     type Args = u32;
///     type Message = ();
///     type Ref = rusm::actor::Address<()>;
///
///     async fn init(_: &Context, number: u32) -> Result<Self, ExitReason> {
///         if number > 9 { Ok(Self) } else { Err(ExitReason::other("too small")) }
///     }
///
///     async fn handle(&mut self, _: &Context, (): ()) -> rusm::actor::Flow {
///         rusm::actor::Flow::Continue
///     }
/// }
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let error = Picky::start_link(&ctx, 1).await.unwrap_err();
///     assert_eq!(error, InitError::Ended(ExitReason::other("too small")));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InitError {
    /// The process could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The process ended before it had started.
    #[error("ended during its start: {0}")]
    Ended(ExitReason),
}

impl InitError {
    /// Creates the error of a start that failed before a process existed.
    pub fn failed(error: &impl fmt::Display) -> Self {
        Self::Ended(ExitReason::other(error))
    }
}

/// Limit that a full mailbox has reached.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, MailboxBound, Runtime, TrySendError};
///
/// let runtime = Runtime::start(Config { mailbox_capacity: 2, ..Config::default() })?;
/// let busy = runtime.spawn(|_ctx| std::future::pending::<()>())?;
/// runtime.try_send(busy, 1_u8).and(runtime.try_send(busy, 2_u8)).expect("there is room for two");
/// let full = runtime.try_send(busy, 3_u8).expect_err("a third one");
/// assert!(matches!(full, TrySendError::Full { bound: MailboxBound::Messages(2), .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxBound {
    /// Maximum number of messages in this mailbox.
    Messages(u32),
    /// Maximum heap bytes of the messages in this mailbox.
    Bytes(u32),
    /// Maximum heap bytes of the messages in all mailboxes; this mailbox is not empty.
    Total(u64),
    /// Messages on the way to a process of another node, or waiting there.
    Node,
}

impl fmt::Display for MailboxBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(messages) => write!(f, "{messages} messages"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Self::Node => f.write_str("its node accepts no more messages for it now"),
            Self::Total(bytes) => write!(f, "all mailboxes together hold {bytes} bytes, the limit of this runtime"),
        }
    }
}

/// Error returned when a message cannot be sent; contains the message.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::TrySendError;
///
/// let ended = runtime.spawn(|_| async {})?;
/// runtime.wait(ended);
/// let Err(error) = runtime.try_send(ended, "too late") else { panic!("it has ended") };
/// assert!(matches!(error, TrySendError::NoProcess { .. }));
/// assert_eq!(error.into_message().downcast::<&str>().ok(), Some("too late"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// The node of the process cannot be reached.
    #[error("no connection to the node of {to}")]
    NoConnection {
        /// Message that was not sent.
        message: Message,
        /// Pid of the receiver.
        to: Pid,
    },
    /// The process is on another node, and the type of the message is not exported by both nodes; see
    /// [`Exports`](crate::remote::Exports).
    #[error("a {} cannot be sent to {to} on another node: export the type on both nodes", .message.type_name())]
    NotPortable {
        /// Message that was not sent.
        message: Message,
        /// Pid of the receiver.
        to: Pid,
    },
    /// The process is on another node, and the message is longer than the network accepts.
    #[error("a message to {to} on another node may have {bytes_max} bytes")]
    TooLarge {
        /// Message that was not sent.
        message: Message,
        /// Pid of the receiver.
        to: Pid,
        /// Maximum length of an encoded message, in bytes.
        bytes_max: usize,
    },
}

impl TrySendError {
    /// Returns the message that was not sent.
    pub fn into_message(self) -> Message {
        match self {
            Self::Full { message, .. }
            | Self::NoProcess { message, .. }
            | Self::NoConnection { message, .. }
            | Self::NotPortable { message, .. }
            | Self::TooLarge { message, .. } => message,
        }
    }
}
