//! The thread that carries out measurements on the node's runtime, one after the other.
//!
//! ```text
//!   wanted ──▶ carry out: series, sweep, saturation, soak or comparison ──▶ each run by `LiveRunner`
//!                 │                                                            │ tick: counters and, if an observer looks,
//!                 ▼                                                            ▼ the sheet of the run so far
//!              kept, saved in the history                                   EngineShared
//! ```
//!
//! Any newer request ends the run at once: its flag is set, and the measurement that it belonged to ends with what is
//! complete.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusm_protocol::LatencySnapshot;
use rusm_runtime::{Config, Handle};

use crate::judge::compare::{CompareOptions, Interleaved, Round, Side, order};
use crate::judge::saturate::{Level, SaturateOptions, SystemError, SystemUnderTest, saturate};
use crate::judge::scenario_system::ScenarioSystem;
use crate::judge::soak::{SoakSample, run_soak_by};
use crate::judge::sweep::{Axis, SweepCell, run_sweep_by};
use crate::live::kept::{Complete, Current};
use crate::live::measurement::{Head, Kind, Measurement};
use crate::live::memory_guard::MemoryGuard;
use crate::live::saved::HistoryWriter;
use crate::live::sheet::Sheet;
use crate::live::state::{EngineShared, RunView};
use crate::measure::schedule::Rate;
use crate::measure::steady::SteadyRule;
use crate::report::Report;
use crate::report::document::{Document, DocumentKind, Origin};
use crate::report::history::Entry;
use crate::report::machine::Machine;
use crate::run::execution::Run;
use crate::run::flags::StopFlag;
use crate::run::headless::{HeadlessError, HeadlessOptions};
use crate::run::plan::Plan;
use crate::run::recipe::Recipe;
use crate::run::runner::Runner;
use crate::run::series::run_series_by;
use crate::scenario::Scenario;

/// Shortest time between two sheets of a run that goes on.
const SHEET_EVERY: Duration = Duration::from_millis(500);
/// A sheet is computed again only after this multiple of the time that it took.
const SHEET_PAUSE: u32 = 50;

/// State of the thread.
pub(crate) struct Driver {
    pub(crate) handle: Handle,
    pub(crate) shared: Arc<EngineShared>,
    /// Length of warm-ups without a setting of their own.
    pub(crate) rule: SteadyRule,
    pub(crate) history: Option<HistoryWriter>,
    /// Revision of the request that is carried out.
    pub(crate) seen: u64,
    pub(crate) runs: u64,
}

impl Driver {
    pub(crate) fn drive(&mut self) {
        loop {
            let state = self.shared.changed_since(self.seen, None);
            self.seen = state.revision;
            let (wanted, quit) = (state.wanted.clone(), state.quit);
            drop(state);
            if quit {
                return;
            }
            if let Some(measurement) = wanted {
                self.carry_out(&measurement);
            }
        }
    }

    /// Carries out a measurement and keeps its result.
    pub(crate) fn carry_out(&mut self, measurement: &Measurement) {
        let takes_turns = crate::catalogue::find(&measurement.recipe.scenario).is_ok_and(Scenario::takes_turns);
        let head = {
            let mut state = self.shared.lock();
            let results = &mut state.results;
            results.numbers += 1;
            let head = Head {
                number: results.numbers,
                kind: measurement.kind.word(),
                recipe: measurement.recipe.clone(),
                settings: measurement.settings.clone(),
                takes_turns,
            };
            results.current = Some(Current {
                head: head.clone(),
                state: "preparing",
                step: 0,
                steps: 0,
                progress: String::new(),
                measured_ms: 0,
                planned_ms: 0,
                sheet: Arc::default(),
            });
            results.revision += 1;
            head
        };
        let config = self.handle.config().clone();
        let stop = StopFlag::default();
        let runner = LiveRunner {
            handle: self.handle.clone(),
            shared: Arc::clone(&self.shared),
            seen: self.seen,
            runs: &mut self.runs,
            machine: Machine::look(),
            is_endless: measurement.is_endless,
            sheet_due: Instant::now(),
            shows_run: matches!(measurement.kind, Kind::Series),
        };
        let mut job = Job { runner, shared: Arc::clone(&self.shared), config, stop };
        let complete = job.complete(measurement, self.rule);
        self.finish(head, complete);
    }

