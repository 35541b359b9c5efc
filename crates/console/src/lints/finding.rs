//! Findings of the detectors.

use std::time::Duration;

use rusm_protocol::Lint;
use rusm_runtime::Pid;

/// Interval of detectors that need no faster one, and of sweeping the board.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of processes that a detector of the census remembers.
pub(super) const KEPT: usize = 4096;
/// Maximum number of findings of one census.
pub(super) const FOUND_MAX: usize = 64;
/// Minimum time for which a warning stays active after the last finding.
pub(super) const HOLD: Duration = Duration::from_secs(5);

/// A finding of a detector, repeated at each look for as long as the condition holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) lint: Lint,
    /// [`Pid::NONE`] for the node as a whole.
    pub(super) pid: Pid,
    pub(super) value: f64,
    pub(super) text: String,
    /// Time for which the warning stays active if the finding is not repeated.
    pub(super) hold: Duration,
}
