//! Thresholds of the lints, with their defaults.

use std::time::Duration;

/// Thresholds from which lints are raised.
///
/// ```
/// # mod rusm { pub use rusm_console as console; }
/// use rusm::console::{ConsoleConfig, LintThresholds};
///
/// let lint_thresholds = LintThresholds { hog_pct: 70, ..LintThresholds::DEFAULT };
/// let config = ConsoleConfig { lint_thresholds, ..ConsoleConfig::named("shop") };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LintThresholds {
    /// `never_yields`: mean duration from which polls count as long. Default 10 ms.
    pub never_yields_poll: Duration,
    /// `busy_loop`: time for which a process must have been ready without a pause. Default 5 s.
    pub busy_loop_after: Duration,
    /// `hog`: share of one scheduler, in per cent. Default 90.
    pub hog_pct: u8,
    /// `restart_storm`: restarts per second on the whole node. Default 50.
    pub restart_storm_per_sec: u32,
    /// `mailbox_growing`: shorter mailboxes are ignored, in messages. Default 64.
    pub mailbox_growing_len: u32,
    /// `unreceived`: time for which a process must have received nothing beside its messages. Default 10 s.
    pub unreceived_after: Duration,
    /// `slow_subscriber`: fill of a topic or a stream, in per cent. Default 80.
    pub slow_subscriber_pct: u8,
    /// `pool_nearly_full`: use of a limited resource, in per cent. Default 90.
    pub pool_nearly_full_pct: u8,
    /// `memory_slope`: growth of the resident set, in bytes per minute. Default 16 MiB.
    pub memory_slope_per_min: u64,
    /// `wait_cycle`: time for which a cycle of waits must exist. Default 1 s.
    pub wait_cycle_after: Duration,
    /// `idle_scheduler`: time for which a scheduler must sleep while processes wait. Default 1 s.
    pub idle_scheduler_after: Duration,
}

impl LintThresholds {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        never_yields_poll: Duration::from_millis(10),
        busy_loop_after: Duration::from_secs(5),
        hog_pct: 90,
        restart_storm_per_sec: 50,
        mailbox_growing_len: 64,
        unreceived_after: Duration::from_secs(10),
        slow_subscriber_pct: 80,
        pool_nearly_full_pct: 90,
        memory_slope_per_min: 16 << 20,
        wait_cycle_after: Duration::from_secs(1),
        idle_scheduler_after: Duration::from_secs(1),
    };
}

impl Default for LintThresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}
