//! Messages from a node to its observers.

pub(crate) mod causes;
pub(crate) mod inspection;
pub(crate) mod trace;
pub(crate) mod waits;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    Causes, Cell, Cluster, Cpu, Engines, Events, Frame, History, Inspection, ReportPart, ResourceProfileMeta, Results,
    Rows, ScenarioMeta, Schedulers, Serve, Stores, Time, Topics, Trace, TreeRows, Waits,
};

/// A message from a node to an observer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage {
    /// The first message of a connection; sent again whenever its content has changed.
    Hello(Box<Hello>),
    /// The state of the node at one instant.
    Tick {
        /// State of the node, of a size that does not grow with the number of processes.
        frame: Box<Frame>,
    },
    /// The page that this client's view requested.
    Rows(Rows),
    /// The window of the supervision tree that this client's view requested.
    Tree(TreeRows),
    /// State of the node's engines, for a client that requested it by a view.
    Engines(Engines),
    /// State of the node's tickers and streams, for a client that requested it by a view.
    Time(Time),
    /// State of the node's stores, for a client that requested it by a view.
    Stores(Stores),
    /// The window of the node's topics that this client's view requested.
    Topics(Topics),
    /// CPU time of the node, for a client that requested it by a view.
    Cpu(Cpu),
    /// The window of the node's schedulers that this client's view requested.
    Schedulers(Schedulers),
    /// State of the node's servers, for a client that requested it by a view.
    Serve(Box<Serve>),
    /// State of the cluster, for a client that requested it by a view.
    Cluster(Box<Cluster>),
    /// The result that this client's view requested, and a page of the history.
    Results(Box<Results>),
    /// A part of the report that this client requested.
    Report(ReportPart),
    /// The window of the list of waits that this client's view requested.
    Waits(Waits),
    /// State and new events of the trace that this client requested.
    Trace(Trace),
    /// The process that this client requested in full.
    Process {
        /// The process; `null` once it has ended.
        process: Option<Box<ProcessDetail>>,
        /// Pid that was requested.
        pid: String,
    },
    /// The process that this client requested in depth.
    Inspection(Box<Inspection>),
    /// The window of the causes of failures that this client's view requested.
    Causes(Causes),
    /// The newest events, for a client that requested them.
    Events(Events),
    /// A recorded instant, for a client that requested it.
    Past(Past),
    /// Figures of the last minutes, for a client that requested them.
    History(History),
    /// A command was executed.
    Ack {
        /// Id of the command.
        id: u64,
    },
    /// A `kill_all` was executed.
    Killed {
        /// Id of the command.
        id: u64,
        /// Number of processes that were sent the exit reason.
        processes: u64,
        /// Number of processes that the last pass still found: they start faster than they can be ended.
        left: u64,
    },
    /// A message could not be understood or executed; the connection stays open unless it is closed right afterwards.
    Error {
        /// The problem and its remedy, in one line.
        message: String,
        /// Class of the error.
        #[serde(default)]
        code: ErrorCode,
        /// Id of the command that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
}

/// The class of an error, for programs; the text is for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The message was not valid JSON, had an unknown type, or had an invalid field.
    Malformed,
    /// The node does not have the given id, name or pid.
    Unknown,
    /// A value is outside its range.
    OutOfRange,
    /// The connection has the observe role, and the command needs the control role.
    Forbidden,
    /// Too many commands per second; the command was not executed.
    RateLimited,
    /// The node could not execute the command.
    Failed,
    /// None of the classes above, or a class that this reader does not know.
    #[default]
    #[serde(other)]
    Other,
}

/// The role of a connection: what it may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May observe.
    #[default]
    Observe,
    /// May observe, run scenarios and end processes.
    Control,
}

/// Describes the node and the scenarios that it can run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Scenarios of this node; empty for an application without scenarios.
    pub scenarios: Vec<ScenarioMeta>,
    /// Resource profiles of this node.
    pub profiles: Vec<ResourceProfileMeta>,
    /// Number of instances that fit into the engines that have run anything yet; 0 without engines.
    #[serde(default)]
    pub instance_capacity: u32,
    /// Version of the protocol, see [`PROTOCOL_VERSION`](crate::PROTOCOL_VERSION).
    #[serde(default)]
    pub protocol_version: u32,
    /// Role of this connection.
    #[serde(default)]
    pub role: Role,
    /// Description of the node.
    #[serde(default)]
    pub node: NodeInfo,
}

/// The node at the other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// Name of the node.
    pub name: String,
    /// Version of rusm.
    pub version: String,
    /// Process id in the operating system.
    pub os_pid: u32,
    /// Time when the node's console began to serve, in milliseconds since 1970; 0 from nodes that do not report it.
    /// Together with the process id it distinguishes a node from its predecessor: in a container both may have the same
    /// process id.
    pub started_unix_ms: u64,
    /// Number of cores that this node may use.
    pub cores: u32,
    /// Number of scheduler threads.
    pub schedulers: u32,
    /// Maximum number of live processes.
    pub process_limit: u64,
    /// Features compiled in, for example `console` or `wasm`.
    pub features: Vec<String>,
    /// `release` or `debug`; figures of a debug build are not meaningful.
    pub build: String,
}

