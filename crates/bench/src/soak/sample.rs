//! What a process holds at one instant.

use std::fs;
use std::time::Duration;

use rusm_runtime::{Handle, observe};
use serde::Serialize;

use crate::live_bytes::live_bytes;
use crate::run::Run;
use crate::usage::kilobytes;

/// Processes whose mailboxes are looked at once a second.
const LOOKED_AT_MAX: u64 = 100_000;

/// What a process holds at one instant; `null` where the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SoakSample {
    /// Since the warm-up, in seconds.
    pub at_s: f64,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Resident memory, of which what several programs share counts for each in part.
    pub pss_bytes: Option<u64>,
    /// Memory of the program itself, resident or swapped out. `rss_bytes` has pages of files too, which the system keeps or drops
    /// as it likes.
    pub own_bytes: Option<u64>,
    /// What the program has allocated and not given back.
    pub live_bytes: Option<u64>,
    /// Processes of the runtime.
    pub processes: u64,
    /// Instances of WebAssembly.
    pub instances: u64,
    /// Messages that wait in mailboxes; unknown of more than 100,000 processes, because looking would take their time.
    pub queued: Option<u64>,
    /// Open files and sockets.
    pub fds: Option<u64>,
    /// Threads of the operating system.
    pub threads: Option<u64>,
    /// Operations so far.
    pub ops_total: u64,
}

impl SoakSample {
    /// Looks at this process.
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
            queued: (run.live() <= LOOKED_AT_MAX).then(|| queued(run.handle())),
            // The folder that is being read is open too.
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

/// Messages that wait in mailboxes.
fn queued(runtime: &Handle) -> u64 {
    let mut sum = 0;
    for part in 0..observe::table_parts(runtime) {
        observe::glimpses(runtime, part, |process| sum += process.mailbox_len());
    }
    sum
}
