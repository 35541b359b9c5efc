//! Runs scenarios on a live node for its observers.
//!
//! ```text
//!   console ── run / stop / set_profile ──▶ Engine ──▶ EngineShared: plan ──▶ driver thread: Run, tick every 100 ms
//!           ◀── sample, at the frame rate ──────────── EngineShared ◀── latencies ──────┘
//!                                                         └ counters directly from the meter: never stale
//! ```
//!
//! Commands are validated immediately and executed by the driver, so a caller never waits for a run to end. The last
//! request wins: a request that is revoked before the driver reads it is never started.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use rusm_console::{Host, HostError, RunSnapshot};
use rusm_protocol::{LatencySnapshot, ResourceProfileMeta, ScenarioMeta};
use rusm_runtime::Handle;

use crate::catalogue::catalogue;
use crate::defaults;
use crate::measure::meter::{Meter, Sums};
use crate::measure::schedule::Rate;
use crate::measure::steady::SteadyRule;
use crate::run::error::RunError;
use crate::run::execution::Run;
use crate::run::plan::{Plan, Request, profile};
use crate::run::profile::Profile;

/// Runs scenarios on a live node; dropping it ends the run.
pub struct Engine {
    shared: Arc<EngineShared>,
    driver: Option<JoinHandle<()>>,
    cores: usize,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates an engine for a runtime.
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
        let shared = Arc::new(EngineShared::default());
        let cores = handle.config().schedulers;
        let mut driver = Driver { handle, rule, shared: Arc::clone(&shared), seen: 0, run: None, runs: 0 };
        let driver = Builder::new().name("rusm-bench".to_owned()).spawn(move || driver.drive())?;
        Ok(Self { shared, driver: Some(driver), cores })
    }

    /// Starts the requested run; a run in progress is stopped first.
    ///
    /// If the request names no profile, the last profile set is used.
    ///
    /// # Errors
    /// [`HostError`] with a one-line message for the caller.
    pub fn request(&self, request: &Request) -> Result<(), HostError> {
        let mut plan = Plan::of(request)?;
        let mut state = self.shared.lock();
        match request.profile {
            Some(_) => state.profile = plan.profile,
            None => plan.profile = state.profile,
        }
        // The error belongs to the previous run.
        state.last_error = None;
        self.shared.set_wanted(state, Some(plan));
        Ok(())
    }
}

impl Host for Engine {
    fn scenarios(&self) -> Vec<ScenarioMeta> {
        catalogue().iter().map(|scenario| scenario.card().meta()).collect()
    }

    fn profiles(&self) -> Vec<ResourceProfileMeta> {
        Profile::ALL.map(|profile| profile.meta(self.cores)).to_vec()
    }

    fn run(&self, scenario: &str, params: &BTreeMap<String, String>) -> Result<(), HostError> {
        self.request(&Request { scenario: scenario.to_owned(), params: params.clone(), ..Request::default() })
    }

    fn stop(&self) {
        self.shared.set_wanted(self.shared.lock(), None);
    }

