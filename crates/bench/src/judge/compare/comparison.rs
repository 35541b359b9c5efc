//! Comparison of two reports: per figure a ratio with its interval, and an outcome.

use rusm_text::escaped;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::judge::statistics::{Ratio, ratio_of};
use crate::report::Report;
use crate::report::document::{Document, DocumentKind};
use crate::report::figure::{Better, CPU, Figure, RATE, usual};
use crate::report::machine::Fitness;
use crate::report::table::ColumnUnit;
use crate::run::plan::RequestError;
use rusm_text::suggestion;

/// Default threshold: a figure is better or worse if it differs by more than 10 %.
pub const THRESHOLD: f64 = 0.10;

/// Outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The whole interval is beyond the threshold, on the good side.
    Better,
    /// The whole interval is beyond the threshold, on the bad side.
    Worse,
    /// The whole interval is within the threshold.
    Same,
    /// The interval crosses a threshold, or the two reports cannot be compared.
    Inconclusive,
}

impl Outcome {
    /// Returns the outcome as one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Inconclusive => "inconclusive",
        }
    }

    /// Returns the outcome for the interval of the ratio after ÷ before.
    fn of(ratio: Option<Ratio>, better: Better, threshold: f64) -> Self {
        let Some(Ratio { low, high, .. }) = ratio else {
            return Self::Inconclusive;
        };
        let (down, up) = (1.0 - threshold, 1.0 + threshold);
        match better {
            Better::Higher if high < down => Self::Worse,
            Better::Higher if low > up => Self::Better,
            Better::Lower if low > up => Self::Worse,
            Better::Lower if high < down => Self::Better,
            _ if low >= down && high <= up => Self::Same,
            _ => Self::Inconclusive,
        }
    }
}

/// Options of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// Name of the deciding figure; `None` selects the rate of a closed loop or the p99 of an open loop.
    pub decides: Option<String>,
    /// Minimum difference that counts, as a fraction: 0.1 is 10 %.
    pub threshold: f64,
    /// If true, reports from two different machines are judged too.
    pub across_machines: bool,
}

impl CompareOptions {
    /// Checks what can be checked without a report.
    ///
    /// # Errors
    /// [`CompareError::Threshold`] if the threshold is out of range.
    pub fn check(&self) -> Result<(), CompareError> {
        check_threshold(self.threshold)
    }

    /// Checks that reports like this one have the deciding figure.
    ///
    /// # Errors
    /// [`CompareError::Figure`] with the nearest figure that there is.
    pub fn check_figure(&self, report: &Report) -> Result<(), CompareError> {
        let Some(name) = &self.decides else { return Ok(()) };
        let names: Vec<String> =
            Figure::all_of(std::slice::from_ref(report)).into_iter().map(|figure| figure.name).collect();
        if names.contains(name) { Ok(()) } else { Err(CompareError::no_figure(name, &names)) }
    }
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { decides: None, threshold: THRESHOLD, across_machines: false }
    }
}

/// Error returned by [`compare`]: the two reports cannot be compared.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CompareError {
    /// The report's scenario does not exist in this version of rusm.
    #[error("{}: {source}", escaped(name))]
    Unknown {
        /// Name of the file.
        name: String,
        /// The unknown scenario, with the nearest known id.
        source: RequestError,
    },
    /// The reports are of different scenarios.
    #[error(
        "{} is a report of {before_scenario}, {} of {after_scenario}: compare reports of the same scenario",
        escaped(before),
        escaped(after)
    )]
    Scenarios {
        /// Name of the first file.
        before: String,
        /// Scenario of the first file.
        before_scenario: String,
        /// Name of the second file.
        after: String,
        /// Scenario of the second file.
        after_scenario: String,
    },
    /// At least one report does not have the figure. Use a figure that both have.
    #[error("unknown figure {name:?}: {suggestion}")]
    Figure {
        /// The given name.
        name: String,
        /// The nearest name, or all names.
        suggestion: String,
    },
    /// The threshold is out of range. Use one between 0.1 % and 100 %.
    #[error("threshold of {percent} % is not between 0.1 and 100")]
    Threshold {
        /// The given threshold, in per cent.
        percent: f64,
    },
}