    fn finish(&mut self, head: Head, complete: Result<(Complete, Vec<Entry>), HeadlessError>) {
        let mut state = self.shared.lock();
        state.results.current = None;
        state.results.revision += 1;
        let error = match complete {
            Ok((complete, saved)) => {
                let recipe = match &complete {
                    Complete::Series(document) => document.recipe.clone(),
                    _ => head.recipe.clone(),
                };
                let head = Head { recipe, ..head };
                let error = failure(&complete);
                if let Some(history) = &self.history
                    && !history.save(saved.clone())
                {
                    state.results.history_error = Some("too many results wait to be saved".to_owned());
                }
                state.results.failed = None;
                state.results.keep(head, complete, saved);
                error
            }
            // Stopped before anything was measured: there is no result.
            Err(HeadlessError::Stopped) => None,
            Err(error) => {
                let error = error.to_string();
                state.results.failed = Some((head, error.clone()));
                Some(error)
            }
        };
        match error {
            Some(error) => state.give_up(self.seen, error),
            None => state.done(self.seen),
        }
    }
}

/// Returns the error of a run that failed.
fn failure(complete: &Complete) -> Option<String> {
    match complete {
        Complete::Series(document) => document.runs.iter().find_map(|run| run.error.clone()),
        Complete::Sweep(sweep) => sweep.cells.iter().find_map(|cell| cell.error.clone()),
        Complete::Soak(soak) => soak.run.error.clone(),
        Complete::Saturation(_) => None,
        Complete::Ab { judged, .. } => judged.runs.iter().flatten().find_map(|run| run.error.clone()),
    }
}

/// A measurement in progress.
struct Job<'a> {
    runner: LiveRunner<'a>,
    shared: Arc<EngineShared>,
    config: Config,
    stop: StopFlag,
}

