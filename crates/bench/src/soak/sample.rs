//! What a process holds at one instant.

use std::fs;
use std::time::Duration;

use serde::Serialize;

use crate::live_bytes::live_bytes;
use crate::run::Run;
use crate::usage::kilobytes;

/// What a process holds at one instant; `null` where the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SoakSample {
    /// Since the warm-up, in seconds.
    pub at_s: f64,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Resident memory, of which what several programs share counts for each in part.
    pub pss_bytes: Option<u64>,
    /// What the program has allocated and not given back.
    pub live_bytes: Option<u64>,
    /// Processes of the runtime.
    pub processes: u64,
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
            live_bytes: live_bytes(),
            processes: run.live(),
            // The folder that is being read is open too.
            fds: fs::read_dir("/proc/self/fd").ok().map(|entries| (entries.count() as u64).saturating_sub(1)),
            threads: threads.and_then(|threads| threads.trim().parse().ok()),
            ops_total: run.sampler.last().sums.ops,
        }
    }
}
