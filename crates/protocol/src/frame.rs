//! The state of a node at one instant, of a size that does not depend on its load.

use serde::{Deserialize, Serialize};

use crate::LintInfo;

/// What every observer gets at the frame rate.
///
/// The first eight fields are those of the ancestor's protocol and keep their meaning; the others came later, and a
/// reader that lacks them loses nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// The scenario that runs; `null` when the node is idle.
    pub scenario: Option<String>,
    /// Whether a scenario runs.
    pub running: bool,
    /// Milliseconds since the node started.
    pub uptime_ms: u64,
    /// The scenario's operations a second, over the last tick.
    pub ops_per_sec: f64,
    /// The most processes alive at once since the scenario started.
    pub peak_concurrent: u64,
    /// The resource profile's id.
    pub profile: String,
    /// The scenario's latency since its warm-up.
    pub latency: LatencySnapshot,
    /// The scenario's operations a second over the last ticks.
    pub throughput: TimeSeriesSnapshot,
    /// The node's processes and schedulers.
    pub observer: ObserverSnapshot,

    /// Counts the node's frames; a gap is a frame that this client skipped.
    pub seq: u64,
    /// Nanoseconds since the node started, on its monotonic clock, when this frame was made.
    pub captured_at_ns: u64,
    /// Counts the runs of scenarios; 0 before the first.
    pub run_id: u64,
    /// Milliseconds since the run started.
    pub run_ms: u64,
    /// The run is still in its warm-up, and its cumulative figures have not begun.
    pub warming_up: bool,
    /// What went wrong with the last run; `null` if nothing did.
    pub run_error: Option<String>,
    /// Operations since the warm-up.
    pub ops_total: u64,
    /// Failed operations since the run started.
    pub errors_total: u64,
    /// Failed operations a second.
    pub errors_per_sec: f64,
    /// Operations given up by a policy since the run started.
    pub dropped_total: u64,
    /// Operations given up by a policy a second.
    pub dropped_per_sec: f64,
    /// Operations a second that the load generator offered; 0 for a closed loop.
    pub offered_per_sec: f64,
    /// CPU time of the whole node for one operation, over the last second.
    pub cpu_ns_per_op: f64,
    /// Latency over the last second.
    pub latency_window: LatencySnapshot,
    /// One operation in this many was timed.
    pub latency_sampling: u32,
    /// The node itself is behind: no tick for longer than it should be.
    pub stalled: bool,
    /// What observing costs.
    pub cost: SnapshotCost,
    /// Frames that this client did not get because it was slow.
    pub skipped: u64,
}

/// Percentiles of a latency distribution, in nanoseconds; all 0 when `count` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencySnapshot {
    /// Timed operations.
    pub count: u64,
    /// The smallest.
    pub min_ns: u64,
    /// The largest.
    pub max_ns: u64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// Half are faster.
    pub p50_ns: u64,
    /// 90 % are faster.
    pub p90_ns: u64,
    /// 95 % are faster.
    pub p95_ns: u64,
    /// 99 % are faster.
    pub p99_ns: u64,
    /// 99.9 % are faster.
    pub p999_ns: u64,
}

/// A window over the last ticks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeSeriesSnapshot {
    /// Oldest first.
    pub points: Vec<f64>,
    /// Points that the window holds.
    pub capacity: usize,
}

