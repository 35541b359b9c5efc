//! Errors of a run.

use std::time::Duration;

use rusm_runtime::{ExitReason, Pid, SpawnError, defaults};
use thiserror::Error;

/// Maximum time that a stopping run may take without any of its processes ending.
pub(crate) const END_WITHIN: Duration = Duration::from_secs(30);

/// Error that ends a run.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunError {
    /// A worker ended before the run did, or failed; the reason says which.
    #[error("worker {pid} ended during the run: {reason}")]
    Worker {
        /// Pid of the worker.
        pid: Pid,
        /// Exit reason.
        reason: ExitReason,
    },
    /// The scenario itself failed.
    #[error("the scenario failed: {reason}")]
    Scenario {
        /// Exit reason.
        reason: ExitReason,
    },
    /// The scenario returned before it was asked to stop.
    #[error("the scenario ended by itself after {after:?}")]
    EndedEarly {
        /// Time since the start.
        after: Duration,
    },
    /// The runtime cannot spawn the scenario's workers.
    #[error("cannot start a worker: {0}")]
    Spawn(#[from] SpawnError),
    /// The machine lacks something; the text says what it is and how to get it.
    #[error("{0}")]
    Lacks(String),
    /// The run was ended from outside. Its report has the reason.
    #[error("the run was ended")]
    Aborted,
    /// Messages are unaccounted for: a bug in the runtime.
    #[error("the loss account is not exact: {0}")]
    Account(String),
    /// The run did not end; its processes may still exist.
    #[error("the run was asked to stop, but none of its processes ended in the last {} s", END_WITHIN.as_secs())]
    Stuck,
}

/// Checks that half of the memory is enough for what a run takes at once, as a rule of thumb.
///
/// # Errors
/// [`RunError::Lacks`] if it is not.
pub(crate) fn check_memory(bytes: u64) -> Result<(), RunError> {
    // All mailboxes may take a quarter of the memory.
    let max_bytes = defaults::mailbox_total_bytes().saturating_mul(2);
    if bytes <= max_bytes {
        return Ok(());
    }
    let (bytes, max_bytes) = (bytes >> 20, max_bytes >> 20);
    Err(RunError::Lacks(format!(
        "these parameters take about {bytes} MiB of memory at once, and a run may take half of it, {max_bytes} MiB: choose smaller ones"
    )))
}
