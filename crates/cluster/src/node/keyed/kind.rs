//! State that all parts of a kind of keyed processes share.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use rusm_runtime::{Context, ExitReason, Pid};

use crate::identity::NodeName;
use crate::placement::Placement;

/// Prefix of the groups of hosts.
pub(super) const GROUP: &str = "~keyed/";
/// Maximum length of a key, in bytes.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Message to a keyed process: it should store what it needs and end. All messages before this one are in its mailbox
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deactivate;

/// Settings of a kind of keyed processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedConfig {
    /// Time without a message after which a process gets [`Deactivate`]. Default 60 s.
    pub idle: Duration,
    /// Maximum number of live keys on this node. Default 1,000,000.
    pub keys_max: usize,
}

impl Default for KeyedConfig {
    fn default() -> Self {
        Self { idle: Duration::from_mins(1), keys_max: 1_000_000 }
    }
}

/// Future of a keyed process.
pub(super) type Body = Pin<Box<dyn Future<Output = ExitReason> + Send>>;
pub(super) type Start = dyn Fn(Context, String) -> Body + Send + Sync;

/// Hosts of a kind by their node, and what is known of keys.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    pub(super) placement: Placement,
    pub(super) pids: HashMap<NodeName, Pid>,
    /// Pids of keys that were resolved, except for those on nodes that are gone.
    pub(super) known: HashMap<String, Pid>,
}
