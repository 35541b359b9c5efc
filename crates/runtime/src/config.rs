//! What can be set about a runtime.

use std::time::Duration;

use thiserror::Error;

use crate::parking::SCHEDULERS_MAX;

/// The values of [`Config::default`], for help texts and documents.
pub mod defaults {
    use std::time::Duration;

    /// Processes that may live at once.
    pub const PROCESS_LIMIT: usize = 16_000_000;
    /// Messages that a mailbox holds.
    pub const MAILBOX_CAPACITY: u32 = 1024;
    /// Heap bytes of messages that a mailbox holds.
    pub const MAILBOX_BYTES: u32 = 64 * 1024 * 1024;
    /// Least heap bytes of messages that all mailboxes may hold together, unless less is asked for.
    pub const MAILBOX_TOTAL_BYTES_MIN: u64 = MAILBOX_BYTES as u64;
    /// Divisor of the memory that this program may use: the quotient is the default limit of all mailboxes together.
    pub const MAILBOX_TOTAL_SHARE: u64 = 4;

    /// Heap bytes of messages that all mailboxes may hold together: a quarter of the machine's memory or of the control
    /// group's limit, whichever is less, and at least 64 MiB.
    pub fn mailbox_total_bytes() -> u64 {
        let info = rustix::system::sysinfo();
        let machine = info.totalram.saturating_mul(u64::from(info.mem_unit));
        let memory = crate::cgroup::memory_bytes().map_or(machine, |limit| limit.min(machine));
        (memory / MAILBOX_TOTAL_SHARE).max(MAILBOX_TOTAL_BYTES_MIN)
    }
    /// How long a poll may take before its process is called stuck.
    pub const STUCK_AFTER: Duration = Duration::from_millis(200);
}

/// What can be set about a runtime.
#[derive(Clone, Debug)]
pub struct Config {
    /// Scheduler threads, 1–64. Default: one for each core. More only switch threads; fewer leave cores to others.
    pub schedulers: usize,
    /// Processes that may live at once, 1–256 million. Default 16 million. The table of 8 bytes for each 1,023 of them is
    /// reserved at the start; the processes' own memory is not.
    ///
    /// A thread that spawns alone meets the limit exactly. Several that spawn at the same time can exceed it together by at
    /// most `5 * batch * threads`, where `threads` is `schedulers + 1` and `batch` is `process_limit / (80 * threads)`, at
    /// least 1 and at most 256: each keeps up to five batches of free places that are not counted. That is at most a
    /// sixteenth of the limit, or five for each thread where that is more.
    pub process_limit: usize,
    /// Messages that a mailbox holds, 1 or more. Default 1,024. A larger one hides slow receivers longer.
    pub mailbox_capacity: u32,
    /// Heap bytes of messages that a mailbox holds before it counts as full; the last one may go beyond. Default 64 MiB.
    pub mailbox_bytes: u32,
    /// Heap bytes of messages that all mailboxes hold together, 1 or more. Default: a quarter of the memory that this
    /// program may use, see [`defaults::mailbox_total_bytes`]. Beyond it a mailbox that is not empty counts as full.
    pub mailbox_total_bytes: u64,
    /// How long a poll may take before its process is called stuck. Default 200 ms; 100 ms is the finest.
    pub stuck_after: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            schedulers: std::thread::available_parallelism().map_or(1, usize::from).min(SCHEDULERS_MAX),
            process_limit: defaults::PROCESS_LIMIT,
            mailbox_capacity: defaults::MAILBOX_CAPACITY,
            mailbox_bytes: defaults::MAILBOX_BYTES,
            mailbox_total_bytes: defaults::mailbox_total_bytes(),
            stuck_after: defaults::STUCK_AFTER,
        }
    }
}

/// Why a runtime did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Choose a number in the range.
    #[error("{name} of {value} is not between {min} and {max}")]
    OutOfRange {
        /// The field of [`Config`].
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// The operating system refused a thread or an event queue; the limits of the user or of the machine are reached.
    #[error("cannot start a scheduler: {0}")]
    System(#[from] std::io::Error),
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let ranges = [
            ("schedulers", self.schedulers as u64, SCHEDULERS_MAX as u64),
            ("process_limit", self.process_limit as u64, 256_000_000),
            ("mailbox_capacity", u64::from(self.mailbox_capacity), u64::from(u32::MAX)),
            ("mailbox_bytes", u64::from(self.mailbox_bytes), u64::from(u32::MAX)),
            ("mailbox_total_bytes", self.mailbox_total_bytes, u64::MAX),
        ];
        match ranges.into_iter().find(|(_, value, max)| !(1..=*max).contains(value)) {
            Some((name, value, max)) => Err(StartError::OutOfRange { name, value, min: 1, max }),
            None => Ok(()),
        }
    }
}
