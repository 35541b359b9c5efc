//! One tick's view of the node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusm_protocol::{DelaysInfo, LogSnapshot, MemoryUses};
use rusm_runtime::Pid;
use rusm_runtime::observe::{MailboxBytes, SupervisionCounters, Totals};

use crate::host::RunSnapshot;
use crate::lints::active_warnings::Warning;
use crate::lints::waits::WaitGraph;

/// One tick's view of the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) seq: u64,
    pub(crate) uptime: Duration,
    pub(crate) totals: Totals,
    pub(crate) spawned_per_sec: f64,
    pub(crate) finished_per_sec: f64,
    pub(crate) messages_per_sec: f64,
    pub(crate) schedulers: Vec<SchedulerRates>,
    /// Number of schedulers inside a poll.
    pub(crate) running: u64,
    pub(crate) cpu_pct: f64,
    /// CPU time of other programs, in per cent of one core, while an observer is attached.
    pub(crate) others_pct: Option<f64>,
    pub(crate) rss_bytes: u64,
    pub(crate) limit_bytes: u64,
    /// Memory by use, with the uptime at which it was read; `None` while no observer is attached.
    pub(crate) memory: Option<(MemoryReading, Duration)>,
    pub(crate) census: Census,
    pub(crate) mailboxes: MailboxBytes,
    pub(crate) stuck: Vec<Pid>,
    pub(crate) supervision: SupervisionCounters,
    /// Number of active warnings, and the most urgent of them.
    pub(crate) lints_total: u64,
    pub(crate) lints: Vec<Warning>,
    /// Waits of processes for each other; empty without observers.
    pub(crate) waits: Arc<WaitGraph>,
    pub(crate) log: Option<LogSnapshot>,
    pub(crate) delays: Option<DelaysInfo>,
    pub(crate) run: RunSnapshot,
    pub(crate) ops_per_sec: f64,
    pub(crate) errors_per_sec: f64,
    pub(crate) dropped_per_sec: f64,
    pub(crate) cpu_ns_per_op: f64,
    pub(crate) throughput: Vec<f64>,
    pub(crate) cost_us: f64,
    pub(crate) duty_pct: f64,
    pub(crate) target_hz: f64,
    pub(crate) actual_hz: f64,
    pub(crate) clients: u32,
    pub(crate) stalled: bool,
}

/// Rates of one scheduler over the last tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SchedulerRates {
    pub(crate) utilisation: f64,
    pub(crate) run_queue: u64,
    pub(crate) polls_per_sec: f64,
    pub(crate) steals_per_sec: f64,
    pub(crate) parks_per_sec: f64,
    pub(crate) wakes_per_sec: f64,
}

/// A reading, and the size of the process table that its figures of slots are based on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryReading {
    pub(super) uses: MemoryUses,
    pub(super) table_bytes: u64,
}

impl MemoryReading {
    /// Returns the uses, when live processes have `control_block_bytes` of the table, `age` after the reading.
    pub(crate) fn uses(&self, control_block_bytes: u64, uptime: Duration, read_at: Duration) -> MemoryUses {
        MemoryUses {
            free_slot_bytes: self.table_bytes.saturating_sub(control_block_bytes),
            age_ms: uptime.saturating_sub(read_at).as_millis() as u64,
            ..self.uses
        }
    }
}

/// Figures that require a pass over all processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Census {
    pub(crate) future_bytes: u64,
    pub(crate) mailbox_bytes: u64,
    /// Size of the side tables: links, monitors, names and labels.
    pub(crate) side_table_bytes: u64,
    /// Size of the linear memory of guests, which is not a part of the futures.
    pub(crate) linear_size_bytes: u64,
    pub(super) made_at: Option<Instant>,
    pub(super) cost: Duration,
}
