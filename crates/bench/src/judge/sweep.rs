//! Runs a scenario over a grid of parameters, one cell per combination.
//!
//! ```text
//!   pairs=1,8,64 × payload=0,1KiB ──▶ six cells, checked before the first runs ──▶ TSV for people, JSON for programs
//! ```

use std::collections::BTreeMap;

use rusm_runtime::Config;
use rusm_text::escaped;
use serde::Serialize;
use thiserror::Error;

use crate::report::Verdict;
use crate::report::document::{Document, Origin};
use crate::report::figure::Figure;
use crate::report::machine::Machine;
use crate::run::flags::StopFlag;
use crate::run::headless::HeadlessError;
use crate::run::plan::{Plan, RequestError};
use crate::run::recipe::Recipe;
use crate::run::runner::{OnNewRuntimes, Runner};
use crate::run::series::run_series_by;

/// Maximum number of cells in a grid.
pub const CELLS_MAX: u128 = 10_000;

/// A parameter and its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// Name of the parameter.
    pub name: String,
    /// Values of the parameter, in order.
    pub values: Vec<String>,
}

/// Error returned when a grid is not valid.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum GridError {
    /// An axis has the wrong form. Give it as `name=a,b,c`.
    #[error("grid {text:?} is not of the form name=a,b,c")]
    Form {
        /// The text given.
        text: String,
    },
    /// A parameter is named more than once. Name each once.
    #[error("grid parameter {} is given twice", escaped(name))]
    Twice {
        /// The parameter.
        name: String,
    },
    /// The grid has too many cells. Give fewer values.
    #[error("a grid of {cells} cells is more than {CELLS_MAX}")]
    TooMany {
        /// Number of cells that the grid would have.
        cells: u128,
    },
    /// A cell has a parameter that is unknown or out of range.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Parses the axes of a grid and checks the number of cells.
///
/// # Errors
/// [`GridError`] for the first axis that is not valid.
pub fn parse_grid(texts: &[String]) -> Result<Vec<Axis>, GridError> {
    let mut axes: Vec<Axis> = Vec::new();
    for text in texts {
        let form = || GridError::Form { text: text.clone() };
        let (name, values) = text.split_once('=').ok_or_else(form)?;
        let name = name.trim().to_owned();
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if name.is_empty() || values.iter().any(String::is_empty) {
            return Err(form());
        }
        if axes.iter().any(|axis| axis.name == name) {
            return Err(GridError::Twice { name });
        }
        axes.push(Axis { name, values });
    }
    let cells = axes.iter().fold(1_u128, |cells, axis| cells.saturating_mul(axis.values.len() as u128));
    if cells > CELLS_MAX { Err(GridError::TooMany { cells }) } else { Ok(axes) }
}

/// Result of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// Time and machine of the sweep; its recipe holds what all cells have in common.
    #[serde(flatten)]
    pub origin: Origin,
    /// Parameters in which the cells differ.
    pub axes: Vec<Axis>,
    /// Cells; the last parameter changes fastest.
    pub cells: Vec<SweepCell>,
}

/// One combination of parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepCell {
    /// Parameters of this cell.
    pub params: BTreeMap<String, String>,
    /// Assessment of its runs.
    pub verdict: Verdict,
    /// Error of a run that failed.
    pub error: Option<String>,
    /// Figures of this cell.
    pub figures: Vec<Figure>,
}

/// Returns the checked recipes of all cells. Parameters with default values are written out in each.
///
/// The parameters given in `recipe` keep their text.
///
/// # Errors
/// [`GridError::Request`] for the first cell that cannot be run.
pub fn cells(recipe: &Recipe, axes: &[Axis]) -> Result<Vec<Recipe>, GridError> {
    let mut recipes = vec![recipe.clone()];
    for axis in axes {
        let with = |recipe: &Recipe, value: &String| {
            let mut recipe = recipe.clone();
            recipe.params.insert(axis.name.clone(), value.clone());
            recipe
        };
        recipes = recipes.iter().flat_map(|recipe| axis.values.iter().map(move |value| with(recipe, value))).collect();
    }
    for recipe in &mut recipes {
        // Values that follow from a parameter, such as those of a preset, can differ between cells.
        let plan = Plan::of(&recipe.request())?;
        // Keep the given values as they were written.
        let given = std::mem::replace(&mut recipe.params, plan.params.said());
        recipe.params.extend(given);
    }
    Ok(recipes)
}

/// Runs all cells, or as many as are complete when it is stopped, and calls `seen` for each cell with its report.
///
/// # Errors
/// [`HeadlessError`] if nothing could be run. A cell that failed is in the result.
pub fn run_sweep(
    recipe: &Recipe,
    axes: Vec<Axis>,
    recipes: &[Recipe],
    runtime: &Config,
    stop: &StopFlag,
    seen: impl FnMut(usize, &SweepCell, &Document),
) -> Result<Sweep, HeadlessError> {
    run_sweep_by(&mut OnNewRuntimes, recipe, axes, recipes, runtime, stop, seen)
}

