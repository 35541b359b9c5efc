//! State shared by the engine, its driver and the history thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusm_console::RunSnapshot;
use rusm_protocol::LatencySnapshot;

use crate::defaults;
use crate::live::kept::ResultsState;
use crate::live::measurement::Measurement;
use crate::measure::meter::{Meter, Sums};
use crate::run::profile::Profile;

/// Time after the last look of an observer for which results are computed while a run goes on.
const WATCHED_FOR: Duration = Duration::from_secs(3);

/// State shared by the engine and its driver.
#[derive(Default)]
pub(crate) struct EngineShared {
    state: Mutex<EngineState>,
    changed: Condvar,
}

impl EngineShared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock()
    }

    /// Sets the wanted measurement and wakes the driver.
    pub(crate) fn set_wanted(&self, mut state: MutexGuard<'_, EngineState>, wanted: Option<Measurement>) {
        state.wanted = wanted;
        state.paused = false;
        state.revision += 1;
        self.changed.notify_one();
    }

    /// Waits until the revision differs from `seen`, or until the time `until`.
    pub(crate) fn changed_since(&self, seen: u64, until: Option<Instant>) -> MutexGuard<'_, EngineState> {
        let mut state = self.lock();
        while state.revision == seen {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match left {
                Some(left) if left.is_zero() => return state,
                Some(left) => drop(self.changed.wait_for(&mut state, left)),
                None => self.changed.wait(&mut state),
            }
        }
        state
    }
}

/// The requested state, the state of the current or last run, and the results.
pub(crate) struct EngineState {
    pub(crate) profile: Profile,
    /// The measurement that should run.
    pub(crate) wanted: Option<Measurement>,
    /// Number of requests received; the last request wins.
    pub(crate) revision: u64,
    /// True if the current run is to pause.
    pub(crate) paused: bool,
    pub(crate) quit: bool,
    /// The current run, or the last one.
    pub(crate) view: Option<RunView>,
    pub(crate) last_error: Option<String>,
    pub(crate) results: ResultsState,
    /// Time at which an observer last looked at the results.
    pub(crate) looked_at: Option<Instant>,
}

impl Default for EngineState {
    fn default() -> Self {
        Self {
            profile: defaults::PROFILE,
            wanted: None,
            revision: 0,
            paused: false,
            quit: false,
            view: None,
            last_error: None,
            results: ResultsState::default(),
            looked_at: None,
        }
    }
}

/// A run as seen by observers.
pub(crate) struct RunView {
    pub(crate) scenario: &'static str,
    pub(crate) run_id: u64,
    pub(crate) started: Instant,
    /// Length of its pauses that are over, and start of the present one.
    pub(crate) pauses: (Duration, Option<Instant>),
    pub(crate) meter: Arc<Meter>,
    pub(crate) offered_per_sec: f64,
    /// Number of processes before the run.
    pub(crate) others_alive: u64,
    /// Counters at the end of the warm-up.
    pub(crate) cut: Option<Sums>,
    pub(crate) latency: LatencySnapshot,
    pub(crate) latency_window: LatencySnapshot,
    pub(crate) peak_live: u64,
    /// Counters and age in milliseconds at the end of the run.
    pub(crate) ended: Option<(Sums, u64)>,
}

impl RunView {
    /// Returns the time since the start of the run, without its pauses.
    pub(crate) fn age(&self) -> Duration {
        let (paused, since) = self.pauses;
        since.unwrap_or_else(Instant::now).saturating_duration_since(self.started).saturating_sub(paused)
    }
}

impl EngineState {
    /// Records why the measurement of a revision does not run, and drops it: otherwise a later change of the profile
    /// would start it again. A newer request is kept.
    pub(crate) fn give_up(&mut self, revision: u64, error: String) {
        self.last_error = Some(error);
        self.done(revision);
    }

    /// Drops the measurement of a revision after its end. A newer request is kept.
    pub(crate) fn done(&mut self, revision: u64) {
        if self.revision == revision {
            self.paused = false;
            self.wanted = None;
        }
    }

    /// Returns true if an observer looks at the results.
    pub(crate) fn is_watched(&self, now: Instant) -> bool {
        self.looked_at.is_some_and(|at| now.saturating_duration_since(at) < WATCHED_FOR)
    }

    pub(crate) fn snapshot(&self) -> RunSnapshot {
        let idle = RunSnapshot {
            profile: self.profile.id().to_owned(),
            error: self.last_error.clone(),
            ..RunSnapshot::default()
        };
        let Some(view) = &self.view else {
            return idle;
        };
        let (sums, run_ms) = view.ended.unwrap_or_else(|| (view.meter.sums(), view.age().as_millis() as u64));
        RunSnapshot {
            scenario: view.ended.is_none().then(|| view.scenario.to_owned()),
            run_id: view.run_id,
            run_ms,
            paused: view.ended.is_none() && self.paused,
            warming_up: view.ended.is_none() && view.cut.is_none(),
            ops: sums.ops,
            ops_measured: view.cut.map_or(0, |cut| sums.ops - cut.ops),
            errors: sums.errors,
            dropped: sums.dropped,
            offered_per_sec: view.offered_per_sec,
            others_alive: view.others_alive,
            peak_concurrent: view.peak_live.max(sums.peak_live),
            latency: view.latency,
            latency_window: view.latency_window,
            latency_sampling: view.meter.sampling(),
            ..idle
        }
    }
}
