//! Data of subscribers without acknowledgements: overflow policy, end and account.

use thiserror::Error;

/// Policy for a subscriber that is slower than the publishers.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::topic::{Message, Overflow};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let prices = runtime.topics().create("prices")?;
/// let mut newest = prices.subscribe(Overflow::DropOldest { capacity: 1 });
/// for price in ["9.80", "9.90", "10.10"] {
///     prices.blocking_publish(Message::new(price))?;
/// }
/// assert_eq!(newest.blocking_next()?.payload(), "10.10");
/// assert_eq!(newest.dropped(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// No message is lost: when the topic is full, publishers wait for this subscriber.
    #[default]
    Block,
    /// Keeps the newest `capacity` messages, and fewer when the topic is full; older ones are dropped.
    DropOldest {
        /// Number of messages, at least one.
        capacity: usize,
    },
    /// Queues at most `capacity` messages, bounded by the topic's limits on messages and bytes too. While the queue is
    /// full, new messages are dropped for this subscriber.
    ///
    /// Publishing clones the message's handle for each subscriber of this kind.
    DropNewest {
        /// Number of messages, at least one.
        capacity: usize,
    },
    /// Disconnects the subscriber once it is more than `capacity` messages behind, or when the topic is full.
    Disconnect {
        /// Number of messages, at least one.
        capacity: usize,
    },
}

impl Overflow {
    /// Raises a capacity of 0 to 1.
    pub(super) fn with_min_capacity(mut self) -> Self {
        match &mut self {
            Self::Block => {}
            Self::DropOldest { capacity } | Self::DropNewest { capacity } | Self::Disconnect { capacity } => {
                *capacity = (*capacity).max(1);
            }
        }
        self
    }
}

/// Error returned when there will be no more messages.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{Ended, Message, Overflow};
///
/// let prices = runtime.topics().create("prices")?;
/// let mut screen = prices.subscribe(Overflow::Block);
/// prices.blocking_publish(Message::new("9.80"))?;
/// prices.close();
/// // Messages from before the end are still read.
/// assert_eq!(screen.blocking_next()?.payload(), "9.80");
/// assert_eq!(screen.blocking_next().unwrap_err(), Ended::Closed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ended {
    /// The topic was closed, and all messages published before were read.
    #[error("the topic is closed")]
    Closed,
    /// The subscriber was too slow for [`Overflow::Disconnect`].
    #[error("the subscriber was too slow and was disconnected")]
    Disconnected,
    /// The subscription was deleted.
    #[error("the subscription was deleted")]
    Deleted,
}

/// Numbers of the messages published since a subscriber joined, by what happened to them.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{Message, Overflow};
///
/// let prices = runtime.topics().create("prices")?;
/// let mut screen = prices.subscribe(Overflow::DropOldest { capacity: 1 });
/// for price in ["9.80", "9.90", "10.10"] {
///     prices.blocking_publish(Message::new(price))?;
/// }
/// screen.blocking_next()?;
/// let account = screen.account();
/// assert_eq!((account.published, account.delivered, account.dropped), (3, 1, 2));
/// assert!(account.is_exact());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BroadcastAccount {
    /// Number of messages published since it joined.
    pub published: u64,
    /// Number of messages delivered to it.
    pub delivered: u64,
    /// Number of messages that it has yet to read.
    pub backlog: u64,
    /// Number of messages that it will never receive.
    pub dropped: u64,
}

impl BroadcastAccount {
    /// Returns true if every published message is accounted for.
    pub const fn is_exact(&self) -> bool {
        self.published == self.delivered + self.backlog + self.dropped
    }
}
