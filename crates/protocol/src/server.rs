//! What a node says to its observers.

use serde::{Deserialize, Serialize};

use crate::{Cell, Engines, Events, Frame, ResourceProfileMeta, Rows, ScenarioMeta, Stores, Time, Topics, TreeRows};

/// A message from a node to an observer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage {
    /// The first message of a connection, and again whenever what it says has changed.
    Hello(Box<Hello>),
    /// The state of the node at one instant.
    Tick {
        /// Everything that does not grow with the number of processes.
        frame: Box<Frame>,
    },
    /// The page that this client's view asked for.
    Rows(Rows),
    /// The window of the tree of supervisors that this client's view asked for.
    Tree(TreeRows),
    /// How the node's engines do, for a client whose view asked for it.
    Engines(Engines),
    /// The node's tickers and streams, for a client whose view asked for them.
    Time(Time),
    /// How the node's stores do, for a client whose view asked for it.
    Stores(Stores),
    /// The window of the node's topics that this client's view asked for.
    Topics(Topics),
    /// The process that this client asked to see in full.
    Process {
        /// `null` once the process is gone.
        process: Option<Box<ProcessDetail>>,
        /// The pid asked for.
        pid: String,
    },
    /// The newest events, for a client that asked for them.
    Events(Events),
    /// A command was carried out.
    Ack {
        /// The command's id.
        id: u64,
    },
    /// A `kill_all` was carried out.
    Killed {
        /// The command's id.
        id: u64,
        /// Processes that were ended.
        processes: u64,
        /// Processes that the filter let through at the last look: they started faster than they could be ended.
        left: u64,
    },
    /// A message could not be understood or carried out; the connection goes on unless it is closed right after.
    Error {
        /// What was wrong and what to do, in one line.
        message: String,
        /// The class of the error.
        #[serde(default)]
        code: ErrorCode,
        /// The id of the command that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
}

/// The class of an error, for programs; the text is for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The message was no valid JSON, of no known type, or had a wrong field.
    Malformed,
    /// An id, a name or a pid that the node does not have.
    Unknown,
    /// The value is outside its range.
    OutOfRange,
    /// The connection has the observe role and the command needs control.
    Forbidden,
    /// Too many commands a second; the command was not carried out.
    RateLimited,
    /// The node could not do it.
    Failed,
    /// Not one of the classes above, or one that this reader does not know.
    #[default]
    #[serde(other)]
    Other,
}

/// What a connection may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    #[default]
    Observe,
    /// Look, run scenarios, end processes.
    Control,
}

/// Who the node is and what it can run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The scenarios of this node; empty for an application that brings none.
    pub scenarios: Vec<ScenarioMeta>,
    /// The resource profiles.
    pub profiles: Vec<ResourceProfileMeta>,
    /// Instances that fit into the engines that have run something so far; 0 without any.
    #[serde(default)]
    pub instance_capacity: u32,
    /// See [`PROTOCOL_VERSION`](crate::PROTOCOL_VERSION).
    #[serde(default)]
    pub protocol_version: u32,
    /// What this connection may do.
    #[serde(default)]
    pub role: Role,
    /// The node itself.
    #[serde(default)]
    pub node: NodeInfo,
}

/// The node that a connection leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// The node's name.
    pub name: String,
    /// The version of rusm.
    pub version: String,
    /// The operating system's process id.
    pub os_pid: u32,
    /// When the node's console began to serve, in milliseconds since 1970; 0 from nodes that do not say. The process id
    /// alone does not tell a node from the one before: in a container both have the same.
    pub started_unix_ms: u64,
    /// Cores this node may use.
    pub cores: u32,
    /// Scheduler threads.
    pub schedulers: u32,
    /// Processes that may live at once.
    pub process_limit: u64,
    /// Rooms compiled in, such as `console` or `wasm`.
    pub features: Vec<String>,
    /// `release` or `debug`: a debug build's figures are not worth reading.
    pub build: String,
}

/// Processes that another is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bonds {
    /// How many there are.
    pub count: u64,
    /// Up to 16 of them.
    pub pids: Vec<String>,
}

/// One process in full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessDetail {
    /// `<node.slot.generation>`.
    pub pid: String,
    /// The registered name.
    pub name: Option<String>,
    /// What the process calls itself.
    pub label: Option<String>,
    /// `running`, `runnable`, `waiting`, `sleeping`, `io`, `exiting`.
    pub state: String,
    /// A poll that has not returned for longer than the node's threshold.
    pub stuck: bool,
    /// `native` or `wasm`.
    pub kind: String,
    /// The process that spawned it.
    pub parent: Option<String>,
    /// Milliseconds since it was spawned.
    pub age_ms: u64,
    /// Polls and messages handled since it was spawned.
    pub reductions: u64,
    /// The same, a second; absent until the node has looked twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reds_per_sec: Option<f64>,
    /// Nanoseconds inside polls since it was spawned.
    pub busy_ns: u64,
    /// Share of one scheduler, 0–100; absent until the node has looked twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_pct: Option<f64>,
    /// Messages waiting.
    pub mailbox_len: u64,
    /// Messages that fit.
    pub mailbox_capacity: u64,
    /// Messages received since it was spawned.
    pub messages: u64,
    /// The same, a second; absent until the node has looked twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msgs_per_sec: Option<f64>,
    /// Control block, future and mailbox.
    pub memory_bytes: u64,
    /// The control block's share of it.
    pub control_block_bytes: u64,
    /// The share of a future too large for the control block.
    pub future_bytes: u64,
    /// The mailbox's share of it.
    pub mailbox_bytes: u64,
    /// The Rust type of the future that runs.
    pub future_type: String,
    /// Exit signals come to it as messages.
    pub traps_exits: bool,
    /// Its links.
    pub links: Bonds,
    /// Its monitors on others.
    pub monitors: Bonds,
    /// Monitors of others on it.
    pub monitored_by: Bonds,
    /// What its body was made from, such as the name of a module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// What its body tells beyond that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<FactInfo>,
}

/// Something that the body of a process tells about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactInfo {
    /// What; the unit comes last, as in `linear_memory_bytes`.
    pub name: String,
    /// A count or a text.
    pub value: Cell,
}