/// Does the same as [`run_sweep`] with another runner.
pub(crate) fn run_sweep_by(
    runner: &mut dyn Runner,
    recipe: &Recipe,
    axes: Vec<Axis>,
    recipes: &[Recipe],
    runtime: &Config,
    stop: &StopFlag,
    mut seen: impl FnMut(usize, &SweepCell, &Document),
) -> Result<Sweep, HeadlessError> {
    let machine = Machine::look();
    let mut cells = Vec::new();
    for (number, cell) in recipes.iter().enumerate() {
        let document: Document = match run_series_by(runner, cell, runtime, stop, |_, _| ()) {
            Err(HeadlessError::Stopped) if !cells.is_empty() => break,
            document => document?,
        };
        // Drop the interrupted cell: it was measured for less time than the others.
        if stop.is_set() && !cells.is_empty() {
            break;
        }
        let value = |axis: &Axis| Some((axis.name.clone(), cell.params.get(&axis.name)?.clone()));
        let cell = SweepCell {
            params: axes.iter().filter_map(value).collect(),
            verdict: document.verdict,
            error: document.runs.iter().find_map(|run| run.error.clone()),
            figures: document.figures.clone(),
        };
        seen(number + 1, &cell, &document);
        cells.push(cell);
    }
    Ok(Sweep { origin: Origin::of(recipe.clone(), machine), axes, cells })
}

impl Sweep {
    /// Returns one line per cell with columns separated by tabs; the numbers are medians.
    pub fn to_tsv(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for figure in self.cells.iter().flat_map(|cell| &cell.figures) {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
        let axes = self.axes.iter().map(|axis| axis.name.as_str());
        let mut lines = vec![axes.chain(names.iter().copied()).chain(["verdict"]).collect::<Vec<_>>().join("\t")];
        for cell in &self.cells {
            let params = self.axes.iter().map(|axis| cell.params.get(&axis.name).cloned().unwrap_or_default());
            let figure = |name: &&str| {
                let found = cell.figures.iter().find(|figure| figure.name == **name);
                found.map_or_else(String::new, |figure| format!("{:.3}", figure.median))
            };
            let error = cell.error.as_ref().map(|error| error.replace(['\t', '\n'], " "));
            let verdict = error.unwrap_or_else(|| cell.verdict.word().to_owned());
            lines.push(params.chain(names.iter().map(figure)).chain([verdict]).collect::<Vec<_>>().join("\t"));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(texts: &[&str]) -> Result<Vec<Axis>, GridError> {
        parse_grid(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_grid_has_a_cell_for_each_combination() {
        let axes = grid(&["pairs=1,8", "payload=0,1KiB,64KiB"]).unwrap();
        let recipe = Recipe { scenario: "ping-pong".to_owned(), ..Recipe::default() };

        let cells = cells(&recipe, &axes).unwrap();

        let shown: Vec<String> =
            cells.iter().map(|cell| format!("{}/{}", cell.params["pairs"], cell.params["payload"])).collect();
        assert_eq!(shown, ["1/0", "1/1KiB", "1/64KiB", "8/0", "8/1KiB", "8/64KiB"]);
    }

    #[test]
    fn each_cell_has_what_its_own_preset_stands_for() {
        let axes = grid(&["preset=none,balanced,fresh"]).unwrap();
        let given = |params: &[(&str, &str)]| Recipe {
            scenario: "counter-vsa".to_owned(),
            params: params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..Recipe::default()
        };
        let thresholds = |recipe: &Recipe| {
            let cells = cells(recipe, &axes).unwrap();
            cells.iter().map(|cell| cell.params["threshold"].clone()).collect::<Vec<_>>()
        };

        let [none, balanced, fresh] = &thresholds(&given(&[]))[..] else { panic!("three cells") };
        assert!(balanced != fresh && none != balanced && none != fresh, "{none} {balanced} {fresh}");
        assert_eq!(thresholds(&given(&[("threshold", "50")])), ["50"; 3], "what is given wins");
    }

    #[test]
    fn grids_with_mistakes_are_refused() {
        let thousand = format!("a={}", vec!["1"; 1000].join(","));
        let million = grid(&[&thousand, &thousand.replace('a', "b")]).unwrap_err();
        let recipe = Recipe { scenario: "ping-pong".to_owned(), ..Recipe::default() };

        assert_eq!(million.to_string(), "a grid of 1000000 cells is more than 10000");
        assert_eq!(grid(&["pairs"]).unwrap_err().to_string(), "grid \"pairs\" is not of the form name=a,b,c");
        assert!(grid(&["pairs=1,,2"]).is_err() && grid(&["a=1", "a=2"]).is_err());
        let error = cells(&recipe, &grid(&["pairs=1,0"]).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "pairs of \"0\" is not in auto, 1–100000");
    }

    #[test]
    fn a_table_of_cells_has_a_column_for_each_figure() {
        let cell = |value: &str, rate| SweepCell {
            params: [("pairs".to_owned(), value.to_owned())].into(),
            verdict: Verdict::Steady,
            error: None,
            figures: Figure::all_of(&[crate::report::Report {
                ops_per_sec: crate::measure::interval::Rates { median: rate, ..Default::default() },
                ..Default::default()
            }]),
        };
        let sweep = Sweep {
            origin: Origin::default(),
            axes: grid(&["pairs=1,2"]).unwrap(),
            cells: vec![cell("1", 10.0), cell("2", 20.5)],
        };

        assert_eq!(sweep.to_tsv(), "pairs\tops_per_sec\tverdict\n1\t10.000\tsteady\n2\t20.500\tsteady");
    }
}
