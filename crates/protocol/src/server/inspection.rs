//! One process in depth: what it waits for, its mailbox, its delays, its relations, its supervisor, and its end.

use serde::{Deserialize, Serialize};

use crate::{DelaysInfo, TreeBranch, TreeEnd, ViewWindow};

/// A client's view of one process in depth. The process is watched as long as a client requests it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InspectView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// `<node.slot.generation>`.
    pub pid: String,
    /// Relation that is sent by page: `links`, `monitors`, `monitored_by` or `children`; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<BondView>,
    /// True to receive the effect of its end on others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reach: bool,
    /// True to receive the values of the first messages besides their types. Needs the control role.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub values: bool,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_inspect_hz")]
    pub hz: f64,
}

const fn default_inspect_hz() -> f64 {
    4.0
}

impl Default for InspectView {
    fn default() -> Self {
        Self { id: 0, pid: String::new(), page: None, reach: false, values: false, hz: default_inspect_hz() }
    }
}

/// A page of the relations of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BondView {
    /// `links`, `monitors`, `monitored_by` or `children`.
    pub bond: String,
    /// Range of the related processes.
    #[serde(default)]
    pub window: ViewWindow,
}

/// One process in depth. Parts that the node does not know are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inspection {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this answer, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Pid of the process.
    pub pid: String,
    /// True while the process exists.
    pub is_alive: bool,
    /// Its end, if it has ended and the node still knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Box<EndedInfo>>,
    /// Event that it waits for; absent while it runs or is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitsFor>,
    /// Poll that it is inside of now; absent while it waits or is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<Box<PollInfo>>,
    /// Functions that its body was in; absent for native processes, and until it has run since a client watches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backtrace: Option<Box<BacktraceInfo>>,
    /// Processes that spawned it, nearest first, up to eight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<NamedPid>,
    /// Registered names, up to 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Groups that it has joined, up to 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Number of groups that it has joined.
    pub groups_total: u64,
    /// Number of active timers.
    pub timers: u64,
    /// Relations of the process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<BondPage>,
    /// Its supervisor and its own history; absent if no supervisor started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervised: Option<Box<SupervisedInfo>>,
    /// Figures of the process as a supervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervises: Option<TreeBranch>,
    /// Mailbox in depth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<Box<MailboxInfo>>,
    /// Delays of the process, measured since it is watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delays: Option<Box<DelaysInfo>>,
    /// Effect of its end on others, if the view requests it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<ReachInfo>,
}

/// The poll that a process is inside of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PollInfo {
    /// Number of the scheduler.
    pub scheduler: u32,
    /// Time since the scheduler began the slice with this poll, in milliseconds: an upper bound of the time of the poll.
    pub at_most_ms: f64,
    /// What the thread of the scheduler did when it was looked at: `computing`, `system_call`, `waiting` or a word that
    /// a later version adds; absent if the system does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Name of the system call, or its number if the node does not know the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_call: Option<String>,
}

/// Functions that the body of a process was in at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BacktraceInfo {
    /// Names of the functions, innermost first, up to 32.
    pub frames: Vec<String>,
    /// Time since then, in milliseconds.
    pub age_ms: u64,
}

/// A process with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedPid {
    /// Pid of the process.
    pub pid: String,
    /// Registered name or label, if it has one and is alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A page of processes that a process is related to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BondPage {
    /// `links`, `monitors`, `monitored_by` or `children`.
    pub bond: String,
    /// Number of related processes.
    pub total: u64,
    /// Number of related processes before the first one here.
    pub offset: u64,
    /// The processes: up to eight, or the page that the view requests.
    pub processes: Vec<NamedPid>,
}

/// Event that a process waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitsFor {
    /// `message`, `reply`, `room`, `timer`, `stream`, `io` or a word that a later version adds.
    pub on: String,
    /// Process that it waits for: the callee, or the owner of the full mailbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<NamedPid>,
    /// Thing that it waits for, for example a topic or a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Time since it waits, in milliseconds; absent if the node does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// True if it has waited at least this long: it already waited when the node began to watch it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_minimum: bool,
}

/// The end of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndedInfo {
    /// Name or label of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Rust type of its future.
    pub future_type: String,
    /// Process that spawned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<NamedPid>,
    /// Uptime of the node at the end, in milliseconds.
    pub at_ms: u64,
    /// Exit reason.
    pub reason: String,
    /// `itself`, `process`, `link`, `outside` or `observer`.
    pub by: String,
    /// Process that ended it, or the linked process that had ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_process: Option<NamedPid>,
    /// Observer that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_observer: Option<String>,
    /// Time that it lived, in milliseconds.
    pub age_ms: u64,
    /// Number of polls and messages handled.
    pub reductions: u64,
    /// Time inside polls, in nanoseconds.
    pub busy_ns: u64,
    /// Number of messages received.
    pub messages: u64,
    /// Number of messages that it had not received.
    pub mailbox_len: u64,
    /// Size of control block and future, in bytes.
    pub memory_bytes: u64,
}

/// The supervisor of a process, and the history of the process as its child.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SupervisedInfo {
    /// The supervisor.
    pub supervisor: NamedPid,
    /// Id of the child.
    pub child: String,
    /// `permanent`, `transient` or `temporary`.
    pub restart: String,
    /// Number of restarts after the child had died.
    pub restarts_total: u64,
    /// Strategy and restart budget of the supervisor.
    pub budget: TreeBranch,
    /// Last ends of the child, up to eight, newest first.
    pub ends: Vec<TreeEnd>,
}

/// A mailbox in depth. What is sampled covers the time since the process is watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailboxInfo {
    /// Number of waiting messages.
    pub len: u64,
    /// Maximum number of waiting messages.
    pub capacity: u64,
    /// Bytes of the waiting messages.
    pub bytes: u64,
    /// Number of senders that wait for room.
    pub waiting_senders: u64,
    /// Messages that arrived per second; absent until the node has sampled the process twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_per_sec: Option<f64>,
    /// Messages received per second; absent until the node has sampled the process twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_per_sec: Option<f64>,
    /// Age of the oldest waiting message, in milliseconds; absent if none waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<f64>,
    /// True if the oldest message is at least that old: it waited before the process was watched.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub oldest_is_minimum: bool,
    /// Time since the mailbox is full, in milliseconds; absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_ms: Option<u64>,
    /// Number of messages that arrived since the process is watched, as the samples estimate it.
    pub seen: u64,
    /// Number of messages with a noted sender.
    pub sampled: u64,
    /// Number of different senders that were noted.
    pub senders_total: u64,
    /// Most frequent senders, up to eight.
    pub senders: Vec<SenderInfo>,
    /// First waiting messages, up to 16, oldest first; absent if the process has not shown them yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<Vec<MessageInfo>>,
    /// Age of the preview, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview_age_ms: Option<u64>,
}

/// A sender to a mailbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderInfo {
    /// The sender; absent for code outside of processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<NamedPid>,
    /// Share of the noted messages, 0–100.
    pub pct: f64,
}

/// A waiting message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageInfo {
    /// Rust type of the value.
    pub kind: String,
    /// Bytes on the heap.
    pub bytes: u64,
    /// Start of the value as text, for a client that may see values; absent for a type that cannot be shown as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Effect of the end of a process on others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReachInfo {
    /// Number of processes that would end with it, through links.
    pub ends: u64,
    /// True if there may be more, because the search stopped at its limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_more: bool,
    /// Number of processes that would receive a message about it.
    pub told: u64,
}
