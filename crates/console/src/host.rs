//! The interface between a console and the host of scenarios; an application without scenarios uses [`NoScenarios`].

use std::collections::BTreeMap;

use rusm_protocol::{
    ErrorCode, LatencySnapshot, ReportPart, ResourceProfileMeta, Results, ResultsView, RunSettings, ScenarioMeta,
};
use rusm_text::escaped;

/// Runs scenarios on this node.
///
/// The console calls these methods from its own thread, never from a scheduler. They must return immediately: they
/// start a run and do not wait for it.
pub trait Host: Send + Sync + 'static {
    /// Returns the scenarios that observers may choose from.
    fn scenarios(&self) -> Vec<ScenarioMeta>;

    /// Returns the resource profiles that observers may choose from.
    fn profiles(&self) -> Vec<ResourceProfileMeta>;

    /// Starts a scenario; stops a running one first.
    ///
    /// # Errors
    /// [`HostError`] with a line for the observer, for example an unknown id with the nearest known one.
    fn run(&self, scenario: &str, params: &BTreeMap<String, String>) -> Result<(), HostError>;

    /// Starts a measurement of a scenario with its settings; stops a running one first.
    ///
    /// # Errors
    /// [`HostError`] with a line for the observer.
    fn measure(
        &self,
        scenario: &str,
        params: &BTreeMap<String, String>,
        settings: &RunSettings,
    ) -> Result<(), HostError> {
        if *settings != RunSettings::default() {
            return Err(HostError::out_of_range("this node runs scenarios without settings only".to_owned()));
        }
        self.run(scenario, params)
    }

    /// Returns a number that changes whenever [`results`](Self::results) would.
    fn results_revision(&self) -> u64 {
        0
    }

    /// Returns the results that a view selects; `id`, `seq`, `at_ms` and `cost_us` are filled in by the console.
    fn results(&self, view: &ResultsView) -> Results {
        let _ = view;
        Results::default()
    }

    /// Like [`results`](Self::results), for the flight recorder. Implement it if results that an observer watches cost
    /// more: these are not watched.
    fn recorded_results(&self, view: &ResultsView) -> Results {
        self.results(view)
    }

    /// Returns the part of a result's JSON report that begins at `offset`.
    ///
    /// # Errors
    /// [`HostError`] with a line for the observer, if the node does not have the result.
    fn report(&self, run: u64, offset: u64) -> Result<ReportPart, HostError> {
        let _ = offset;
        Err(HostError { code: ErrorCode::Unknown, message: format!("no result {run} on this node") })
    }

    /// Stops the running scenario, if any.
    fn stop(&self);

    /// Pauses the running scenario, or lets it go on.
    ///
    /// # Errors
    /// [`HostError`] with a line for the observer, if nothing runs or the scenario cannot pause.
    fn pause(&self, paused: bool) -> Result<(), HostError> {
        let _ = paused;
        Err(HostError { code: ErrorCode::Failed, message: "this node cannot pause scenarios".to_owned() })
    }

    /// Selects the resource profile; a running scenario restarts with it.
    ///
    /// # Errors
    /// [`HostError`] with a line for the observer.
    fn set_profile(&self, profile: &str) -> Result<(), HostError>;

    /// Returns the state of the run; called once a tick.
    fn sample(&self) -> RunSnapshot;
}

/// Error returned when a host refuses a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", escaped(message))]
pub struct HostError {
    /// The class of the error.
    pub code: ErrorCode,
    /// The problem and its remedy, in one line.
    pub message: String,
}

impl HostError {
    pub(super) const fn out_of_range(message: String) -> Self {
        Self { code: ErrorCode::OutOfRange, message }
    }
}

/// State of a run. The counters of operations, errors and drops only increase while it lasts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSnapshot {
    /// The scenario's id; `None` when the node is idle.
    pub scenario: Option<String>,
    /// Number of runs started; 0 before the first.
    pub run_id: u64,
    /// Milliseconds since the run started, without its pauses.
    pub run_ms: u64,
    /// True while the run is paused.
    pub paused: bool,
    /// True while the run is in its warm-up.
    pub warming_up: bool,
    /// Error of the last run.
    pub error: Option<String>,
    /// Id of the resource profile.
    pub profile: String,
    /// Operations since the run started.
    pub ops: u64,
    /// Operations since the warm-up.
    pub ops_measured: u64,
    /// Failed operations since the run started.
    pub errors: u64,
    /// Operations given up by a policy since the run started.
    pub dropped: u64,
    /// Operations per second that an open loop offers; 0 for a closed one.
    pub offered_per_sec: f64,
    /// Number of processes that do not belong to the run: those alive before it started.
    pub others_alive: u64,
    /// Maximum number of processes alive at once since the run started.
    pub peak_concurrent: u64,
    /// Latency since the warm-up.
    pub latency: LatencySnapshot,
    /// Latency over the last second.
    pub latency_window: LatencySnapshot,
    /// Sampling interval: one in this many operations is timed.
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
        let message = format!("unknown scenario {scenario:?}: this node has no scenarios");
        Err(HostError { code: ErrorCode::Unknown, message })
    }

    fn stop(&self) {}

    fn set_profile(&self, profile: &str) -> Result<(), HostError> {
        let message = format!("unknown profile {profile:?}: this node has no profiles");
        Err(HostError { code: ErrorCode::Unknown, message })
    }

    fn sample(&self) -> RunSnapshot {
        RunSnapshot::default()
    }
}