/// Processes that a process is linked to, monitors, or is monitored by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bonds {
    /// Number of these processes.
    pub count: u64,
    /// Pids of up to 16 of them.
    pub pids: Vec<String>,
}

/// One process in full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessDetail {
    /// Pid of the process: `<node.slot.generation>`.
    pub pid: String,
    /// Registered name.
    pub name: Option<String>,
    /// Label that the process has given itself.
    pub label: Option<String>,
    /// `running`, `runnable`, `waiting`, `sleeping`, `io` or `exiting`.
    pub state: String,
    /// True if a poll has not returned for longer than the node's threshold.
    pub stuck: bool,
    /// `native` or `wasm`.
    pub kind: String,
    /// Process that spawned it.
    pub parent: Option<String>,
    /// Time since it was spawned, in milliseconds.
    pub age_ms: u64,
    /// Number of polls and messages handled since it was spawned.
    pub reductions: u64,
    /// Polls and messages handled per second; absent until the node has sampled the process twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reds_per_sec: Option<f64>,
    /// Time inside polls since it was spawned, in nanoseconds.
    pub busy_ns: u64,
    /// Share of one core, 0–100; absent until the node has sampled the process twice. The rates of a process younger than
    /// a second cover its whole life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_pct: Option<f64>,
    /// Number of messages waiting in the mailbox.
    pub mailbox_len: u64,
    /// Number of messages that the mailbox can hold.
    pub mailbox_capacity: u64,
    /// Number of messages received since it was spawned.
    pub messages: u64,
    /// Messages received per second; absent until the node has sampled the process twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msgs_per_sec: Option<f64>,
    /// Size of control block, future and mailbox, in bytes.
    pub memory_bytes: u64,
    /// Part of `memory_bytes` in the control block.
    pub control_block_bytes: u64,
    /// Part of `memory_bytes` in a future that is too large for the control block.
    pub future_bytes: u64,
    /// Part of `memory_bytes` in the mailbox.
    pub mailbox_bytes: u64,
    /// Rust type of the future that runs.
    pub future_type: String,
    /// True if the process receives exit signals as messages.
    pub traps_exits: bool,
    /// Processes that it is linked to.
    pub links: Bonds,
    /// Processes that it monitors.
    pub monitors: Bonds,
    /// Processes that monitor it.
    pub monitored_by: Bonds,
    /// Source of its body, for example the name of a module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Further facts that its body reports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<FactInfo>,
}

/// A fact that the body of a process reports about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactInfo {
    /// Name of the fact; the unit comes last, as in `linear_memory_bytes`.
    pub name: String,
    /// A count or a text.
    pub value: Cell,
}

/// A recorded instant of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Past {
    /// Id of the request.
    pub id: u32,
    /// Uptime of the node at this instant, in milliseconds.
    pub at_ms: u64,
    /// Uptime of the node at the oldest recorded instant, in milliseconds.
    pub oldest_ms: u64,
    /// Uptime of the node at the newest recorded instant, in milliseconds.
    pub newest_ms: u64,
    /// The messages of this instant, at most one of each type. Their ids are 0, and `rows` has the first processes by
    /// several orders, in all columns. Messages that this reader does not know are left out.
    #[serde(deserialize_with = "known")]
    pub messages: Vec<ServerMessage>,
    /// Memory of the recorder, in bytes.
    pub memory_bytes: u64,
    /// CPU time of recording this node over the last seconds, in per cent of one core.
    pub cost_pct: f64,
    /// Reason why messages of the instant are missing, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// Decodes the messages of a list, without those of a newer version.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ServerMessage>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Item {
        Known(ServerMessage),
        Unknown(IgnoredAny),
    }
    let items = Vec::<Item>::deserialize(deserializer)?;
    let known = |item| match item {
        Item::Known(message) => Some(message),
        Item::Unknown(_) => None,
    };
    Ok(items.into_iter().filter_map(known).collect())
}

#[cfg(test)]
mod tests {
    use crate::{ServerMessage, decode_server};

    #[test]
    fn messages_of_a_newer_version_are_left_out_of_an_instant() {
        let text =
            r#"{"type":"past","id":3,"at_ms":9,"messages":[{"type":"weather","sun":true},{"type":"ack","id":1},7]}"#;

        let Ok(ServerMessage::Past(past)) = decode_server(text) else { panic!("no instant") };

        assert_eq!((past.id, past.at_ms), (3, 9));
        assert_eq!(past.messages, [ServerMessage::Ack { id: 1 }]);
    }
}
