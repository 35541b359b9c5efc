//! Runs scenarios on a live node for its observers.
//!
//! Commands are validated immediately and executed by the driver, so a caller never waits for a run to end. The last
//! request wins: a request that is revoked before the driver reads it is never started.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use rusm_console::{Host, HostError, RunSnapshot};
use rusm_protocol::{
    ErrorCode, REPORT_PART_MAX_BYTES, ReportPart, ResourceProfileMeta, Results, ResultsView, RunSettings, ScenarioMeta,
};
use rusm_runtime::{Config, Handle};

use crate::catalogue::{catalogue, find};
use crate::gates::described;
use crate::live::driver::Driver;
use crate::live::measurement::{Measurement, Wish};
use crate::live::page::results;
use crate::live::saved::HistoryWriter;
use crate::live::state::EngineShared;
use crate::measure::steady::SteadyRule;
use crate::run::plan::{Request, profile};
use crate::run::profile::Profile;
use crate::scenario::Scenario;

/// Runs scenarios on a live node; dropping it ends the run.
pub struct Engine {
    shared: Arc<EngineShared>,
    driver: Option<JoinHandle<()>>,
    config: Config,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates an engine for a runtime. It keeps results in memory only.
    ///
    /// # Errors
    /// Returns an error if the driver thread cannot be spawned.
    pub fn start(handle: Handle) -> io::Result<Self> {
        Self::with_rule(handle, SteadyRule::default())
    }

    /// Creates an engine with another rule for the length of warm-ups.
    ///
    /// # Errors
    /// Returns an error if the driver thread cannot be spawned.
    pub fn with_rule(handle: Handle, rule: SteadyRule) -> io::Result<Self> {
        Self::spawn(handle, rule, Arc::default(), None)
    }

    /// Creates an engine that also saves results in a history file, the one of `rusm bench history`; `None` if there
    /// is no place for one.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be spawned.
    pub fn with_history(handle: Handle, path: Option<&Path>) -> io::Result<Self> {
        let shared = Arc::<EngineShared>::default();
        let history = path.map(|path| HistoryWriter::start(path.to_owned(), Arc::clone(&shared))).transpose()?;
        if history.is_none() {
            let why = "results are not saved: neither XDG_DATA_HOME nor HOME is set".to_owned();
            shared.lock().results.history_error = Some(why);
        }
        Self::spawn(handle, SteadyRule::default(), shared, history)
    }

    fn spawn(
        handle: Handle,
        rule: SteadyRule,
        shared: Arc<EngineShared>,
        history: Option<HistoryWriter>,
    ) -> io::Result<Self> {
        let config = handle.config().clone();
        let mut driver = Driver { handle, shared: Arc::clone(&shared), rule, history, seen: 0, runs: 0 };
        let driver = Builder::new().name("rusm-bench".to_owned()).spawn(move || driver.drive())?;
        Ok(Self { shared, driver: Some(driver), config })
    }

    /// Starts the requested run; a run in progress is stopped first.
    ///
    /// If the request names no profile, the last profile set is used.
    ///
    /// # Errors
    /// [`HostError`] with a one-line message for the caller.
    pub fn request(&self, request: &Request) -> Result<(), HostError> {
        let settings = RunSettings {
            profile: request.profile.clone(),
            rate_per_sec: request.rate_per_sec,
            seed: request.seed,
            ..RunSettings::default()
        };
        self.measure(&request.scenario, &request.params, &settings)
    }
}

impl Host for Engine {
    fn scenarios(&self) -> Vec<ScenarioMeta> {
        catalogue().iter().map(|scenario| described(*scenario, &self.config)).collect()
    }

    fn profiles(&self) -> Vec<ResourceProfileMeta> {
        Profile::ALL.map(|profile| profile.meta(self.config.schedulers)).to_vec()
    }

    fn run(&self, scenario: &str, params: &BTreeMap<String, String>) -> Result<(), HostError> {
        self.measure(scenario, params, &RunSettings::default())
    }

    fn measure(
        &self,
        scenario: &str,
        params: &BTreeMap<String, String>,
        settings: &RunSettings,
    ) -> Result<(), HostError> {
        let mut state = self.shared.lock();
        let wish = Wish { scenario, params, settings, profile: state.profile };
        let results = &state.results;
        let measurement = Measurement::of(&wish, &self.config, |number| results.recipe(scenario, number))?;
        if settings.profile.is_some() {
            state.profile = profile(&measurement.recipe.profile)?;
        }
        // The error belongs to the previous run.
        state.last_error = None;
        self.shared.set_wanted(state, Some(measurement));
        Ok(())
    }

    fn results_revision(&self) -> u64 {
        let mut state = self.shared.lock();
        state.looked_at = Some(Instant::now());
        state.results.revision
    }

    fn results(&self, view: &ResultsView) -> Results {
        let mut state = self.shared.lock();
        state.looked_at = Some(Instant::now());
        results(&mut state.results, view)
    }

    fn recorded_results(&self, view: &ResultsView) -> Results {
        results(&mut self.shared.lock().results, view)
    }

    fn report(&self, run: u64, offset: u64) -> Result<ReportPart, HostError> {
        let text = self.shared.lock().results.report(run).ok_or_else(|| {
            let message = format!("this node does not keep result {run} with its report");
            HostError { code: ErrorCode::Unknown, message }
        })?;
        let from = text.floor_char_boundary(usize::try_from(offset).unwrap_or(usize::MAX));
        let to = text.floor_char_boundary(from.saturating_add(REPORT_PART_MAX_BYTES));
        let part = text[from..to].to_owned();
        Ok(ReportPart { id: 0, number: run, offset: from as u64, total: text.len() as u64, text: part })
    }

    fn stop(&self) {
        self.shared.set_wanted(self.shared.lock(), None);
    }

    fn pause(&self, paused: bool) -> Result<(), HostError> {
        let mut state = self.shared.lock();
        let failed = |message: String| HostError { code: ErrorCode::Failed, message };
        let running = state.view.as_ref().filter(|view| view.ended.is_none()).map(|view| view.scenario);
        let Some(scenario) = running else {
            return Err(failed("no scenario runs: there is nothing to pause".to_owned()));
        };
        if !find(scenario).is_ok_and(Scenario::pauses) {
            return Err(failed(format!("{scenario} cannot be paused: a part of its load never yields; stop it")));
        }
        state.paused = paused;
        Ok(())
    }

    fn set_profile(&self, id: &str) -> Result<(), HostError> {
        let profile = profile(id)?;
        let mut state = self.shared.lock();
        state.profile = profile;
        if let Some(measurement) = state.wanted.take() {
            self.shared.set_wanted(state, Some(measurement.with_profile(profile)));
        }
        Ok(())
    }

    fn sample(&self) -> RunSnapshot {
        self.shared.lock().snapshot()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.quit = true;
        self.shared.set_wanted(state, None);
        if let Some(driver) = self.driver.take() {
            // A panic of the driver has already been reported by the panic hook.
            drop(driver.join());
        }
    }
}

#[cfg(test)]
mod tests;
