//! Failures grouped by their causes, as the Events view shows them: the node keeps one entry for each cause, with the
//! newest failure.

use serde::{Deserialize, Serialize};

use crate::{EndedInfo, NamedPid, ViewWindow};

/// A client's view of the causes of failures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CausesView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Range of causes, the newest failure first.
    #[serde(default)]
    pub window: ViewWindow,
    /// Number of the cause that is sent in full; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<u32>,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_causes_hz")]
    pub hz: f64,
}

const fn default_causes_hz() -> f64 {
    2.0
}

impl Default for CausesView {
    fn default() -> Self {
        Self { id: 0, window: ViewWindow::default(), selected: None, hz: default_causes_hz() }
    }
}

/// A window of the causes of failures since the node started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Causes {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this window, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Number of causes.
    pub total: u64,
    /// Number of causes before the first one of this window.
    pub offset: u64,
    /// Number of failures of all causes, including those that are not listed.
    pub failures_total: u64,
    /// Number of failures with a cause beyond the maximum number of causes.
    pub others_total: u64,
    /// Length of one interval of the histories, in milliseconds.
    pub interval_ms: u64,
    /// Causes of the window.
    pub causes: Vec<CauseInfo>,
    /// The cause that the view selects, in full; absent if the node does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<Box<CauseDetail>>,
}

/// A cause of failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CauseInfo {
    /// Number of the cause on this node.
    pub cause: u32,
    /// `crash`, `killed` or `link`.
    pub kind: String,
    /// Place in the tree, name or type of the processes, with `*` for numbers.
    pub who: String,
    /// Reason, with `*` for numbers.
    pub why: String,
    /// Number of failures.
    pub count: u64,
    /// Failures per second since the client's last answer; absent in the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_sec: Option<f64>,
    /// Uptime of the node at the first failure, in milliseconds.
    pub first_ms: u64,
    /// Uptime of the node at the newest failure, in milliseconds.
    pub last_ms: u64,
    /// Failures in each interval, oldest first; the last interval is not complete.
    pub history: Vec<u32>,
}

/// A cause in full: the newest failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CauseDetail {
    /// The cause.
    pub cause: CauseInfo,
    /// Process that failed last.
    pub process: NamedPid,
    /// Its end, with the reason in full and its last figures.
    pub end: EndedInfo,
    /// Functions of the backtrace, innermost first, up to 32; empty if it is not known.
    pub backtrace: Vec<String>,
}
