//! The graph of waits on the wire: which process waits for which, as an indented list from the root causes.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// A client's view of the waits of a node's processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitsView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Range of rows of the list.
    #[serde(default)]
    pub window: ViewWindow,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_waits_hz")]
    pub hz: f64,
}

const fn default_waits_hz() -> f64 {
    2.0
}

impl Default for WaitsView {
    fn default() -> Self {
        Self { id: 0, window: ViewWindow::default(), hz: default_waits_hz() }
    }
}

/// A window of the list of waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this window, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of reading the list, in microseconds.
    pub cost_us: f64,
    /// Number of processes that wait for another process, a buffer or a store.
    pub waiting: u64,
    /// Number of cycles of waits.
    pub cycles: u64,
    /// Number of rows of the list, at most 8,192.
    pub total: u64,
    /// Number of rows before the first one of this window.
    pub offset: u64,
    /// Rows of the window: first the cycles, then the root causes with the most waiters; below each row, those that
    /// wait for it.
    pub rows: Vec<WaitRow>,
}

/// One row of the list of waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitRow {
    /// Number of rows that this row is below of; 0 for a root cause.
    pub depth: u32,
    /// Pid of the process; absent for a stream, a topic or a store without a known process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// Name or label of the process, or name of the stream, topic or store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// State of the process, as in a row of the process table; empty without a process.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Kind of its wait for the row above: `call`, `full`, `stream`, `topic`, `store`, or a kind added by a newer node;
    /// absent for a root cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// Stream or topic through which it waits for the row above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// Time for which the wait is known, in milliseconds; it may have begun earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Number of processes below the row: they wait for it, directly or through others. A process that waits for several
    /// counts once.
    pub waiters: u64,
    /// Number of processes in the cycle that the row is part of; 0 outside of the cycles found.
    #[serde(skip_serializing_if = "is_zero")]
    pub cycle: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}
