//! `rusm bench sweep`: runs a scenario over a grid of parameters.

use rusm_bench::{HeadlessError, Recipe, cells, parse_grid, run_sweep};

use crate::bench::compare::json;
use crate::bench::conditions::Conditions;
use crate::bench::history;
use crate::bench::output::{progress, publish_as};
use crate::bench::recipe::prepare;
use crate::cli::bench::SweepFlags;
use crate::failure::Failure;
use crate::signals::StopOnSignal;

pub(super) fn run(flags: SweepFlags) -> Result<u8, Failure> {
    let axes = parse_grid(&flags.grid)?;
    let mut prepared = prepare(None, Some(flags.id), flags.recipe)?;
    prepared.recipe.runs = flags.runs;
    let recipes = cells(&Recipe { params: prepared.given, ..prepared.recipe.clone() }, &axes)?;
    let count = recipes.len();
    let mut conditions = Conditions::enter(&flags.conditions)?;
    let signals = StopOnSignal::listen()?;
    let measured =
        run_sweep(&prepared.recipe, axes, &recipes, &prepared.runtime, signals.flag(), |number, cell, document| {
            progress(&format!("cell {number} of {count}: {:?}, {}", cell.params, cell.verdict.line()));
            history::keep(document, &flags.history);
        });
    let left = conditions.leave();
    let sweep = match measured {
        Err(HeadlessError::Stopped) => {
            progress("nothing was measured yet");
            return left.map(|()| signals.code(1));
        }
        sweep => sweep?,
    };
    publish_as(&json(&sweep)?, &sweep.to_tsv(), &flags.output).and(left)?;
    // A cell disturbed by other programs is marked in its row; a failed cell makes the whole sweep fail.
    Ok(signals.code(if sweep.cells.iter().any(|cell| cell.error.is_some()) { 5 } else { 0 }))
}
