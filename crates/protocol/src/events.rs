//! Recent events of a node.

use serde::{Deserialize, Serialize};

/// The newest events of a node, oldest first. Each message holds the whole list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    /// Up to 64 events.
    pub events: Vec<EventInfo>,
    /// Number of events recorded since the node started.
    pub noted: u64,
    /// Number of events dropped because too many came at once.
    pub dropped: u64,
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventInfo {
    /// Number of the event, counted from 1.
    pub seq: u64,
    /// Time of the event, in milliseconds since the node started.
    pub at_ms: u64,
    /// `crash`, `restart`, `restart_failed`, `gave_up`, `child_lost`, `stuck`, `refused`, or a kind added by a newer
    /// node.
    pub kind: String,
    /// Process that crashed, is stuck or was refused something; for events about children, their supervisor.
    pub pid: String,
    /// Name or label of the process, or the id of the supervisor's child.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Pid of the child that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Pid of the child that replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Reason for the event; for `refused`, the capability that the process lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