impl Job<'_> {
    fn complete(
        &mut self,
        measurement: &Measurement,
        rule: SteadyRule,
    ) -> Result<(Complete, Vec<Entry>), HeadlessError> {
        let mut recipe = measurement.recipe.clone();
        if measurement.settings.warm_up_ms.is_none() {
            recipe.warm_up_min_ms = rule.min.as_millis() as u64;
            recipe.warm_up_max_ms = rule.max.as_millis() as u64;
        }
        match &measurement.kind {
            Kind::Series => self.series(recipe, measurement.is_endless),
            Kind::Sweep { axes, cells } => self.sweep(&recipe, axes, cells),
            Kind::Saturate(options) => self.saturate(recipe, options),
            Kind::Soak => self.soak(&recipe),
            Kind::Ab { baseline, number } => self.ab(recipe, baseline, *number),
        }
    }

    fn series(&mut self, mut recipe: Recipe, is_endless: bool) -> Result<(Complete, Vec<Entry>), HeadlessError> {
        let (shared, runs) = (Arc::clone(&self.shared), recipe.runs);
        self.step(1, runs);
        let seen = |number: u32, report: &Report| {
            let rate = report.ops_per_sec.median;
            let line = format!("run {number} of {runs}: {rate:.0} {}; {}", report.ops_label, report.verdict.line());
            progress(&shared, line, (number + 1).min(runs), runs);
        };
        let document = run_series_by(&mut self.runner, &recipe, &self.config, &self.stop, seen)?;
        let Some(run) = document.runs.first() else { return Err(HeadlessError::Stopped) };
        if is_endless || self.stop.is_set() {
            // The warm-up was not over.
            if run.error.is_none() && run.warm_up.duration_s <= 0.0 {
                return Err(HeadlessError::Stopped);
            }
            // The report is repeated for as long as it was measured.
            recipe.duration_ms = ((run.duration_s * 1e3).round() as u64).max(100);
        }
        let document = Document { recipe, ..document };
        let entry = Entry::of(&document);
        Ok((Complete::Series(Box::new(document)), vec![entry]))
    }

    fn sweep(
        &mut self,
        recipe: &Recipe,
        axes: &[Axis],
        cells: &[Recipe],
    ) -> Result<(Complete, Vec<Entry>), HeadlessError> {
        let warm = |cell: &Recipe| Recipe {
            warm_up_min_ms: recipe.warm_up_min_ms,
            warm_up_max_ms: recipe.warm_up_max_ms,
            ..cell.clone()
        };
        let cells: Vec<Recipe> = cells.iter().map(warm).collect();
        let (shared, count) = (Arc::clone(&self.shared), cells.len() as u32);
        let (mut done, mut saved): (Vec<SweepCell>, Vec<Entry>) = (Vec::new(), Vec::new());
        self.step(1, count);
        let seen = |number: usize, cell: &SweepCell, document: &Document| {
            saved.push(Entry::of(document));
            done.push(cell.clone());
            let values: Vec<String> = cell.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let line = format!("cell {number} of {count}: {}, {}", values.join(" "), cell.verdict.line());
            progress(&shared, line, (number as u32 + 1).min(count), count);
            show(&shared, Sheet::of_cells(axes, &done));
        };
        let sweep = run_sweep_by(&mut self.runner, recipe, axes.to_vec(), &cells, &self.config, &self.stop, seen)?;
        Ok((Complete::Sweep(Box::new(sweep)), saved))
    }

    fn saturate(&mut self, recipe: Recipe, options: &SaturateOptions) -> Result<(Complete, Vec<Entry>), HeadlessError> {
        let shared = Arc::clone(&self.shared);
        let card = Plan::of(&recipe.request())?.scenario.card();
        let (stop, machine) = (self.stop.clone(), self.runner.machine.clone());
        let runner = StoppedByFlag { runner: &mut self.runner, stop: stop.clone() };
        let system = ScenarioSystem::with_runner(recipe.clone(), self.config.clone(), None, Box::new(runner))?;
        let mut system = Watched { system, shared: Arc::clone(&shared), capacity: None, levels: Vec::new() };
        let found = saturate(&mut system, options, |line| progress(&shared, line.to_owned(), 0, 0));
        let found = match found {
            _ if stop.is_set() => return Err(HeadlessError::Stopped),
            Err(SystemError::Headless(error)) => return Err(error),
            Err(SystemError::Failed(error)) => return Err(HeadlessError::Failed(error)),
            Ok(found) => found.of(card.id, card.ops_label, Origin::of(recipe, machine)),
        };
        let entry = Entry::of_saturation(&found);
        Ok((Complete::Saturation(Box::new(found)), vec![entry]))
    }

    fn soak(&mut self, recipe: &Recipe) -> Result<(Complete, Vec<Entry>), HeadlessError> {
        let shared = Arc::clone(&self.shared);
        let mut samples: Vec<SoakSample> = Vec::new();
        let mut due = Instant::now();
        let seen = |sample: &SoakSample| {
            samples.push(sample.clone());
            let now = Instant::now();
            if now >= due && shared.lock().is_watched(now) {
                show(&shared, Sheet::of_samples(&samples));
                due = now + SHEET_EVERY.max(now.elapsed() * SHEET_PAUSE);
            }
        };
        let soak = run_soak_by(&mut self.runner, recipe, &self.config, &self.stop, seen)?;
        let entry = Entry::of(&soak.document());
        Ok((Complete::Soak(Box::new(soak)), vec![entry]))
    }

    /// Runs two recipes alternately.
    fn ab(&mut self, recipe: Recipe, baseline: &Recipe, number: u64) -> Result<(Complete, Vec<Entry>), HeadlessError> {
        let rounds = recipe.runs;
        let recipe = Recipe { runs: 1, ..recipe };
        let warm_up = (recipe.warm_up_min_ms, recipe.warm_up_max_ms);
        let baseline = Recipe { warm_up_min_ms: warm_up.0, warm_up_max_ms: warm_up.1, ..baseline.clone() };
        let shared = Arc::clone(&self.shared);
        let machine = self.runner.machine.clone();
        let judge = |rounds: &[Round]| Interleaved::of(rounds.to_vec(), &CompareOptions::default());
        let mut done: Vec<Round> = Vec::new();
        'rounds: for round in 0..rounds {
            let mut runs = Vec::new();
            for (place, side) in order(round).into_iter().enumerate() {
                let of_side = if side == Side::Baseline { &baseline } else { &recipe };
                progress(
                    &shared,
                    format!("round {} of {rounds}: {side:?}", round + 1),
                    round * 4 + place as u32 + 1,
                    rounds * 4,
                );
                let options = HeadlessOptions { stop: self.stop.clone(), ..of_side.options(&self.config) };
                let report = self.runner.run(Plan::of(&options.request)?, &options, &mut |_| ())?;
                let failed = report.error.is_some();
                runs.push(report);
                // An interrupted round is dropped: its runs are not a set of pairs.
                if self.stop.is_set() || failed {
                    break 'rounds;
                }
            }
            done.extend(Round::try_from(runs).ok());
            if let Ok(judged) = judge(&done) {
                show(&shared, Sheet::of_interleaved(&judged, number, false));
            }
        }
        let judged = judge(&done).map_err(|_nothing_to_judge| HeadlessError::Stopped)?;
        let commit = machine.commit.clone();
        let judged = judged.made(Origin::of(recipe.clone(), machine.clone()), commit);
        let saved = [(Side::Baseline, baseline), (Side::Candidate, recipe)].map(|(side, recipe)| {
            Entry::of(&Document::of(DocumentKind::Bench, recipe, machine.clone(), judged.runs_of(side)))
        });
        Ok((Complete::Ab { judged: Box::new(judged), baseline: number }, saved.to_vec()))
    }

    fn step(&self, step: u32, steps: u32) {
        progress(&self.shared, String::new(), step, steps);
    }
}

