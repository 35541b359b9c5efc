//! Measurements on a live node: each kind ends with a verdict, and its result is kept and saved.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusm_bench::{Document, Engine, History};
use rusm_console::Host;
use rusm_protocol::{Results, ResultsView, RunResult, RunSettings};
use rusm_runtime::{Config, Runtime};

/// A node with a history of its own, removed on drop.
struct Node {
    engine: Option<Engine>,
    _runtime: Runtime,
    folder: PathBuf,
}

impl Node {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("rusm-measurements-{name}-{}", std::process::id()));
        let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start");
        let engine = Engine::with_history(runtime.clone(), Some(&folder.join("h.redb"))).expect("threads start");
        Self { engine: Some(engine), _runtime: runtime, folder }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the engine runs")
    }

    fn measure(&self, scenario: &str, settings: RunSettings) -> Result<(), String> {
        let usual = RunSettings { duration_ms: Some(200), warm_up_ms: Some(100), ..RunSettings::default() };
        let settings = RunSettings {
            duration_ms: settings.duration_ms.or(usual.duration_ms),
            warm_up_ms: usual.warm_up_ms,
            ..settings
        };
        self.engine().measure(scenario, &BTreeMap::new(), &settings).map_err(|error| error.message)
    }

    /// Polls until `wanted` holds, for at most two minutes.
    fn see(&self, wanted: impl Fn(&Results) -> bool) -> Results {
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            let seen = self.engine().results(&ResultsView::default());
            if wanted(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{seen:?}");
            std::thread::yield_now();
        }
    }

    /// Waits for the end of measurement `number`.
    fn ended(&self, number: u64) -> RunResult {
        let seen = self.see(|seen| seen.result.as_ref().is_some_and(|it| it.number == number && it.verdict.is_some()));
        *seen.result.expect("it has ended")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.engine.take());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn kind(word: &str) -> RunSettings {
    RunSettings { kind: Some(word.to_owned()), ..RunSettings::default() }
}

#[test]
fn a_measured_run_ends_with_a_verdict_and_is_saved() {
    let mut node = Node::new("run");

    node.measure("ping-pong", RunSettings { runs: Some(2), seed: Some(7), ..RunSettings::default() }).unwrap();
    let result = node.ended(1);

    assert_eq!(result.number, 1);
    assert_eq!((result.settings.seed, result.settings.runs), (Some(7), Some(2)));
    assert!(result.facts.iter().any(|fact| fact.name == "rate") && !result.gates.is_empty(), "{result:?}");
    assert_eq!(result.tables[0].title, "over 2 runs; the lines above are of the median run");
    let listed = node.see(|seen| seen.history_total == 1);
    assert_eq!((listed.history[0].number, listed.history[0].runs), (1, 2));
    let part = node.engine().report(1, 0).expect("it is kept");
    let document = Document::read(&part.text, "report").expect("it is a report");
    assert_eq!((document.runs.len(), document.recipe.seed, part.total), (2, 7, part.text.len() as u64));

    drop(node.engine.take());
    let saved = History::open(&node.folder.join("h.redb")).unwrap().entries(None).unwrap();
    assert_eq!((saved.len(), saved[0].recipe.clone()), (1, document.recipe));
}

#[test]
fn a_run_without_an_end_has_a_report_once_it_is_stopped() {
    let node = Node::new("endless");
    let settings = RunSettings { warm_up_ms: Some(100), rate_per_sec: Some(2_000.0), ..RunSettings::default() };

    node.engine().measure("ping-pong", &BTreeMap::new(), &settings).expect("it is in the catalogue");
    let seen = node.see(|seen| seen.result.as_ref().is_some_and(|result| result.measured_ms >= 300));
    let live = seen.result.expect("it is measured");
    assert_eq!(live.state, "measuring");
    assert!(live.facts.iter().any(|fact| fact.name == "rate"), "{live:?}");
    assert_eq!(node.engine().sample().offered_per_sec.to_bits(), 2_000_f64.to_bits());
    node.engine().stop();
    let result = node.ended(1);

    assert!(result.facts.iter().any(|fact| fact.name == "offered"), "{result:?}");
    assert!(result.settings.duration_ms >= Some(300), "{result:?}");
}

