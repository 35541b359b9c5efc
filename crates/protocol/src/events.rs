//! What happened on a node lately.

use serde::{Deserialize, Serialize};

/// The newest events of a node, oldest first: the whole list each time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    /// Up to 64 events.
    pub events: Vec<EventInfo>,
    /// Events since the node started.
    pub noted: u64,
    /// Events that the node told nobody of, because there were too many at once.
    pub dropped: u64,
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventInfo {
    /// Counts the node's events, from 1.
    pub seq: u64,
    /// Milliseconds since the node started.
    pub at_ms: u64,
    /// `crash`, `restart`, `restart_failed`, `gave_up`, `child_lost`, `stuck`, `refused`, or what a newer node may add.
    pub kind: String,
    /// The process that crashed, is stuck or was refused something; the supervisor for all that is about its children.
    pub pid: String,
    /// What the process calls itself, or the id of the supervisor's child.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The child that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The child that took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Why; what a process lacks that was refused something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
