//! Several runs of one recipe, each on a runtime of its own: a figure without a spread is no figure.

use rusm_runtime::Config;

use crate::document::{Document, Kind};
use crate::headless::{HeadlessError, HeadlessOptions, run_headless};
use crate::machine::Machine;
use crate::recipe::Recipe;
use crate::report::Report;
use crate::stage::StopFlag;

/// The most runs of a report.
pub const RUNS_MAX: u32 = 1_000;

/// Runs a recipe as often as it says or until it is stopped, and tells `seen` of each run.
///
/// A run that is stopped does not count beside others that were not; the only one does.
///
/// # Errors
/// [`HeadlessError`] when nothing could be run, before anything starts if the recipe is wrong; a run that failed is in the
/// report, and is the last.
pub fn run_series(
    recipe: &Recipe,
    runtime: &Config,
    stop: &StopFlag,
    mut seen: impl FnMut(u32, &Report),
) -> Result<Document, HeadlessError> {
    if !(1..=RUNS_MAX).contains(&recipe.runs) {
        return Err(HeadlessError::Runs { runs: recipe.runs });
    }
    let options = HeadlessOptions { stop: stop.clone(), ..recipe.options(runtime) };
    let machine = Machine::look();
    let mut runs = Vec::new();
    for number in 1..=recipe.runs {
        let report = run_headless(&options)?;
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
    Ok(Document::of(Kind::Bench, recipe.clone(), machine, runs))
}
