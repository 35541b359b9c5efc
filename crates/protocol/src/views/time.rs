//! Time and streams on the wire: tickers and their lateness, rings and streams and the readers that block their
//! writers.

use serde::{Deserialize, Serialize};

/// A client's view of the node's tickers and streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_time_hz")]
    pub hz: f64,
}

const fn default_time_hz() -> f64 {
    2.0
}

impl Default for TimeView {
    fn default() -> Self {
        Self { id: 0, hz: default_time_hz() }
    }
}

/// State of the tickers of processes and threads, and of rings and the streams built on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Time {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this sample, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Result of requesting `SCHED_FIFO` for the thread that wakes tickers; absent if it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime: Option<String>,
    /// Number of tickers of processes, and of threads that make their tickers visible to observers.
    pub tickers_total: u64,
    /// The oldest of these tickers, up to 100.
    pub tickers: Vec<TickerInfo>,
    /// Number of rings known to the node.
    pub streams_total: u64,
    /// Up to 100 rings, in the order in which they were built. If there are more, rings with a waiting writer are
    /// preferred.
    pub streams: Vec<StreamInfo>,
}

/// State of a ticker; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TickerInfo {
    /// Id that is unique within the node.
    pub id: u64,
    /// Process that it wakes; absent for a ticker of a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// Name or label of that process, or the label that the thread gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Intended number of firings per second.
    pub rate_hz: f64,
    /// Number of firings per tick: K.
    pub batch: u64,
    /// Policy for missed ticks: `drop`, `burst`, `skip`, `slip`.
    pub overrun: String,
    /// Firings per second since the last sample.
    pub fired_per_sec: f64,
    /// Number of firings executed.
    pub fired_total: u64,
    /// Number of firings lost.
    pub dropped_total: u64,
    /// Number of firings that a later one stands for.
    pub coalesced_total: u64,
    /// Median lateness of its batches, in nanoseconds; absent if the ticker does not measure it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_ns_p50: Option<u64>,
    /// 99th percentile of the lateness of its batches, in nanoseconds; absent if the ticker does not measure it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_ns_p99: Option<u64>,
}

/// State of a ring or a stream; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamInfo {
    /// Id that is unique within the node.
    pub id: u64,
    /// Label given when it was built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Process that wrote last; absent if a thread wrote last, and before the first write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// True if the writer is gone.
    pub ended: bool,
    /// Number of readers.
    pub readers: u64,
    /// Policy for readers that are too slow: `lossless`, `evict`, `lossy`.
    pub policy: String,
    /// Number of items that fit.
    pub capacity: u64,
    /// Size of an item, in bytes.
    pub item_bytes: u64,
    /// Number of items that the slowest reader has not read.
    pub fill: u64,
    /// Items written per second since the last sample.
    pub written_per_sec: f64,
    /// Number of items written.
    pub written_total: u64,
    /// Number of times that the writer had to wait.
    pub waits_total: u64,
    /// Number of readers evicted because they were too slow.
    pub evicted_total: u64,
    /// Reader that the writer waits for now; absent if it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitInfo>,
}

/// A reader that blocks a writer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitInfo {
    /// Pid of the reader; absent for a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// Name or label of the reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of items that it has not read.
    pub lag: u64,
}
