//! Traces on the wire: what chosen processes send, receive and do, for some seconds.

use serde::{Deserialize, Serialize};

/// A request to trace processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// `<node.slot.generation>`.
    pub pid: String,
    /// Processes to trace.
    #[serde(default)]
    pub scope: TraceScope,
    /// Maximum number of events per second, 1 to [`TRACE_PER_SEC_MAX`](crate::TRACE_PER_SEC_MAX), which is the default.
    #[serde(default = "default_per_sec")]
    pub per_sec: u32,
    /// Duration in seconds, 1 to [`TRACE_SECONDS_MAX`](crate::TRACE_SECONDS_MAX), which is the default.
    #[serde(default = "default_seconds")]
    pub seconds: u32,
}

const fn default_per_sec() -> u32 {
    crate::TRACE_PER_SEC_MAX
}

const fn default_seconds() -> u32 {
    crate::TRACE_SECONDS_MAX
}

/// The processes that a trace follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceScope {
    /// The process alone.
    #[default]
    Process,
    /// All processes with the same type of future, up to 1,000.
    Kind,
    /// The process, and the processes that it has spawned, up to 1,000.
    Children,
}

/// The state of a trace, and its events since the previous message.
///
/// The first message carries the state before the first event. A client appends the events; their numbers have no gap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// Pid that was requested.
    pub pid: String,
    /// Scope that was requested.
    pub scope: TraceScope,
    /// Uptime of the node when this was sent, in milliseconds.
    pub at_ms: u64,
    /// Number of processes that are traced.
    pub processes: u64,
    /// Maximum number of events per second.
    pub per_sec: u32,
    /// Time left until the trace ends, in milliseconds.
    pub left_ms: u64,
    /// Reason why the trace has ended: `time`, `stopped`, `replaced` by another observer's, or a reason added by a newer
    /// node; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Number of events recorded.
    pub recorded: u64,
    /// Number of events left out because there were too many in their second.
    pub left_out: u64,
    /// Up to 400 events, oldest first.
    pub events: Vec<TraceEvent>,
}

/// One event of a trace. Values of messages are never part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceEvent {
    /// Number of the event in its trace, counted from 1.
    pub seq: u64,
    /// Time of the event, in microseconds since the node started.
    pub at_us: u64,
    /// Traced process.
    pub pid: String,
    /// `send`; `full`, a send that found the mailbox full; `arrive` at the mailbox; `receive` out of it; `poll`; or a
    /// kind added by a newer node.
    pub kind: String,
    /// Receiver of a `send`; sender of the message in the other kinds, if the trace knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Rust type of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Size of the message on the heap, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Duration of a `poll`, in microseconds; its time is the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_us: Option<f64>,
    /// State of the process after a `poll`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}
