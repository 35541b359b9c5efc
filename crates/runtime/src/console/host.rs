//! What a console asks of whoever brings scenarios; an application without any uses [`NoScenarios`].

use std::collections::BTreeMap;

use rusm_protocol::{ErrorCode, LatencySnapshot, ResourceProfileMeta, ScenarioMeta};
use rusm_text::escaped;

/// Whoever runs scenarios on this node.
///
/// The console calls these methods from its own thread, never from a scheduler. They must return at once: a run is
/// started, not awaited.
pub trait Host: Send + Sync + 'static {
    /// The scenarios that observers may choose from.
    fn scenarios(&self) -> Vec<ScenarioMeta>;

    /// The resource profiles that observers may choose from.
    fn profiles(&self) -> Vec<ResourceProfileMeta>;

    /// Starts a scenario; one that runs already is stopped first.
    ///
    /// # Errors
    /// [`HostError`] with a line for the observer, such as an unknown id with the nearest known one.
    fn run(&self, scenario: &str, params: &BTreeMap<String, String>) -> Result<(), HostError>;

    /// Stops the running scenario, if any.
    fn stop(&self);

    /// Chooses the resource profile; a running scenario starts again with it.
    ///
    /// # Errors
    /// [`HostError`] with a line for the observer.
    fn set_profile(&self, profile: &str) -> Result<(), HostError>;

    /// The state of the run; called once a tick.
    fn sample(&self) -> RunSnapshot;
}

/// Why a host refused a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", escaped(message))]
pub struct HostError {
    /// The class of the error.
    pub code: ErrorCode,
    /// What was wrong and what to do, in one line.
    pub message: String,
}

impl HostError {
    pub(super) const fn out_of_range(message: String) -> Self {
        Self { code: ErrorCode::OutOfRange, message }
    }
}

/// The state of a run, in counters that only go up while it lasts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSnapshot {
    /// The scenario's id; `None` when the node is idle.
    pub scenario: Option<String>,
    /// Counts the runs; 0 before the first.
    pub run_id: u64,
    /// Milliseconds since the run started.
    pub run_ms: u64,
    /// The run is still in its warm-up.
    pub warming_up: bool,
    /// What went wrong with the last run.
    pub error: Option<String>,
    /// The resource profile's id.
    pub profile: String,
    /// Operations since the run started.
    pub ops: u64,
    /// Operations since the warm-up.
    pub ops_measured: u64,
    /// Failed operations since the run started.
    pub errors: u64,
    /// Operations given up by a policy since the run started.
    pub dropped: u64,
    /// Operations a second that an open loop offers; 0 for a closed one.
    pub offered_per_sec: f64,
    /// The most processes alive at once since the run started.
    pub peak_concurrent: u64,
    /// Latency since the warm-up.
    pub latency: LatencySnapshot,
    /// Latency over the last second.
    pub latency_window: LatencySnapshot,
    /// One operation in this many is timed.
    pub latency_sampling: u32,
}

/// A host without scenarios.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoScenarios;

impl Host for NoScenarios {
    fn scenarios(&self) -> Vec<ScenarioMeta> {
        Vec::new()
    }

    fn profiles(&self) -> Vec<ResourceProfileMeta> {
        Vec::new()
    }

    fn run(&self, scenario: &str, _: &BTreeMap<String, String>) -> Result<(), HostError> {
        let message = format!("unknown scenario {scenario:?}: this node has none");
        Err(HostError { code: ErrorCode::Unknown, message })
    }

    fn stop(&self) {}

    fn set_profile(&self, profile: &str) -> Result<(), HostError> {
        let message = format!("unknown profile {profile:?}: this node has none");
        Err(HostError { code: ErrorCode::Unknown, message })
    }

    fn sample(&self) -> RunSnapshot {
        RunSnapshot::default()
    }
}
