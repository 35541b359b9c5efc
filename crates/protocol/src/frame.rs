//! State of a node at one instant. Its size does not depend on the load.

use serde::{Deserialize, Serialize};

use crate::LintInfo;

/// The state that every observer receives at the frame rate.
///
/// The fields before `seq` are those of the predecessor's protocol and keep their meaning. The fields from `seq` on
/// were added later; a reader that does not know them loses nothing else.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each a field on the wire")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Id of the running scenario; `null` when the node is idle.
    pub scenario: Option<String>,
    /// True while a scenario runs.
    pub running: bool,
    /// Time since the node started, in milliseconds.
    pub uptime_ms: u64,
    /// Operations of the scenario per second, over the last tick.
    pub ops_per_sec: f64,
    /// Maximum number of processes alive at once since the scenario started.
    pub peak_concurrent: u64,
    /// Id of the resource profile.
    pub profile: String,
    /// Latency of the scenario since its warm-up.
    pub latency: LatencySnapshot,
    /// Operations of the scenario per second, over the last ticks.
    pub throughput: TimeSeriesSnapshot,
    /// Processes and schedulers of the node.
    pub observer: ObserverSnapshot,

    /// Number of this frame; a gap means that this client skipped frames.
    pub seq: u64,
    /// Time at which this frame was captured, in nanoseconds since the node started, on its monotonic clock.
    pub captured_at_ns: u64,
    /// Number of the current or last run of a scenario; 0 before the first run.
    pub run_id: u64,
    /// Time since the run started, without its pauses, in milliseconds.
    pub run_ms: u64,
    /// True while the run is paused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// True while the run is in its warm-up, before its cumulative figures begin.
    pub warming_up: bool,
    /// Error of the last run; `null` without an error.
    pub run_error: Option<String>,
    /// Number of operations since the warm-up.
    pub ops_total: u64,
    /// Number of failed operations since the run started.
    pub errors_total: u64,
    /// Failed operations per second.
    pub errors_per_sec: f64,
    /// Number of operations dropped by a policy since the run started.
    pub dropped_total: u64,
    /// Operations dropped by a policy per second.
    pub dropped_per_sec: f64,
    /// Operations per second that the load generator offered; 0 for a closed loop.
    pub offered_per_sec: f64,
    /// Number of processes that do not belong to the run: those alive before it started; all of them without a run.
    pub others_alive: u64,
    /// CPU time of the whole node per operation, in nanoseconds, over the last second.
    pub cpu_ns_per_op: f64,
    /// Latency over the last second.
    pub latency_window: LatencySnapshot,
    /// Sampling interval of the latency: one operation in this many was timed.
    pub latency_sampling: u32,
    /// True if the node itself was late: more time than intended passed before this frame.
    pub stalled: bool,
    /// Cost of observing the node.
    pub cost: SnapshotCost,
    /// Number of frames that this client did not receive because it was slow.
    pub skipped: u64,
}

/// Percentiles of a latency distribution, in nanoseconds; all are 0 if `count` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencySnapshot {
    /// Number of timed operations.
    pub count: u64,
    /// Minimum.
    pub min_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// 50th percentile: half of the operations were faster.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
}

/// A time series over the last ticks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeSeriesSnapshot {
    /// The values, oldest first.
    pub points: Vec<f64>,
    /// Maximum number of points in the window.
    pub capacity: usize,
}