/// The node's processes and schedulers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObserverSnapshot {
    /// Milliseconds since the node started.
    pub uptime_ms: u64,
    /// Processes alive.
    pub process_count: u64,
    /// Processes inside a poll or in a run queue.
    pub running: u64,
    /// Processes that wait for a message, a timer or I/O.
    pub waiting: u64,
    /// Busy share of each scheduler, 0–1.
    pub scheduler_load: Vec<f32>,
    /// Control blocks, futures and mailboxes of all processes.
    pub total_memory_bytes: u64,
    /// Processes ever spawned.
    pub spawned_total: u64,
    /// Processes ever ended.
    pub finished_total: u64,
    /// Messages ever received.
    pub messages_total: u64,
    /// The first rows, for a client that enabled detail and sent no view; else empty.
    pub processes: Vec<ProcessInfo>,

    /// Processes ever ended by a panic or another abnormal reason.
    pub crashed_total: u64,
    /// Processes spawned a second.
    pub spawned_per_sec: f64,
    /// Processes ended a second.
    pub finished_per_sec: f64,
    /// Messages received a second.
    pub messages_per_sec: f64,
    /// Each scheduler in detail.
    pub schedulers: Vec<SchedulerSnapshot>,
    /// Where the memory is.
    pub memory: MemorySnapshot,
    /// CPU time of the whole operating-system process, in per cent of one core.
    pub cpu_pct: f64,
    /// Processes whose poll has not returned for longer than the threshold, by pid.
    pub stuck: Vec<String>,
    /// Observers attached.
    pub clients: u32,
    /// Children that supervisors started again, ever.
    pub restarts_total: u64,
    /// Children that did not start again when they should have, ever.
    pub restarts_failed_total: u64,
    /// Children that never started again because their supervisor gave up, ever.
    pub children_lost_total: u64,
    /// Warnings that stand now.
    pub lints_total: u64,
    /// The most urgent of them, up to 16.
    pub lints: Vec<LintInfo>,
    /// The log of the program, if it has one that is counted.
    pub log: Option<LogSnapshot>,
}

/// The log of a node's program since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogSnapshot {
    /// Lines that were written.
    pub lines_total: u64,
    /// Lines that were dropped: they came faster than they were read, or could not be written.
    pub dropped_total: u64,
    /// Writes that failed.
    pub errors_total: u64,
    /// The last error, until a write succeeds.
    pub error: Option<String>,
}

/// One scheduler over the last tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerSnapshot {
    /// Busy share, 0–1.
    pub utilisation: f32,
    /// Runnable processes in its queue.
    pub run_queue: u64,
    /// Polls a second.
    pub polls_per_sec: f64,
    /// Processes taken from other schedulers a second.
    pub steals_per_sec: f64,
    /// Times a second it went to sleep for want of work.
    pub parks_per_sec: f64,
    /// Times a second it was woken by another thread.
    pub wakes_per_sec: f64,
}

/// Where a node's memory is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemorySnapshot {
    /// Resident set of the operating-system process.
    pub rss_bytes: u64,
    /// Memory of the machine, or of the control group if that is less.
    pub limit_bytes: u64,
    /// Control blocks of live processes.
    pub control_block_bytes: u64,
    /// Futures too large for their control block.
    pub future_bytes: u64,
    /// Messages that wait in mailboxes.
    pub mailbox_bytes: u64,
    /// Limit of the bytes in all mailboxes; 0 from older nodes.
    pub mailbox_limit_bytes: u64,
    /// The limit is reached: mailboxes that hold a message accept no other.
    pub mailboxes_full: bool,
    /// Times that the limit was reached.
    pub mailboxes_filled_total: u64,
}

/// What observing costs the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotCost {
    /// CPU time of the last snapshot, in microseconds.
    pub snapshot_us: f64,
    /// CPU time of sampling, encoding and sending over the last seconds, in per cent of one core.
    pub duty_pct: f64,
    /// Snapshots a second that the node aims at.
    pub target_hz: f64,
    /// Snapshots a second that it takes: fewer when the budget stretches them.
    pub actual_hz: f64,
}

/// One row of the ancestor's process table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Unique among the live processes, and exact in a double.
    pub id: u64,
    /// The registered name or the label.
    pub name: Option<String>,
    /// What it does.
    pub status: ProcessStatus,
    /// Messages waiting.
    pub mailbox_depth: u32,
    /// Control block, future and mailbox.
    pub memory_bytes: u64,
    /// Polls and messages handled.
    pub reductions: u64,
    /// `<node.slot.generation>`.
    #[serde(default)]
    pub pid: String,
}

/// The ancestor's words for what a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessStatus {
    /// Inside a poll or in a run queue.
    Running,
    /// Waits for a message or for I/O.
    Waiting,
    /// Waits for a timer.
    Sleeping,
    /// Ended.
    Finished,
    /// Ended abnormally.
    Crashed,
}