/// Shows the last progress.
fn progress(shared: &EngineShared, line: String, step: u32, steps: u32) {
    let mut state = shared.lock();
    let results = &mut state.results;
    if let Some(current) = &mut results.current {
        (current.progress, current.step, current.steps) = (line, step, steps);
        results.revision += 1;
    }
}

/// Shows what is known so far.
fn show(shared: &EngineShared, sheet: Sheet) {
    let mut state = shared.lock();
    let results = &mut state.results;
    if let Some(current) = &mut results.current {
        current.sheet = Arc::new(sheet);
        results.revision += 1;
    }
}

/// A system under test whose levels are shown while a search goes on.
struct Watched<'a> {
    system: ScenarioSystem<'a>,
    shared: Arc<EngineShared>,
    /// Rate of the first closed loop: the loads of the levels are shares of it.
    capacity: Option<f64>,
    levels: Vec<Level>,
}

impl SystemUnderTest for Watched<'_> {
    fn closed(&mut self, workers: Option<u64>) -> Result<f64, SystemError> {
        let rate = self.system.closed(workers)?;
        self.capacity.get_or_insert(rate);
        Ok(rate)
    }

    fn offer(&mut self, per_sec: f64) -> Result<Level, SystemError> {
        let level = self.system.offer(per_sec)?;
        let load = self.capacity.map_or(level.load, |capacity| per_sec / capacity);
        self.levels.push(Level { load, ..level.clone() });
        show(&self.shared, Sheet::of_levels(&self.levels));
        Ok(level)
    }
}

/// Gives the stop flag of a measurement to each of its runs: a search creates the options of its runs itself.
#[derive(Debug)]
struct StoppedByFlag<'a, 'b> {
    runner: &'a mut LiveRunner<'b>,
    stop: StopFlag,
}

impl Runner for StoppedByFlag<'_, '_> {
    fn run(
        &mut self,
        plan: Plan,
        options: &HeadlessOptions,
        seen: &mut dyn FnMut(&mut Run),
    ) -> Result<Report, HeadlessError> {
        let options = HeadlessOptions { stop: self.stop.clone(), ..options.clone() };
        if self.stop.is_set() {
            return Err(HeadlessError::Stopped);
        }
        self.runner.run(plan, &options, seen)
    }

    fn is_alone(&self) -> bool {
        self.runner.is_alone()
    }
}

/// Runs plans on the runtime of the node.
struct LiveRunner<'a> {
    handle: Handle,
    shared: Arc<EngineShared>,
    seen: u64,
    runs: &'a mut u64,
    machine: Machine,
    is_endless: bool,
    sheet_due: Instant,
    /// True if the sheet is that of the run itself.
    shows_run: bool,
}