/// Processes and schedulers of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObserverSnapshot {
    /// Time since the node started, in milliseconds.
    pub uptime_ms: u64,
    /// Number of live processes.
    pub process_count: u64,
    /// Number of processes inside a poll or in a run queue.
    pub running: u64,
    /// Number of processes that wait for a message, a timer or I/O.
    pub waiting: u64,
    /// Busy share of each scheduler, 0–1.
    pub scheduler_load: Vec<f32>,
    /// Size of the control blocks, futures and mailboxes of all processes, in bytes.
    pub total_memory_bytes: u64,
    /// Number of processes spawned since the node started.
    pub spawned_total: u64,
    /// Number of processes that have ended since the node started.
    pub finished_total: u64,
    /// Number of messages received since the node started.
    pub messages_total: u64,
    /// First rows of the process table, for a client that enabled detail and sent no view; otherwise empty.
    pub processes: Vec<ProcessInfo>,

    /// Number of processes that have ended by a panic or for another abnormal reason since the node started.
    pub crashed_total: u64,
    /// Of these, processes that an exit signal of another process, or from outside, has ended.
    pub killed_total: u64,
    /// Of these, processes that a linked process has taken along.
    pub linked_total: u64,
    /// Number of processes inside a poll.
    pub polled: u64,
    /// Number of processes in run queues.
    pub ready: u64,
    /// Processes spawned per second.
    pub spawned_per_sec: f64,
    /// Processes ended per second.
    pub finished_per_sec: f64,
    /// Messages received per second.
    pub messages_per_sec: f64,
    /// State of each scheduler.
    pub schedulers: Vec<SchedulerSnapshot>,
    /// Memory of the node by use.
    pub memory: MemorySnapshot,
    /// CPU time of the whole operating-system process, in per cent of one core.
    pub cpu_pct: f64,
    /// CPU time of all other programs of the machine, in per cent of one core; absent while the node does not measure it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_pct: Option<f64>,
    /// Pids of stuck processes: a poll of each has not returned for longer than the threshold.
    pub stuck: Vec<String>,
    /// Number of attached observers.
    pub clients: u32,
    /// Number of children that supervisors have restarted since the node started.
    pub restarts_total: u64,
    /// Number of failed restarts of children since the node started.
    pub restarts_failed_total: u64,
    /// Number of children that were never restarted because their supervisor gave up, since the node started.
    pub children_lost_total: u64,
    /// Number of lints that are raised now.
    pub lints_total: u64,
    /// The most urgent of these lints, up to 16.
    pub lints: Vec<LintInfo>,
    /// Counters of the program's log, if the program has a log that counts.
    pub log: Option<LogSnapshot>,
    /// Delays of all processes over the last ten seconds, from samples; absent before the first samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<DelaysInfo>,
}

/// Counters of the log of a node's program since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogSnapshot {
    /// Number of lines written.
    pub lines_total: u64,
    /// Number of lines dropped because they came faster than they were read, or could not be written.
    pub dropped_total: u64,
    /// Number of failed writes.
    pub errors_total: u64,
    /// The last error, until a write succeeds.
    pub error: Option<String>,
    /// Size of the lines that wait for the log thread, in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub queued_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// State of one scheduler over the last tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerSnapshot {
    /// Busy share, 0–1.
    pub utilisation: f32,
    /// Number of runnable processes in its queue.
    pub run_queue: u64,
    /// Polls per second.
    pub polls_per_sec: f64,
    /// Processes stolen from other schedulers per second.
    pub steals_per_sec: f64,
    /// Number of times per second that it parked for lack of work.
    pub parks_per_sec: f64,
    /// Number of times per second that another thread woke it.
    pub wakes_per_sec: f64,
}

/// Memory of a node by use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemorySnapshot {
    /// Resident set of the operating-system process.
    pub rss_bytes: u64,
    /// Memory of the machine, or the limit of the control group if that is lower.
    pub limit_bytes: u64,
    /// Control blocks of live processes.
    pub control_block_bytes: u64,
    /// Futures too large for their control block; from older nodes, with the linear memory of guests.
    pub future_bytes: u64,
    /// Messages waiting in mailboxes.
    pub mailbox_bytes: u64,
    /// Limit for the bytes in all mailboxes; 0 from older nodes.
    pub mailbox_limit_bytes: u64,
    /// True while the limit is reached: mailboxes that hold a message accept no further one.
    pub mailboxes_full: bool,
    /// Number of times that the limit was reached.
    pub mailboxes_filled_total: u64,
    /// The other uses; absent from older nodes and while no observer is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<MemoryUses>,
}

