//! Repeated runs of one recipe, each on a new runtime: a figure is useful only with its spread.

use rusm_runtime::Config;

use crate::report::Report;
use crate::report::document::{Document, DocumentKind};
use crate::report::machine::Machine;
use crate::run::flags::StopFlag;
use crate::run::headless::{HeadlessError, HeadlessOptions, RUNS_MAX, check_duration};
use crate::run::plan::Plan;
use crate::run::recipe::Recipe;
use crate::run::runner::{OnNewRuntimes, Runner};

/// Runs a recipe as many times as it says or until it is stopped, and calls `seen` after each run.
///
/// A stopped run is discarded if there are complete ones; if it is the only run, it is kept.
///
/// # Errors
/// [`HeadlessError`] if nothing could be run, before anything starts if the recipe is not valid. A run that failed is
/// in the report, as the last one.
pub fn run_series(
    recipe: &Recipe,
    runtime: &Config,
    stop: &StopFlag,
    seen: impl FnMut(u32, &Report),
) -> Result<Document, HeadlessError> {
    run_series_by(&mut OnNewRuntimes, recipe, runtime, stop, seen)
}

/// Does the same as [`run_series`] with another runner.
pub(crate) fn run_series_by(
    runner: &mut dyn Runner,
    recipe: &Recipe,
    runtime: &Config,
    stop: &StopFlag,
    mut seen: impl FnMut(u32, &Report),
) -> Result<Document, HeadlessError> {
    if !(1..=RUNS_MAX).contains(&recipe.runs) {
        return Err(HeadlessError::Runs { runs: recipe.runs });
    }
    let options = HeadlessOptions { stop: stop.clone(), ..recipe.options(runtime) };
    check_duration(options.duration)?;
    let plan = Plan::of(&options.request)?;
    let machine = Machine::look();
    let mut runs = Vec::new();
    for number in 1..=recipe.runs {
        let report = runner.run(plan.clone(), &options, &mut |_| ())?;
        if stop.is_set() && (report.ops_total == 0 || !runs.is_empty()) {
            break;
        }
        seen(number, &report);
        let failed = report.error.is_some();
        runs.push(report);
        if failed || stop.is_set() {
            break;
        }
    }
    if runs.is_empty() {
        return Err(HeadlessError::Stopped);
    }
    Ok(Document::of(DocumentKind::Bench, recipe.clone(), machine, runs))
}
