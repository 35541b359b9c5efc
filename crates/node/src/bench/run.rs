//! `rusm bench run`: runs a scenario several times.

use std::path::Path;

use rusm_bench::{DocumentKind, HeadlessError, Recipe, Report, run_series};

use crate::bench::conditions::Conditions;
use crate::bench::history;
use crate::bench::output::{code, progress, publish, read, read_report, write};
use crate::bench::recipe::prepare;
use crate::cli::bench::RunFlags;
use crate::failure::Failure;
use crate::signals::StopOnSignal;

pub(super) fn run(flags: RunFlags) -> Result<u8, Failure> {
    let base = match (&flags.from, &flags.profile_file) {
        (Some(path), _) => Some(of_report(path)?),
        (None, Some(path)) => Some(of_file(path)?),
        (None, None) => None,
    };
    let mut prepared = prepare(base, flags.id, flags.recipe)?;
    prepared.recipe.runs = flags.runs.unwrap_or(prepared.recipe.runs);
    let recipe = &prepared.recipe;
    let mut conditions = Conditions::enter(&flags.conditions)?;
    let signals = StopOnSignal::listen()?;
    let measured =
        run_series(recipe, &prepared.runtime, signals.flag(), |number, run| report_progress(number, recipe.runs, run));
    let document = match measured {
        Err(HeadlessError::Stopped) => {
            progress("nothing was measured yet");
            return conditions.leave().map(|()| signals.code(1));
        }
        document => document?,
    };
    // Publish the results even if something fails afterwards.
    let left = conditions.leave();
    let published = publish(&document, &flags.output);
    history::keep(&document, &flags.history);
    let saved = flags.save_profile.as_ref().map_or(Ok(()), |path| write(path, &to_text(recipe)?));
    published.and(left).and(saved)?;
    Ok(signals.code(code(document.verdict)))
}

fn report_progress(number: u32, runs: u32, run: &Report) {
    let cpu = run.cpu_ns_per_op.map_or_else(String::new, |ns| format!(", {ns:.1} ns CPU each"));
    progress(&format!(
        "run {number} of {runs}: {:.0} {}{cpu}; {}",
        run.ops_per_sec.median,
        run.ops_label,
        run.verdict.line()
    ));
}

/// Returns the recipe of a report.
fn of_report(path: &Path) -> Result<Recipe, Failure> {
    let document = read_report(path)?;
    match document.kind {
        DocumentKind::Bench | DocumentKind::Saturate => Ok(document.recipe),
        DocumentKind::Loadtest => Err(Failure::Usage(format!(
            "{} is a report of rusm loadtest: use rusm loadtest --from {}",
            path.display(),
            path.display()
        ))),
    }
}

/// Reads the recipe of a file: TOML as this command writes it, or JSON as in reports.
fn of_file(path: &Path) -> Result<Recipe, Failure> {
    let text = read(path)?;
    let recipe: Result<Recipe, String> = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text).map_err(|error| error.message().replace('\n', " "))
    };
    let recipe = recipe.map_err(|error| Failure::Usage(format!("{} is not a profile: {error}", path.display())))?;
    if recipe.scenario.is_empty() {
        return Err(Failure::Usage(format!("{} is not a profile: it names no scenario", path.display())));
    }
    Ok(recipe)
}

fn to_text(recipe: &Recipe) -> Result<String, Failure> {
    let text = toml::to_string(recipe).map_err(|error| Failure::Usage(format!("cannot write the profile: {error}")))?;
    Ok(format!("# To run this again: rusm bench run --profile-file FILE\n{text}"))
}