impl CompareError {
    fn no_figure(name: &str, known: &[String]) -> Self {
        Self::Figure { name: name.to_owned(), suggestion: suggestion(name, known.iter().map(String::as_str)) }
    }
}

/// One figure of two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the figure.
    pub name: String,
    /// Unit of the values.
    pub unit: ColumnUnit,
    /// Direction in which the figure is better.
    pub better: Better,
    /// Median before.
    pub before: f64,
    /// Median after.
    pub after: f64,
    /// Ratio after ÷ before; `null` if there are too few runs or a value is zero.
    pub ratio: Option<f64>,
    /// Lower end of the 95 % interval of the ratio.
    pub ratio_low: Option<f64>,
    /// Upper end of the interval.
    pub ratio_high: Option<f64>,
    /// Outcome for this figure.
    pub outcome: Outcome,
}

impl Compared {
    pub(crate) fn of(before: &Figure, after: &Figure, ratio: Option<Ratio>, threshold: f64) -> Self {
        Self {
            name: before.name.clone(),
            unit: before.unit,
            better: before.better,
            before: before.median,
            after: after.median,
            ratio: ratio.map(|ratio| ratio.median),
            ratio_low: ratio.map(|ratio| ratio.low),
            ratio_high: ratio.map(|ratio| ratio.high),
            outcome: Outcome::of(ratio, before.better, threshold),
        }
    }
}

/// The result of comparing two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Id of the scenario.
    pub scenario: String,
    /// All figures that both reports have.
    pub figures: Vec<Compared>,
    /// Name of the deciding figure.
    pub decides: String,
    /// Minimum difference that counts, as a fraction.
    pub threshold: f64,
    /// Caveats for the reader: different machines, different parameters, disturbed runs.
    pub notes: Vec<String>,
    /// Outcome of the deciding figure; inconclusive if one of the notes rules out a judgement.
    pub outcome: Outcome,
}

/// Compares two reports, each given with the name of its file.
///
/// # Errors
/// [`CompareError`] if the reports cannot be compared or an option is not valid.
pub fn compare(
    (before_name, before): (&str, &Document),
    (after_name, after): (&str, &Document),
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    check_threshold(options.threshold)?;
    for (name, document) in [(before_name, before), (after_name, after)] {
        if document.kind == DocumentKind::Bench {
            crate::catalogue::find(&document.recipe.scenario)
                .map_err(|source| CompareError::Unknown { name: name.to_owned(), source })?;
        }
    }
    if (before.kind, &before.recipe.scenario) != (after.kind, &after.recipe.scenario) {
        return Err(CompareError::Scenarios {
            before: before_name.to_owned(),
            before_scenario: before.recipe.scenario.clone(),
            after: after_name.to_owned(),
            after_scenario: after.recipe.scenario.clone(),
        });
    }
    let compared = |figure: &Figure| {
        let other = after.figure(&figure.name)?;
        let ratio = ratio_of(&figure.values, &other.values);
        Some(Compared::of(figure, other, ratio, options.threshold))
    };
    let figures: Vec<Compared> = before.figures.iter().filter_map(compared).collect();
    let (decides, said) = deciding(options.decides.as_deref(), before.recipe.rate_per_sec.is_some(), &figures)?;
    let mut notes = recipe_notes(before, after);
    let elsewhere = before.machine.other_machine(&after.machine);
    if !elsewhere.is_empty() {
        notes.push(format!("another machine: {}", elsewhere.join("; ")));
    }
    notes.extend(before.machine.other_conditions(&after.machine));
    let mut outcome = said;
    if !elsewhere.is_empty() && !options.across_machines {
        notes.push("reports of two machines are not judged without --across-machines".to_owned());
        outcome = Outcome::Inconclusive;
    }
    for (name, document) in [(before_name, before), (after_name, after)] {
        if document.runs.len() < defaults_runs() {
            notes.push(format!("{name} has {} runs; an interval needs at least 6", document.runs.len()));
        }
        if document.machine.fitness == Fitness::Unfit {
            notes.push(format!("{name} was measured on a machine that was unfit for measurements"));
        }
        // CPU time per operation is the figure least affected by other load.
        if !document.verdict.is_conclusive() && decides != CPU || document.verdict == crate::report::Verdict::Failed {
            notes.push(format!("{name} is {}", document.verdict.line()));
            outcome = Outcome::Inconclusive;
        }
    }
    Ok(Comparison {
        scenario: before.recipe.scenario.clone(),
        figures,
        decides,
        threshold: options.threshold,
        // Names of files and values of reports may contain line ends.
        notes: notes.iter().map(|note| escaped(note).to_string()).collect(),
        outcome,
    })
}

