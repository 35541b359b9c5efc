//! The tree of supervisors on the wire: a window of its rows as if it were a list, in which some supervisors are open.
//!
//! ```text
//!   <0.12.1>       a supervisor that no other has started
//!   <0.12.1>/3     its child of the key 3, through all restarts
//!   <0.12.1>/3/0   that one's child of the key 0
//! ```

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// What part of the tree a client sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeView {
    /// Echoed in the answers, so that a client can drop those to a view that it has left.
    pub id: u32,
    /// The paths of the supervisors whose children are shown, at most [`TREE_OPEN_MAX`](crate::TREE_OPEN_MAX).
    #[serde(default)]
    pub open: Vec<String>,
    /// Which rows of the tree, as a list.
    #[serde(default)]
    pub window: ViewWindow,
    /// The path of the row that is looked into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// Refreshes a second, 1–10.
    #[serde(default = "default_tree_hz")]
    pub hz: f64,
}

const fn default_tree_hz() -> f64 {
    2.0
}

impl Default for TreeView {
    fn default() -> Self {
        Self { id: 0, open: Vec::new(), window: ViewWindow::default(), selected: None, hz: default_tree_hz() }
    }
}

/// A window of the tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeRows {
    /// The view that it answers.
    pub id: u32,
    /// Counts this client's windows.
    pub seq: u64,
    /// Supervisors that no other has started.
    pub top: u64,
    /// Rows of the whole tree, with those open that the view opens.
    pub total: u64,
    /// Rows before the first one here.
    pub offset: u64,
    /// The node's uptime when it looked, in milliseconds.
    pub at_ms: u64,
    /// CPU time of looking, in microseconds.
    pub cost_us: f64,
    /// Why it is refreshed less often than asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// The rows.
    pub rows: Vec<TreeRow>,
    /// The row that the view looks into; absent if there is none of this path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<Box<TreeDetail>>,
}

/// A supervisor, or a child of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeRow {
    /// Names the row for as long as its supervisors know it.
    pub path: String,
    /// Supervisors above it.
    pub depth: u32,
    /// The place of its supervisor's row; absent at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<u64>,
    /// Whether siblings follow: bit `n` for the row at the depth `n` on the way to this one.
    pub rails: u64,
    /// The child's id; what a supervisor at the top calls itself.
    pub name: String,
    /// Its process, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// `running`, `starting`, `stopping`, `restarting`, `waiting` for its restart, or `ended`.
    pub state: String,
    /// Milliseconds to its next try, while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// `permanent`, `transient` or `temporary`; absent at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// How often it was restarted because it had died.
    pub restarts_total: u64,
    /// The node's uptime when it last ended by itself or failed to start, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// Why it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What makes it a supervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<TreeBranch>,
}

/// What a supervisor does for its children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeBranch {
    /// Its children are among the rows.
    pub open: bool,
    /// `one_for_one`, `one_for_all`, `rest_for_one` or `simple_one_for_one`.
    pub strategy: String,
    /// Restarts of the last period.
    pub used: u64,
    /// Restarts within a period that do not end it.
    pub allowed: u64,
    /// That period, in milliseconds.
    pub period_ms: u64,
    /// Restarts of all its children since it started.
    pub restarts_total: u64,
    /// Children that run.
    pub running: u64,
    /// Children that wait for their restart.
    pub waiting: u64,
    /// Children that have ended.
    pub ended: u64,
}

/// One row in full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeDetail {
    /// The row itself.
    pub row: TreeRow,
    /// `brutal_kill`, `infinity`, or the milliseconds that a child may take to stop; absent at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<String>,
    /// Its end counts for its supervisor's.
    pub significant: bool,
    /// The process that started a supervisor at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its last ends, up to eight, the newest first.
    pub ends: Vec<TreeEnd>,
}

/// How a child ended once, or failed to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeEnd {
    /// The node's uptime then, in milliseconds.
    pub at_ms: u64,
    /// Who ended; absent if it did not even start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// Why.
    pub reason: String,
}