    fn set_profile(&self, id: &str) -> Result<(), HostError> {
        let profile = profile(id)?;
        let mut state = self.shared.lock();
        state.profile = profile;
        if let Some(plan) = state.wanted.take() {
            self.shared.set_wanted(state, Some(Plan { profile, ..plan }));
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

/// State shared by the engine and its driver.
#[derive(Default)]
struct EngineShared {
    state: Mutex<EngineState>,
    changed: Condvar,
}

impl EngineShared {
    fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the wanted plan and wakes the driver.
    fn set_wanted(&self, mut state: MutexGuard<'_, EngineState>, wanted: Option<Plan>) {
        state.wanted = wanted;
        state.revision += 1;
        self.changed.notify_one();
    }

    /// Waits until the revision differs from `seen`, or until the time `until`.
    fn changed_since(&self, seen: u64, until: Option<Instant>) -> MutexGuard<'_, EngineState> {
        let mut state = self.lock();
        while state.revision == seen {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            state = match left {
                Some(left) if left.is_zero() => return state,
                Some(left) => match self.changed.wait_timeout(state, left) {
                    Ok((state, _)) => state,
                    Err(poisoned) => poisoned.into_inner().0,
                },
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state
    }
}

/// The requested state, and the state of the current or last run.
struct EngineState {
    profile: Profile,
    /// The plan that should run.
    wanted: Option<Plan>,
    /// Number of requests received; the last request wins.
    revision: u64,
    quit: bool,
    /// The current run, or the last one.
    view: Option<RunView>,
    last_error: Option<String>,
}

impl Default for EngineState {
    fn default() -> Self {
        Self { profile: defaults::PROFILE, wanted: None, revision: 0, quit: false, view: None, last_error: None }
    }
}

/// A run as seen by observers.
struct RunView {
    scenario: &'static str,
    run_id: u64,
    started: Instant,
    meter: Arc<Meter>,
    offered_per_sec: f64,
    /// Counters at the end of the warm-up.
    cut: Option<Sums>,
    latency: LatencySnapshot,
    latency_window: LatencySnapshot,
    peak_live: u64,
    /// Counters and age in milliseconds at the end of the run.
    ended: Option<(Sums, u64)>,
}

impl EngineState {
    /// Records why the plan of a revision does not run, and drops the plan: otherwise a later change of the profile
    /// would start it again. A newer request is kept.
    fn give_up(&mut self, revision: u64, error: String) {
        self.last_error = Some(error);
        if self.revision == revision {
            self.wanted = None;
        }
    }

    fn snapshot(&self) -> RunSnapshot {
        let idle = RunSnapshot {
            profile: self.profile.id().to_owned(),
            error: self.last_error.clone(),
            ..RunSnapshot::default()
        };
        let Some(view) = &self.view else {
            return idle;
        };
        let (sums, run_ms) =
            view.ended.unwrap_or_else(|| (view.meter.sums(), view.started.elapsed().as_millis() as u64));
        RunSnapshot {
            scenario: view.ended.is_none().then(|| view.scenario.to_owned()),
            run_id: view.run_id,
            run_ms,
            warming_up: view.ended.is_none() && view.cut.is_none(),
            ops: sums.ops,
            ops_measured: view.cut.map_or(0, |cut| sums.ops - cut.ops),
            errors: sums.errors,
            dropped: sums.dropped,
            offered_per_sec: view.offered_per_sec,
            peak_concurrent: view.peak_live.max(sums.peak_live),
            latency: view.latency,
            latency_window: view.latency_window,
            latency_sampling: view.meter.sampling(),
            ..idle
        }
    }
}

/// State of the thread that starts, ticks and ends runs.
struct Driver {
    handle: Handle,
    rule: SteadyRule,
    shared: Arc<EngineShared>,
    /// Revision of the request that was carried out last.
    seen: u64,
    run: Option<Run>,
    runs: u64,
}

impl Driver {
    fn drive(&mut self) {
        loop {
            let next_tick = self.run.as_ref().map(Run::next_tick);
            let state = self.shared.changed_since(self.seen, next_tick);
            if state.revision == self.seen {
                drop(state);
                self.tick();
                continue;
            }
            self.seen = state.revision;
            let (wanted, quit) = (state.wanted.clone(), state.quit);
            drop(state);
            self.end();
            if quit {
                return;
            }
            if let Some(plan) = wanted {
                self.start(plan);
            }
        }
    }

    fn start(&mut self, plan: Plan) {
        self.runs += 1;
        let card = plan.scenario.card();
        let rate = plan.rate;
        match Run::start(&self.handle, plan, self.rule) {
            Ok(run) => {
                let mut state = self.shared.lock();
                state.last_error = None;
                state.view = Some(RunView {
                    scenario: card.id,
                    run_id: self.runs,
                    started: run.started,
                    meter: Arc::clone(&run.meter),
                    offered_per_sec: rate.map_or(0.0, Rate::per_sec),
                    cut: None,
                    latency: LatencySnapshot::default(),
                    latency_window: LatencySnapshot::default(),
                    peak_live: 0,
                    ended: None,
                });
                drop(state);
                self.run = Some(run);
            }
            Err(error) => self.shared.lock().give_up(self.seen, error.to_string()),
        }
    }

    fn tick(&mut self) {
        let Some(run) = &mut self.run else { return };
        let goes_on = run.tick(Instant::now());
        let (cumulative, window) = (run.sampler.cumulative(), run.sampler.window());
        if let Some(view) = &mut self.shared.lock().view {
            view.cut = run.sampler.cut().map(|cut| cut.reading.sums);
            view.latency = cumulative;
            view.latency_window = window;
            view.peak_live = run.peak_live();
        }
        if !goes_on {
            self.end();
        }
    }

    fn end(&mut self) {
        let Some(run) = self.run.take() else { return };
        let sums = run.meter.sums();
        let outcome: Result<(), RunError> = run.finish();
        let mut state = self.shared.lock();
        if let Some(view) = &mut state.view {
            view.ended = Some((sums, view.started.elapsed().as_millis() as u64));
            view.latency_window = LatencySnapshot::default();
        }
        if let Err(error) = outcome {
            state.give_up(self.seen, error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use rusm_runtime::{Config, Runtime};

    use super::*;

    #[test]
    fn what_could_not_be_started_is_not_wanted_any_longer() {
        let config = Config { schedulers: 1, process_limit: 1, ..Config::default() };
        let runtime = Runtime::start(config).unwrap();
        while runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).is_ok() {}
        let plan = Plan::of(&Request { scenario: "ping-pong".to_owned(), ..Request::default() }).unwrap();
        let shared = Arc::new(EngineShared::default());
        let driver = |seen| Driver {
            handle: runtime.clone(),
            rule: SteadyRule::default(),
            shared: Arc::clone(&shared),
            seen,
            run: None,
            runs: 0,
        };

        shared.set_wanted(shared.lock(), Some(plan.clone()));
        shared.set_wanted(shared.lock(), Some(plan.clone()));
        driver(1).start(plan.clone());
        assert!(shared.lock().wanted.is_some(), "the newer request is kept");
        driver(2).start(plan);

        let state = shared.lock();
        let error = state.last_error.clone().unwrap_or_default();
        assert!(state.wanted.is_none() && error.contains("limit"), "{error}");
    }
}
