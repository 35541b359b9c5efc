//! Settings and events of the registry.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::{NAME_MAX_BYTES, NameError};
use thiserror::Error;

use crate::identity::{Address, Identity, NodeName};

/// Maximum length of a name, in bytes.
pub const NAME_BYTES_MAX: usize = NAME_MAX_BYTES;
/// Maximum number of names that processes of one node have or ask for.
pub const NAMES_OF_NODE_MAX: usize = 65_536;

/// Settings of the registry. All nodes of a cluster need the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesConfig {
    /// Number of nodes of the cluster, of which more than half are a majority. `None` counts the nodes that this one has
    /// seen; two halves that have not seen each other may then own a name twice until they do.
    pub size: Option<usize>,
    /// Time for which an owner counts a grant after the last proof that its node is there. The patience of the session.
    pub patience: Duration,
    /// Time for which a node keeps a grant after it has lost the owner. It has to exceed the patience by more than clocks
    /// differ in speed.
    pub hold: Duration,
    /// Time after which a registration without a majority fails.
    pub timeout: Duration,
    /// Number that fencing epochs of this node exceed: its time of day at the start, in milliseconds since 1970.
    pub epoch_floor: u64,
}

impl NamesConfig {
    /// Creates the settings for sessions with this patience.
    pub fn new(patience: Duration, size: Option<usize>, epoch_floor: u64) -> Self {
        let hold = patience + patience / 8 + Duration::from_millis(100);
        Self { size, patience, hold, timeout: hold + patience, epoch_floor }
    }
}

/// The owner of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Life of the node.
    pub node: Identity,
    /// The process.
    pub process: Address,
    /// Grows with each owner of the name: a store that remembers the largest can refuse an earlier owner.
    pub epoch: u64,
}

/// Event of the registry, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameEvent {
    /// Send this payload to the registry of a node, with [`Kind::NAME`](crate::Kind::NAME).
    Send {
        /// The node.
        to: NodeName,
        /// The payload.
        payload: Bytes,
    },
    /// A process of this node owns the name.
    Registered {
        /// The name.
        name: Arc<str>,
        /// The process.
        process: Address,
        /// Fencing epoch.
        epoch: u64,
    },
    /// A registration has failed.
    Refused {
        /// The name.
        name: Arc<str>,
        /// The process.
        process: Address,
        /// Why.
        reason: RegisterRefused,
    },
    /// A process of this node may no longer act as the owner: its node has lost the majority.
    Suspended {
        /// The name.
        name: Arc<str>,
        /// The process.
        process: Address,
    },
    /// It owns the name again, perhaps with another epoch.
    Resumed {
        /// The name.
        name: Arc<str>,
        /// The process.
        process: Address,
        /// Fencing epoch.
        epoch: u64,
    },
    /// Another process owns the name of a process that was suspended.
    Lost {
        /// The name.
        name: Arc<str>,
        /// The process that has lost it.
        process: Address,
        /// The owner.
        owner: Owner,
    },
}

/// Error returned when a registration cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// The name has an owner.
    #[error("the name belongs to a process of {}", owner.node.name)]
    Taken {
        /// The owner.
        owner: Owner,
    },
    /// A process of this node has the name or asks for it.
    #[error("a process of this node has the name, or asks for it")]
    Pending,
    /// The node sees less than half of the cluster.
    #[error(transparent)]
    Minority(#[from] Minority),
    /// The name is empty or too long.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The node has too many names.
    #[error("the processes of a node have at most {NAMES_OF_NODE_MAX} names")]
    TooMany,
}

/// Why a registration failed after it had begun.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterRefused {
    /// The name has an owner.
    #[error("the name belongs to a process of {}", owner.node.name)]
    Taken {
        /// The owner.
        owner: Owner,
    },
    /// The nodes have not agreed in time.
    #[error("no majority of the nodes granted the name in time")]
    Timeout,
    /// The process ended, or gave the name up, before the nodes agreed.
    #[error("the process has ended or given the name up")]
    Withdrawn,
}

/// Error returned by a node that sees less than half of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this node sees {seen} of {size} nodes of the cluster, and names need more than half")]
pub struct Minority {
    /// Number of nodes that it sees, including itself.
    pub seen: usize,
    /// Number of nodes of the cluster.
    pub size: usize,
}
