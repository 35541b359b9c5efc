//! Recent events of a node, and the newest lines of its log.

use serde::{Deserialize, Serialize};

/// A client's request for events. Replaces the client's earlier request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsRequest {
    /// True to receive events, up to four times a second, when there are new ones.
    pub enabled: bool,
    /// Number of past events and log lines in the first answer, at most [`BACKLOG_MAX`](crate::BACKLOG_MAX); absent for
    /// the usual 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
    /// Number of an event that is sent in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<u64>,
    /// True to receive the newest lines of the node's log too. Needs the control role.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
}

/// The newest events of a node, oldest first. Each message holds the whole list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    /// Up to 64 events, or as many as the backlog that the client requested.
    pub events: Vec<EventInfo>,
    /// Number of events recorded since the node started.
    pub noted: u64,
    /// Number of events dropped because too many came at once.
    pub dropped: u64,
    /// The event that the client requested in full; absent if the node does not keep it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened: Option<Box<EventDetail>>,
    /// The newest lines of the node's log, oldest first, if the client requested them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// Number of lines that the node has kept since it started; the client missed those between two messages.
    #[serde(skip_serializing_if = "is_zero")]
    pub log_noted: u64,
    /// Reason why the client gets no log lines although it requested them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_refusal: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventInfo {
    /// Number of the event, counted from 1.
    pub seq: u64,
    /// Time of the event, in milliseconds since the node started.
    pub at_ms: u64,
    /// `crash`, `killed`, `link`, `restart`, `restart_failed`, `gave_up`, `child_lost`, `stuck`, `refused`, or a kind
    /// added by a newer node.
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

/// One event in full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventDetail {
    /// The event; its reason is up to 4 KiB long.
    pub event: EventInfo,
    /// Module of the guest that trapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Functions of the guest that trapped, innermost first; empty for native processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<String>,
}

/// One line of a node's log: of the node itself, or output of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogLine {
    /// Number of the line, counted from 1.
    pub seq: u64,
    /// Time of the line, in milliseconds since the node started.
    pub at_ms: u64,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    /// Part of the program that wrote the line; `rusm::guest` for output of guests.
    pub target: String,
    /// Process that wrote the line, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// Module of that process, for a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The text, with its fields, up to 400 bytes.
    pub text: String,
}