const fn defaults_runs() -> usize {
    crate::defaults::RUNS as usize
}

pub(crate) fn check_threshold(threshold: f64) -> Result<(), CompareError> {
    if (0.001..=1.0).contains(&threshold) {
        Ok(())
    } else {
        Err(CompareError::Threshold { percent: threshold * 100.0 })
    }
}

/// Returns the name of the deciding figure and its outcome.
pub(crate) fn deciding(
    given: Option<&str>,
    is_open: bool,
    figures: &[Compared],
) -> Result<(String, Outcome), CompareError> {
    let name = given.unwrap_or_else(|| usual(is_open, figures.iter().any(|figure| figure.name == RATE)));
    let found = figures.iter().find(|figure| figure.name == name);
    let names = || figures.iter().map(|figure| figure.name.clone()).collect::<Vec<_>>();
    let found = found.ok_or_else(|| CompareError::no_figure(name, &names()))?;
    Ok((found.name.clone(), found.outcome))
}

/// Lists the differences between the recipes of the two reports.
fn recipe_notes(before: &Document, after: &Document) -> Vec<String> {
    let (a, b) = (&before.recipe, &after.recipe);
    let mut notes = Vec::new();
    let mut differ = |what: &str, before: String, after: String| {
        if before != after {
            notes.push(format!("{what}: {before} before, {after} after"));
        }
    };
    for name in a.params.keys().chain(b.params.keys().filter(|name| !a.params.contains_key(*name))) {
        let value = |params: &std::collections::BTreeMap<String, String>| {
            params.get(name).cloned().unwrap_or_else(|| "unset".to_owned())
        };
        differ(&format!("parameter {name}"), value(&a.params), value(&b.params));
    }
    let rate = |rate: Option<f64>| rate.map_or_else(|| "closed loop".to_owned(), |rate| format!("{rate}/s"));
    differ("offered", rate(a.rate_per_sec), rate(b.rate_per_sec));
    differ("profile", a.profile.clone(), b.profile.clone());
    differ("measured for", format!("{} ms", a.duration_ms), format!("{} ms", b.duration_ms));
    let schedulers = |document: &Document| document.runs.first().map_or(0, |run| run.schedulers).to_string();
    differ("schedulers", schedulers(before), schedulers(after));
    // Reports from older versions do not contain these values.
    if let (Some(before), Some(after)) = (a.process_limit, b.process_limit) {
        differ("process limit", before.to_string(), after.to_string());
    }
    if let (Some(before), Some(after)) = (a.mailbox_capacity, b.mailbox_capacity) {
        differ("mailbox capacity", before.to_string(), after.to_string());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::interval::Rates;
    use crate::report::machine::Machine;
    use crate::report::{Report, Verdict};
    use crate::run::recipe::Recipe;

    fn document(rates: &[f64]) -> Document {
        let run = |rate: &f64| Report {
            ops_per_sec: Rates { median: *rate, ..Rates::default() },
            verdict: Verdict::Steady,
            ..Report::default()
        };
        let recipe = Recipe { scenario: "fan-in".to_owned(), ..Recipe::default() };
        Document::of(DocumentKind::Bench, recipe, Machine::default(), rates.iter().map(run).collect())
    }

    fn outcome(before: &[f64], after: &[f64]) -> Outcome {
        let (before, after) = (document(before), document(after));
        compare(("A", &before), ("B", &after), &CompareOptions::default()).unwrap().outcome
    }

    #[test]
    fn other_mailboxes_and_another_limit_are_said_where_both_reports_know_theirs() {
        let with = |process_limit, mailbox_capacity| {
            let document = document(&STEADY);
            Document { recipe: Recipe { process_limit, mailbox_capacity, ..document.recipe.clone() }, ..document }
        };
        let notes = |before, after| recipe_notes(&before, &after);

        let said = ["process limit: 10 before, 20 after", "mailbox capacity: 16 before, 1024 after"];
        assert_eq!(notes(with(Some(10), Some(16)), with(Some(20), Some(1024))), said);
        assert_eq!(notes(with(None, None), with(Some(20), Some(1024))), Vec::<String>::new());
    }

    const STEADY: [f64; 6] = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0];

    #[test]
    fn beyond_ten_per_cent_is_better_or_worse_and_within_is_the_same() {
        assert_eq!(outcome(&STEADY, &STEADY.map(|rate| rate * 1.2)), Outcome::Better);
        assert_eq!(outcome(&STEADY, &STEADY.map(|rate| rate * 0.8)), Outcome::Worse);
        assert_eq!(outcome(&STEADY, &STEADY.map(|rate| rate * 1.05)), Outcome::Same);
        assert_eq!(outcome(&STEADY, &[60.0, 140.0, 100.0, 70.0, 130.0, 90.0]), Outcome::Inconclusive);
        assert_eq!(outcome(&STEADY[..3], &STEADY), Outcome::Inconclusive);
    }

    #[test]
    fn less_is_better_where_less_is_better() {
        let ratio = Some(Ratio { median: 1.3, low: 1.2, high: 1.4 });

        assert_eq!(Outcome::of(ratio, Better::Lower, THRESHOLD), Outcome::Worse);
        assert_eq!(Outcome::of(ratio, Better::Higher, THRESHOLD), Outcome::Better);
        assert_eq!(Outcome::of(ratio, Better::Lower, 0.5), Outcome::Same);
    }

    #[test]
    fn a_baseline_from_another_machine_is_said_and_not_judged() {
        let (before, mut after) = (document(&STEADY), document(&STEADY.map(|rate| rate * 2.0)));
        after.machine.cores = 64;
        let across = CompareOptions { across_machines: true, ..CompareOptions::default() };

        let judged = compare(("A", &before), ("B", &after), &CompareOptions::default()).unwrap();
        let asked = compare(("A", &before), ("B", &after), &across).unwrap();

        assert_eq!((judged.outcome, asked.outcome), (Outcome::Inconclusive, Outcome::Better));
        assert!(judged.notes.iter().any(|note| note == "another machine: cores: 0 before, 64 after"), "{judged:?}");
    }

    #[test]
    fn what_was_disturbed_is_judged_by_cpu_time_alone() {
        let (before, mut after) = (document(&STEADY), document(&STEADY));
        after.verdict = Verdict::Disturbed;

        let comparison = compare(("A", &before), ("B", &after), &CompareOptions::default()).unwrap();

        assert_eq!(comparison.outcome, Outcome::Inconclusive);
        assert!(comparison.notes.iter().any(|note| note.starts_with("B is disturbed")), "{comparison:?}");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let (good, mut other, mut gone) = (document(&STEADY), document(&STEADY), document(&STEADY));
        other.recipe.scenario = "ping-pong".to_owned();
        gone.recipe.scenario = "fan-out".to_owned();
        let refusal = |after: &Document, options: &CompareOptions| {
            compare(("A", &good), ("B", after), options).unwrap_err().to_string()
        };
        let options = CompareOptions::default();
        let by = CompareOptions { decides: Some("ops_per_sek".to_owned()), ..options.clone() };
        let wide = CompareOptions { threshold: 7.0, ..options.clone() };

        assert_eq!(
            refusal(&other, &options),
            "A is a report of fan-in, B of ping-pong: compare reports of the same scenario"
        );
        assert!(refusal(&gone, &options).starts_with("B: unknown scenario \"fan-out\": "));
        assert_eq!(refusal(&good, &by), "unknown figure \"ops_per_sek\": did you mean \"ops_per_sec\"?");
        assert_eq!(refusal(&good, &wide), "threshold of 700 % is not between 0.1 and 100");
    }

    #[test]
    fn a_comparison_reads_like_this() {
        let (before, mut after) = (document(&STEADY), document(&STEADY.map(|rate| rate * 0.7)));
        after.recipe.params.insert("producers".to_owned(), "8".to_owned());

        let comparison = compare(("A", &before), ("B", &after), &CompareOptions::default()).unwrap();

        insta::assert_snapshot!(comparison.to_string());
    }
}
