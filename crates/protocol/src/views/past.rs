//! Requests for recorded instants of a node, and its figures over the last minutes.
//!
//! ```text
//!   observer ── past {at_ms} ──▶ node       the newest recorded instant at or before that time
//!   observer ◀── past ── node               its messages, equal to those that a client received live
//!   observer ── history ──▶ node ──▶ history      figures of the last minutes, for charts
//! ```

use serde::{Deserialize, Serialize};

/// A request for one recorded instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastView {
    /// Echoed in the answer.
    pub id: u32,
    /// Uptime of the node at that instant, in milliseconds. The answer has the newest instant at or before it, or the
    /// oldest one if all are later.
    pub at_ms: u64,
}

/// A request for the figures of the last minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryView {
    /// Echoed in the answer.
    pub id: u32,
}

/// Figures of a node over the last minutes, for charts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// Id of the request.
    pub id: u32,
    /// Uptime of the node at each point, in milliseconds, oldest first; about one second apart.
    pub at_ms: Vec<u64>,
    /// The figures, each with one value for each point.
    pub series: Vec<HistorySeries>,
    /// Runs of scenarios in this time, oldest first.
    pub runs: Vec<HistoryRun>,
}

/// One figure over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistorySeries {
    /// Name of the figure, as in the frame, for example `cpu_pct`; `utilisation/0` is that of scheduler 0.
    pub name: String,
    /// Values, oldest first.
    pub points: Vec<f64>,
}

/// Start of a run of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryRun {
    /// Number of the run.
    pub run_id: u64,
    /// Id of the scenario.
    pub scenario: String,
    /// Uptime of the node when the run was first seen, in milliseconds.
    pub from_ms: u64,
}
