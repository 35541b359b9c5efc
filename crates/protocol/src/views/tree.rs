//! The supervision tree on the wire: a window of its rows as a list, in which some supervisors are open.
//!
//! ```text
//!   <0.12.1>       a supervisor that no other supervisor started
//!   <0.12.1>/3     its child with key 3, through all restarts
//!   <0.12.1>/3/0   the child with key 0 of that child
//! ```

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// A client's view of the supervision tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Paths of the open supervisors, which show their children; at most [`TREE_OPEN_MAX`](crate::TREE_OPEN_MAX).
    #[serde(default)]
    pub open: Vec<String>,
    /// Range of rows of the tree, as a list.
    #[serde(default)]
    pub window: ViewWindow,
    /// Path of the row to send in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// True for [`TreeRow::sum`], which reads all processes of the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sums: bool,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_tree_hz")]
    pub hz: f64,
}

const fn default_tree_hz() -> f64 {
    2.0
}

impl Default for TreeView {
    fn default() -> Self {
        let window = ViewWindow::default();
        Self { id: 0, open: Vec::new(), window, selected: None, sums: false, hz: default_tree_hz() }
    }
}

/// A window of the supervision tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeRows {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this window, counted per client.
    pub seq: u64,
    /// Number of supervisors that no other supervisor started.
    pub top: u64,
    /// Number of rows of the whole tree, with the supervisors open that the view opens.
    pub total: u64,
    /// Number of rows before the first one of this window.
    pub offset: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Reason why this is refreshed less often than requested; absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Rows of the window.
    pub rows: Vec<TreeRow>,
    /// The row that the view selects, in full; absent if no row has this path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<Box<TreeDetail>>,
}

/// A supervisor, or a child of a supervisor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeRow {
    /// Path of the row, valid for as long as its supervisors keep the child.
    pub path: String,
    /// Number of supervisors above it.
    pub depth: u32,
    /// Position of its supervisor's row; absent at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<u64>,
    /// Bit set for drawing the tree: bit `n` is set if siblings follow the row at depth `n` on the path to this row.
    pub rails: u64,
    /// Id of the child; for a supervisor at the top, its name or label.
    pub name: String,
    /// Label or name of the child's process, if it differs from the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Pid of its process, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// `running`, `starting`, `stopping`, `restarting`, `waiting` for its restart, or `ended`.
    pub state: String,
    /// Time until the next attempt to start it, in milliseconds; absent unless it is waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// `permanent`, `transient` or `temporary`; absent at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// Number of times that it was restarted because it had died.
    pub restarts_total: u64,
    /// Uptime of the node when it last ended by itself or failed to start, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// Reason for that end or failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Figures of a supervisor; absent for other children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<TreeBranch>,
    /// CPU time and memory of its process and of all processes below it, if the view requests them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<TreeSum>,
}

/// CPU time and memory of a process and of all processes below it: its children, their children, and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeSum {
    /// CPU time inside polls over the last seconds, in per cent of one core, with that of ended children; absent at the
    /// first sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_pct: Option<f64>,
    /// Memory of control blocks, futures and mailboxes, in bytes.
    pub memory_bytes: u64,
    /// Number of live processes, itself included.
    pub processes: u64,
}

/// Figures of a supervisor and its children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeBranch {
    /// True if its children are among the rows.
    pub open: bool,
    /// `one_for_one`, `one_for_all`, `rest_for_one` or `simple_one_for_one`.
    pub strategy: String,
    /// Number of restarts in the last period.
    pub used: u64,
    /// Number of restarts allowed within a period; one more ends the supervisor.
    pub allowed: u64,
    /// Length of the period, in milliseconds.
    pub period_ms: u64,
    /// Number of restarts of all its children since it started.
    pub restarts_total: u64,
    /// Number of running children.
    pub running: u64,
    /// Number of children that wait for their restart.
    pub waiting: u64,
    /// Number of children that have ended, or are being restarted at this moment.
    pub ended: u64,
}

/// A row in full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeDetail {
    /// The row itself.
    pub row: TreeRow,
    /// `brutal_kill`, `infinity`, or the milliseconds that the child may take to stop; absent at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<String>,
    /// True if its end can make its supervisor end.
    pub significant: bool,
    /// Process that started it, for a supervisor at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its last ends, up to eight, newest first.
    pub ends: Vec<TreeEnd>,
}

/// The end of a child, or a failure to start it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeEnd {
    /// Uptime of the node at that time, in milliseconds.
    pub at_ms: u64,
    /// Pid of the process that ended; absent if it failed to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// Exit reason or error.
    pub reason: String,
}