impl fmt::Debug for LiveRunner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRunner").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Runner for LiveRunner<'_> {
    fn run(
        &mut self,
        plan: Plan,
        options: &HeadlessOptions,
        seen: &mut dyn FnMut(&mut Run),
    ) -> Result<Report, HeadlessError> {
        *self.runs += 1;
        let schedulers = self.handle.config().schedulers;
        let mut run = Run::start(&self.handle, plan, options.warm_up)?;
        if !self.is_endless {
            run.expect(options.duration.max(options.warm_up.max));
        }
        self.begin(&run);
        let guard = MemoryGuard::watch(&run);
        loop {
            let state = self.shared.changed_since(self.seen, Some(run.next_tick()));
            let is_revoked = state.revision != self.seen;
            drop(state);
            if is_revoked {
                options.stop.set();
                break;
            }
            let now = Instant::now();
            run.set_paused(self.shared.lock().paused, now);
            let goes_on = run.tick(now);
            self.tick(&mut run, options, schedulers);
            if !run.is_paused() {
                seen(&mut run);
            }
            if !goes_on || (!self.is_endless && run.sampler.measured() >= options.duration) {
                break;
            }
        }
        // The report of a run that is stopped in a pause does not contain the pause.
        run.set_paused(false, Instant::now());
        let report = Report::on(&mut run, schedulers, self.machine.clone());
        let (tables, late_errors, sums) = (run.tables.clone(), run.late_errors(), run.meter.sums());
        let outcome = run.finish();
        drop(guard);
        let mut state = self.shared.lock();
        if let Some(view) = &mut state.view {
            view.ended = Some((sums, view.age().as_millis() as u64));
            view.latency_window = LatencySnapshot::default();
        }
        // At once, so that an observer never sees a run that failed as one that ended.
        if let Err(error) = &outcome {
            state.last_error = Some(error.to_string());
        }
        drop(state);
        Ok(report.with_tables(&tables).with_errors(late_errors()).ended(outcome))
    }

    fn is_alone(&self) -> bool {
        false
    }
}

impl LiveRunner<'_> {
    fn begin(&self, run: &Run) {
        let card = run.plan.scenario.card();
        let mut state = self.shared.lock();
        state.last_error = None;
        state.view = Some(RunView {
            scenario: card.id,
            run_id: *self.runs,
            started: run.started,
            pauses: (Duration::ZERO, None),
            meter: Arc::clone(&run.meter),
            offered_per_sec: run.plan.rate.map_or(0.0, Rate::per_sec),
            others_alive: run.live_before(),
            cut: None,
            latency: LatencySnapshot::default(),
            latency_window: LatencySnapshot::default(),
            peak_live: 0,
            ended: None,
        });
    }

    fn tick(&mut self, run: &mut Run, options: &HeadlessOptions, schedulers: usize) {
        let (cumulative, window) = (run.sampler.cumulative(), run.sampler.window());
        let now = Instant::now();
        let mut state = self.shared.lock();
        let is_due = now >= self.sheet_due && state.is_watched(now);
        if let Some(view) = &mut state.view {
            view.cut = run.sampler.cut().map(|cut| cut.reading.sums);
            view.started = run.started;
            view.pauses = run.sampler.pauses();
            view.latency = cumulative;
            view.latency_window = window;
            view.peak_live = run.peak_live();
        }
        if !is_due {
            return;
        }
        drop(state);
        let sheet = self.shows_run.then(|| {
            let report = Report::on(run, schedulers, self.machine.clone()).with_tables(&run.tables);
            Arc::new(Sheet::of_report(&report))
        });
        self.sheet_due = now + SHEET_EVERY.max(now.elapsed() * SHEET_PAUSE);
        let mut state = self.shared.lock();
        let results = &mut state.results;
        if let Some(current) = &mut results.current {
            current.state = if run.is_paused() {
                "paused"
            } else if run.sampler.cut().is_some() {
                "measuring"
            } else {
                "warming_up"
            };
            current.measured_ms = run.sampler.measured().as_millis() as u64;
            current.planned_ms = if self.is_endless { 0 } else { options.duration.as_millis() as u64 };
            if let Some(sheet) = sheet {
                current.sheet = sheet;
            }
            results.revision += 1;
        }
    }
}