/// Memory of a node by use, in bytes: all that is not in [`MemorySnapshot`] itself. Together with its control blocks,
/// futures and mailboxes, the sum is `resident_bytes`, except for the rest that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryUses {
    /// Control blocks that are kept for the next processes.
    pub free_slot_bytes: u64,
    /// Links, monitors, names and labels of processes.
    pub side_table_bytes: u64,
    /// Nodes of messages that are kept for the next messages.
    pub free_node_bytes: u64,
    /// Messages that topics hold.
    pub topic_bytes: u64,
    /// Rings and streams.
    pub ring_bytes: u64,
    /// Timers that have not fired.
    pub timer_bytes: u64,
    /// Pages of stores in memory.
    pub store_bytes: u64,
    /// Linear memory of guests, as far as it is resident.
    pub linear_bytes: u64,
    /// Size of the linear memory of guests, resident or not. Not a part of the sum.
    pub linear_size_bytes: u64,
    /// Stacks of guests, as far as they are resident.
    pub guest_stack_bytes: u64,
    /// Other resident memory of the engines of guests, for example tables.
    pub engine_bytes: u64,
    /// Compiled code of guests.
    pub code_bytes: u64,
    /// Buffers for observers.
    pub observer_bytes: u64,
    /// Flight recorder; 0 from older nodes.
    pub recorder_bytes: u64,
    /// Lines that wait for the log thread.
    pub log_bytes: u64,
    /// Stacks of threads.
    pub thread_stack_bytes: u64,
    /// The program and its libraries: code and static data.
    pub program_bytes: u64,
    /// Other allocated memory.
    pub other_bytes: u64,
    /// Memory that was freed and that the allocator keeps.
    pub allocator_bytes: u64,
    /// Resident set when these figures were read. Not a part of the sum.
    pub resident_bytes: u64,
    /// Age of these figures, in milliseconds.
    pub age_ms: u64,
    /// CPU time that it took to read them, in microseconds.
    pub cost_us: u64,
}

impl MemorySnapshot {
    /// Returns the sum of all uses, in bytes; 0 if the node does not report them.
    pub fn known_bytes(&self) -> u64 {
        let Some(uses) = &self.uses else { return 0 };
        let MemoryUses {
            free_slot_bytes,
            side_table_bytes,
            free_node_bytes,
            topic_bytes,
            ring_bytes,
            timer_bytes,
            store_bytes,
            linear_bytes,
            linear_size_bytes: _,
            guest_stack_bytes,
            engine_bytes,
            code_bytes,
            observer_bytes,
            recorder_bytes,
            log_bytes,
            thread_stack_bytes,
            program_bytes,
            other_bytes,
            allocator_bytes,
            resident_bytes: _,
            age_ms: _,
            cost_us: _,
        } = *uses;
        [
            self.control_block_bytes,
            self.future_bytes,
            self.mailbox_bytes,
            free_slot_bytes,
            side_table_bytes,
            free_node_bytes,
            topic_bytes,
            ring_bytes,
            timer_bytes,
            store_bytes,
            linear_bytes,
            guest_stack_bytes,
            engine_bytes,
            code_bytes,
            observer_bytes,
            recorder_bytes,
            log_bytes,
            thread_stack_bytes,
            program_bytes,
            other_bytes,
            allocator_bytes,
        ]
        .iter()
        .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
    }
}

/// Cost of observing the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotCost {
    /// CPU time of the last snapshot, in microseconds.
    pub snapshot_us: f64,
    /// CPU time of sampling, encoding and sending over the last seconds, in per cent of one core.
    pub duty_pct: f64,
    /// Target rate of snapshots, per second.
    pub target_hz: f64,
    /// Actual rate of snapshots, per second; lower than the target if the CPU budget requires it.
    pub actual_hz: f64,
}

/// One row of the predecessor's process table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Id that is unique among the live processes, and exact as a double.
    pub id: u64,
    /// Registered name, or the label.
    pub name: Option<String>,
    /// State of the process.
    pub status: ProcessStatus,
    /// Number of messages waiting in the mailbox.
    pub mailbox_depth: u32,
    /// Size of control block, future and mailbox, in bytes.
    pub memory_bytes: u64,
    /// Number of polls and messages handled.
    pub reductions: u64,
    /// Pid of the process: `<node.slot.generation>`.
    #[serde(default)]
    pub pid: String,
}

/// The state of a process, in the words of the predecessor.
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

/// Delays of a process or of the node, from samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DelaysInfo {
    /// Time from ready to running.
    pub scheduling: LatencySnapshot,
    /// Time of polls.
    pub poll: LatencySnapshot,
    /// Time from the send of a message to the end of the poll that received it.
    pub handling: LatencySnapshot,
    /// Mean number of polls of which one is sampled; 1 if every poll is.
    pub sampling: f64,
}
