//! Time and streams on the wire: tickers and how late they are, rings and streams and who waits for whom.

use serde::{Deserialize, Serialize};

/// Whether a client sees the node's tickers and streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeView {
    /// Echoed in the answers, so that a client can drop those to a view that it has left.
    pub id: u32,
    /// Refreshes a second, 1–10.
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

/// The tickers of processes and threads, and rings with the streams that stand on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Time {
    /// The view that this answers.
    pub id: u32,
    /// Counts this client's looks.
    pub seq: u64,
    /// The node's uptime when it looked, in milliseconds.
    pub at_ms: u64,
    /// CPU time of looking, in microseconds.
    pub cost_us: f64,
    /// The scheduling of the thread that wakes tickers, where somebody asked for `SCHED_FIFO`: what came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime: Option<String>,
    /// Tickers of processes, and of threads that want to be seen.
    pub tickers_total: u64,
    /// The oldest of them, up to 100.
    pub tickers: Vec<TickerInfo>,
    /// Rings that the node knows of.
    pub streams_total: u64,
    /// Up to 100 of them, those whose writer waits before others, in the order in which they were built.
    pub streams: Vec<StreamInfo>,
}

/// A ticker; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TickerInfo {
    /// Unlike every other of this node.
    pub id: u64,
    /// The process that it wakes; absent for one of a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// That process's name or label, or what the thread calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Firings a second that it is to have.
    pub rate_hz: f64,
    /// Firings of one tick: K.
    pub batch: u64,
    /// What becomes of ticks whose time had passed: `drop`, `burst`, `skip`, `slip`.
    pub overrun: String,
    /// Firings a second since the last look.
    pub fired_per_sec: f64,
    /// Firings carried out.
    pub fired_total: u64,
    /// Firings lost.
    pub dropped_total: u64,
    /// Firings that a later one stood for.
    pub coalesced_total: u64,
    /// How late the half of its batches was at most, in nanoseconds; absent if it does not measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_ns_p50: Option<u64>,
    /// How late 99 % of them were at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_ns_p99: Option<u64>,
}

/// A ring or a stream; counters that end in `_total` only go up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamInfo {
    /// Unlike every other of this node.
    pub id: u64,
    /// What it was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The process that wrote last; absent for a thread, and before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Whether the writer is gone.
    pub ended: bool,
    /// Readers.
    pub readers: u64,
    /// What happens to a reader that is too slow: `lossless`, `evict`, `lossy`.
    pub policy: String,
    /// Items that fit.
    pub capacity: u64,
    /// Bytes of an item.
    pub item_bytes: u64,
    /// Items that the slowest reader has before it.
    pub fill: u64,
    /// Items written a second since the last look.
    pub written_per_sec: f64,
    /// Items written.
    pub written_total: u64,
    /// Times that the writer had to wait.
    pub waits_total: u64,
    /// Readers that were too slow and put out.
    pub evicted_total: u64,
    /// The reader that the writer waits for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitInfo>,
}

/// Whom a writer waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitInfo {
    /// The reader; absent for a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// Its name or label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Items that it has before it.
    pub lag: u64,
}