#[test]
fn a_scenario_that_takes_turns_shows_its_table_while_it_runs() {
    let node = Node::new("turns");

    node.measure("ring-size", RunSettings { duration_ms: Some(60_000), ..RunSettings::default() }).unwrap();
    let seen = node.see(|seen| seen.result.as_ref().is_some_and(|result| !result.tables.is_empty()));
    node.engine().stop();

    let result = seen.result.expect("it runs");
    assert!(result.takes_turns && result.rows_total > 0 && result.verdict.is_none(), "{result:?}");
    assert!(node.ended(1).rows_total >= result.rows_total);
}

#[test]
fn a_sweep_has_a_row_for_each_cell() {
    let node = Node::new("sweep");

    let refused = node.measure("ping-pong", RunSettings { grid: vec!["pair=1".to_owned()], ..kind("sweep") });
    node.measure("ping-pong", RunSettings { grid: vec!["pairs=1,2".to_owned()], ..kind("sweep") }).unwrap();
    let result = node.ended(1);

    assert!(refused.unwrap_err().contains("unknown parameter"));
    assert_eq!((result.kind.as_str(), result.rows_total), ("sweep", 2));
    assert_eq!(result.tables[0].columns[0].name, "pairs");
}

#[test]
fn a_long_run_says_when_it_was_too_short() {
    let node = Node::new("soak");

    node.measure("ping-pong", RunSettings { duration_ms: Some(1_500), ..kind("soak") }).unwrap();
    let result = node.ended(1);

    assert!(["too_short", "growing"].contains(&result.verdict.as_deref().unwrap_or_default()), "{result:?}");
    assert!(result.curve.is_some_and(|curve| !curve.points.is_empty()));
}

#[test]
fn a_search_shows_its_levels_as_a_curve() {
    let node = Node::new("saturate");

    let settings = RunSettings { duration_ms: Some(100), runs: Some(1), ..kind("saturate") };
    node.measure("ping-pong", settings).unwrap();
    let seen = node.see(|seen| seen.result.as_ref().is_some_and(|result| result.curve.is_some()));
    node.engine().stop();
    let stopped = node.see(|seen| seen.result.is_none());

    assert!(seen.result.is_some_and(|result| result.rows_total >= 1 && !result.progress.is_empty()));
    assert_eq!(stopped.history_total, 0, "a search that was stopped has no result");
}

#[test]
fn two_settings_are_compared_interleaved_and_two_results_side_by_side() {
    let node = Node::new("ab");
    let refused = node.measure("ping-pong", kind("ab")).unwrap_err();
    node.measure("ping-pong", RunSettings { profile: Some("light".to_owned()), ..RunSettings::default() }).unwrap();
    node.ended(1);

    node.measure("ping-pong", RunSettings { profile: Some("max".to_owned()), runs: Some(2), ..kind("ab") }).unwrap();
    let result = node.ended(2);

    assert_eq!(refused, "no earlier result of ping-pong to compare with: run it first");
    assert_eq!(result.tables[0].title, "these settings over those of #1, 4 pairs, interleaved");
    let words = ["better", "worse", "same", "inconclusive"];
    assert!(words.contains(&result.verdict.as_deref().unwrap_or_default()), "{result:?}");
    node.measure("ping-pong", RunSettings::default()).unwrap();
    node.ended(3);
    let view = ResultsView { run: Some(3), against: Some(1), ..ResultsView::default() };
    let comparison = node.engine().results(&view).comparison.expect("both are kept");
    assert_eq!((comparison.before, comparison.after), (1, 3));
    assert_eq!(comparison.outcome, "inconclusive", "one run each has no interval");
    assert!(comparison.notes.iter().any(|note| note == "profile: light before, max after"), "{comparison:?}");
}

#[test]
fn a_run_that_is_stopped_in_its_warm_up_leaves_no_result() {
    let node = Node::new("early");

    node.engine().measure("ping-pong", &BTreeMap::new(), &RunSettings::default()).expect("it is in the catalogue");
    node.see(|seen| seen.result.as_ref().is_some_and(|result| result.state == "warming_up"));
    node.engine().stop();

    assert_eq!(node.see(|seen| seen.result.is_none()).history_total, 0);
}
