//! Resource usage of the program at one time; `soak.rs` takes samples during a long run.

use std::fs;
use std::time::Duration;

use rusm_runtime::{Handle, observe};
use serde::Serialize;

use crate::measure::live_bytes::live_bytes;
use crate::measure::usage::kilobytes;
use crate::run::execution::Run;

/// Maximum number of processes in the runtime for which a sample counts the queued messages.
const QUEUES_COUNTED_MAX: u64 = 100_000;

/// Resource usage of the program at one time; `null` if the system does not report a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SoakSample {
    /// Time since the warm-up, in seconds.
    pub at_s: f64,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Proportional resident memory: pages shared by several programs count in part for each.
    pub pss_bytes: Option<u64>,
    /// Memory of the program itself, resident or swapped out. `rss_bytes` also contains file pages, which the system
    /// keeps or drops at will.
    pub own_bytes: Option<u64>,
    /// Memory that the program has allocated and not freed.
    pub live_bytes: Option<u64>,
    /// Number of processes in the runtime.
    pub processes: u64,
    /// Number of WebAssembly instances.
    pub instances: u64,
    /// Messages in mailboxes; unknown for more than 100,000 processes, because counting would take their CPU time.
    pub queued: Option<u64>,
    /// Number of open files and sockets.
    pub fds: Option<u64>,
    /// Number of operating-system threads.
    pub threads: Option<u64>,
    /// Number of operations up to this time.
    pub ops_total: u64,
}

impl SoakSample {
    /// Takes a sample of this program.
    pub(super) fn take(elapsed: Duration, run: &Run) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:"));
        Self {
            at_s: elapsed.as_secs_f64(),
            rss_bytes: kilobytes(&status, "VmRSS:").map(|kilobytes| kilobytes * 1024),
            pss_bytes: kilobytes(&rollup, "Pss:").map(|kilobytes| kilobytes * 1024),
            own_bytes: own_bytes(&status),
            live_bytes: live_bytes(),
            processes: run.live(),
            instances: observe::engines(run.handle()).iter().map(|engine| engine.live).sum(),
            queued: (run.live() <= QUEUES_COUNTED_MAX).then(|| queued(run.handle())),
            // Subtract 1: the directory being read is open too.
            fds: fs::read_dir("/proc/self/fd").ok().map(|entries| (entries.count() as u64).saturating_sub(1)),
            threads: threads.and_then(|threads| threads.trim().parse().ok()),
            ops_total: run.sampler.last().sums.ops,
        }
    }
}

fn own_bytes(status: &str) -> Option<u64> {
    let swapped = kilobytes(status, "VmSwap:").unwrap_or(0);
    kilobytes(status, "RssAnon:").map(|resident| (resident + swapped) * 1024)
}

/// Returns the number of messages in mailboxes.
fn queued(runtime: &Handle) -> u64 {
    let mut sum = 0;
    for part in 0..observe::table_parts(runtime) {
        observe::for_each_process(runtime, part, |process| sum += process.mailbox_len());
    }
    sum
}
