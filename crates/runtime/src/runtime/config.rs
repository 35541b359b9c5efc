//! Configuration of a runtime, its defaults, and the error returned when a runtime cannot start.

use std::time::Duration;

use thiserror::Error;

use crate::runtime::crashes::CrashHook;
use crate::runtime::hooks::{Hook, ProcessExit, ProcessSpawn, SlowPoll};
use crate::runtime::remote::exports::Exports;
use crate::scheduler::parking::SCHEDULERS_MAX;

/// Values of [`Config::default`]; help texts and documents cite them.
pub mod defaults {
    use std::time::Duration;

    /// Maximum number of live processes.
    pub const PROCESS_LIMIT: usize = 16_000_000;
    /// Maximum number of messages in a mailbox.
    pub const MAILBOX_CAPACITY: u32 = 1024;
    /// Maximum heap bytes of the messages in a mailbox.
    pub const MAILBOX_BYTES: u32 = 64 * 1024 * 1024;
    /// Lower bound of [`mailbox_total_bytes`]; a [`Config`](crate::Config) may set less.
    pub const MAILBOX_TOTAL_BYTES_MIN: u64 = MAILBOX_BYTES as u64;
    /// Divisor of the memory that this program may use; the quotient is the default limit of all mailboxes together.
    pub const MAILBOX_TOTAL_SHARE: u64 = 4;

    /// Returns the default maximum of the heap bytes of the messages in all mailboxes: a quarter of the machine's
    /// memory or of the control group's limit, whichever is less, but at least 64 MiB.
    pub fn mailbox_total_bytes() -> u64 {
        let info = rustix::system::sysinfo();
        let machine = info.totalram.saturating_mul(u64::from(info.mem_unit));
        let memory = crate::runtime::cgroup::memory_bytes().map_or(machine, |limit| limit.min(machine));
        (memory / MAILBOX_TOTAL_SHARE).max(MAILBOX_TOTAL_BYTES_MIN)
    }
    /// Maximum wait for the reply to a call that states no timeout.
    pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);
    /// Duration of a poll after which its process is reported as stuck.
    pub const STUCK_AFTER: Duration = Duration::from_millis(200);
    /// Duration of a poll from which it counts as slow.
    pub const SLOW_POLL: Duration = Duration::from_millis(10);
}

/// Configuration of a runtime.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Runtime};
///
/// let config = Config { schedulers: 2, mailbox_capacity: 100, ..Config::default() };
/// let runtime = Runtime::start(config)?;
/// assert_eq!(runtime.config().schedulers, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of scheduler threads, 1–64. Default: one for each core. More threads than cores only add thread switches;
    /// fewer leave cores to other programs.
    pub schedulers: usize,
    /// Maximum number of live processes, 1–256 million. Default 16 million. At the start, the process table reserves 8
    /// bytes for every 1,023 processes; the memory of a process is allocated when it is needed.
    ///
    /// The limit is exact when only one thread spawns. Several threads that spawn at the same time can exceed it by at
    /// most `5 * batch * threads`, where `threads` is `schedulers + 1` and `batch` is `process_limit / (80 * threads)`,
    /// at least 1 and at most 256: each thread keeps up to five batches of free slots that are not counted. The excess
    /// is at most a sixteenth of the limit, or five processes for each thread if that is more.
    pub process_limit: usize,
    /// Maximum number of messages in a mailbox, 1 or more. Default 1,024. A larger one hides a slow receiver longer.
    pub mailbox_capacity: u32,
    /// Maximum heap bytes of the messages in a mailbox; the last message accepted may exceed it. Default 64 MiB.
    pub mailbox_bytes: u32,
    /// Maximum heap bytes of the messages in all mailboxes together, 1 or more. Default: a quarter of the memory that
    /// this program may use, see [`defaults::mailbox_total_bytes`]. Above it, a mailbox that is not empty is full.
    pub mailbox_total_bytes: u64,
    /// Duration of a poll after which its process is reported as stuck. Default 200 ms; the resolution is 100 ms.
    pub stuck_after: Duration,
    /// Logs crashes at `error`, and at most once in a second for each cause. Default: yes. With `RUST_BACKTRACE`, a thread writes
    /// the lines, which ends with the runtime: `std::process::exit` right after a crash loses the line.
    pub log_crashes: bool,
    /// Called with each crash. Default: none. A panic hook that the program has set before its first runtime gets the
    /// panics of processes too, at most one in a second for each place in the code.
    pub on_crash: Option<CrashHook>,
    /// Called before the first poll of each process. Default: none. Without it, a spawn costs what it did.
    pub on_spawn: Option<Hook<ProcessSpawn>>,
    /// Called with the end of each process. Default: none.
    pub on_exit: Option<Hook<ProcessExit>>,
    /// Called after each poll that took [`slow_poll`](Self::slow_poll) or longer. Default: none. With it, each poll reads
    /// the clock twice.
    pub on_slow_poll: Option<Hook<SlowPoll>>,
    /// Duration of a poll from which [`on_slow_poll`](Self::on_slow_poll) is called. Default 10 ms.
    pub slow_poll: Duration,
    /// Types of messages, and process bodies, that this runtime shares with other nodes. Default: bytes and simple
    /// values.
    pub exports: Exports,
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
            log_crashes: true,
            on_crash: None,
            on_spawn: None,
            on_exit: None,
            on_slow_poll: None,
            slow_poll: defaults::SLOW_POLL,
            exports: Exports::default(),
        }
    }
}

/// Error returned when a runtime cannot start.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Runtime};
///
/// let error = Runtime::start(Config { mailbox_capacity: 0, ..Config::default() }).unwrap_err();
/// assert_eq!(error.to_string(), "mailbox_capacity of 0 is not between 1 and 4294967295");
/// ```
#[derive(Debug, Error)]
pub enum StartError {
    /// A value of the configuration is out of range. Choose one between `min` and `max`.
    #[error("{name} of {value} is not between {min} and {max}")]
    OutOfRange {
        /// Name of the field of [`Config`].
        name: &'static str,
        /// Value of the field.
        value: u64,
        /// Smallest valid value.
        min: u64,
        /// Largest valid value.
        max: u64,
    },
    /// The operating system created no thread or event queue: a limit of the user or of the machine is reached.
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
