//! CPU time on the wire: by kind, parent or scheduler, ended processes and the runtime itself included.
//!
//! All shares are in per cent of one core.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// A client's view of the node's CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// The subject of a row.
    #[serde(default)]
    pub group: CpuGroup,
    /// Range of rows, the largest share first.
    #[serde(default = "default_cpu_window")]
    pub window: ViewWindow,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_cpu_hz")]
    pub hz: f64,
}

const fn default_cpu_window() -> ViewWindow {
    ViewWindow { offset: 0, len: 50 }
}

const fn default_cpu_hz() -> f64 {
    1.0
}

impl Default for CpuView {
    fn default() -> Self {
        Self { id: 0, group: CpuGroup::default(), window: default_cpu_window(), hz: default_cpu_hz() }
    }
}

/// The subject of a row of the CPU view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuGroup {
    /// The processes with one label, with one module, or with one type of future.
    #[default]
    Kind,
    /// The processes that one process has spawned.
    Parent,
    /// The processes on one scheduler.
    Scheduler,
    /// A group that this reader does not know.
    #[serde(other)]
    Other,
}

/// CPU time of the node over the last seconds; shares are in per cent of one core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this sample, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Reason why the node refreshes less often than the view requests; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// The subject of a row.
    pub group: CpuGroup,
    /// Time over which shares and rates are computed, in milliseconds; 0 before the second sample.
    pub span_ms: u64,
    /// Number of cores that the node may use.
    pub cores: u32,
    /// CPU time of the operating-system process, measured by the kernel.
    pub process_pct: f64,
    /// CPU time of all other programs of the machine, measured by the kernel.
    pub others_pct: f64,
    /// Sum of all rows and parts, including rows outside the window. It differs from `process_pct` by what the node
    /// cannot attribute.
    pub sum_pct: f64,
    /// Number of groups.
    pub total: u64,
    /// Number of groups before the first row.
    pub offset: u64,
    /// Groups of the window, the largest share first.
    pub rows: Vec<CpuRow>,
    /// CPU time outside of processes: the work of the schedulers between polls, and other threads of the node.
    pub runtime: Vec<CpuPart>,
}

/// CPU time of a group of processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuRow {
    /// Label, module, type, name or number of the group.
    pub name: String,
    /// `label`, `module`, `type`, `process`, `outside`, `scheduler` or `other`.
    pub kind: String,
    /// Pid of the parent, in groups by parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// CPU time inside polls, of live and of ended processes.
    pub cpu_pct: f64,
    /// Part of `cpu_pct` of processes that have ended.
    pub ended_pct: f64,
    /// Number of live processes; in groups by scheduler, the number of ready ones.
    pub live: u64,
    /// Processes ended per second.
    pub ended_per_sec: f64,
    /// Number of processes that have ended since the node started.
    pub ended_total: u64,
    /// 99th percentile of the time from ready to running over the last seconds, in nanoseconds, from samples; absent without
    /// a sample. Processes that end in their first poll are not sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_p99_ns: Option<u64>,
    /// Number of these samples.
    #[serde(skip_serializing_if = "crate::frame::is_zero")]
    pub wait_samples: u64,
    /// The only parent of the group: its name, label or pid. Absent if it has several parents or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// CPU time of one part of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuPart {
    /// Name of the part: `dispatch`, `search`, `reactor` and `park` of the schedulers, else a name of threads.
    pub name: String,
    /// CPU time.
    pub cpu_pct: f64,
}
