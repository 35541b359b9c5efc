//! A report file: several runs of one recipe, their combined figures, and the machine they ran on.
//!
//! ```text
//!   Recipe + runs + Machine ──▶ Document ──▶ JSON (schemas/report.schema.json) ─┬─▶ Document: compare, run again, …
//!                                                                               └─▶ error if a newer rusm wrote it
//! ```
//!
//! Fields are only ever added. The version is increased if a reader of the old version could misread the new one.

mod text;

use rusm_text::{escape, escaped, is_all_plain};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use thiserror::Error;

use crate::report::figure::Figure;
use crate::report::machine::Machine;
use crate::report::timestamp;
use crate::report::{Report, Verdict};
use crate::run::recipe::Recipe;

/// Version of the report schema that this program writes, and the newest that it can read.
pub const SCHEMA_VERSION: u32 = 1;

/// A report of several runs of one recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Version of the schema.
    pub schema_version: u32,
    /// Kind of measurement.
    pub kind: DocumentKind,
    /// Time at which the last run ended, in UTC.
    pub recorded_at: String,
    /// The recipe that repeats the measurement.
    pub recipe: Recipe,
    /// Verdict over all runs.
    pub verdict: Verdict,
    /// Each quantity over all runs.
    pub figures: Vec<Figure>,
    /// The runs, in order.
    pub runs: Vec<Report>,
    /// The machine, in its state before the first run.
    pub machine: Machine,
}

/// Header of outputs that are not reports of runs: what was measured, when and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Origin {
    /// Version of the report schema, which also defines recipes, figures and machines.
    pub schema_version: u32,
    /// Time at which the measurement ended, in UTC.
    pub recorded_at: String,
    /// The recipe that repeats the measurement.
    pub recipe: Recipe,
    /// The machine, in its state before the first run.
    pub machine: Machine,
}

impl Origin {
    /// Creates the header of a measurement that ends now.
    pub fn of(recipe: Recipe, machine: Machine) -> Self {
        Self { schema_version: SCHEMA_VERSION, recorded_at: timestamp::now(), recipe, machine }
    }
}

/// Kind of measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    /// A scenario inside the node.
    #[default]
    Bench,
    /// A load test of a server from outside.
    Loadtest,
    /// A search for the highest sustainable rate; occurs only in histories.
    Saturate,
}

/// Error returned by [`Document::read`]: the text is not a valid report.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DocumentError {
    /// The file is empty.
    #[error("{} is empty, not a report", escaped(name))]
    Empty {
        /// Name of the file.
        name: String,
    },
    /// The text is not valid JSON, or is truncated.
    #[error("{} is not complete JSON: {}", escaped(name), escaped(reason))]
    Json {
        /// Name of the file.
        name: String,
        /// Position and cause.
        reason: String,
    },
    /// The text is valid JSON but not a report.
    #[error("{} is not a report: {}", escaped(name), escaped(reason))]
    Form {
        /// Name of the file.
        name: String,
        /// The missing or wrong field.
        reason: String,
    },
    /// A newer rusm wrote the report. Use a newer version to read it.
    #[error(
        "{} has schema version {version}, but this rusm reads at most {SCHEMA_VERSION}: use a newer rusm",
        escaped(name)
    )]
    Newer {
        /// Name of the file.
        name: String,
        /// Schema version of the file.
        version: u64,
    },
}

impl Document {
    /// Creates a report from the runs of a recipe.
    pub fn of(kind: DocumentKind, recipe: Recipe, machine: Machine, runs: Vec<Report>) -> Self {
        let runs: Vec<Report> = runs.into_iter().map(|run| Report { machine: Machine::default(), ..run }).collect();
        Self {
            schema_version: SCHEMA_VERSION,
            kind,
            recorded_at: timestamp::now(),
            verdict: Verdict::of_runs(runs.iter().map(|run| run.verdict)),
            figures: Figure::all_of(&runs),
            recipe,
            runs,
            machine,
        }
    }

    /// Parses the text of a report file; `name` appears in error messages.
    ///
    /// Older versions wrote a single run; it is read as a report of one run.
    ///
    /// # Errors
    /// [`DocumentError`]; its message is one line.
    pub fn read(text: &str, name: &str) -> Result<Self, DocumentError> {
        let name = || name.to_owned();
        if text.trim().is_empty() {
            return Err(DocumentError::Empty { name: name() });
        }
        let mut json: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| DocumentError::Json { name: name(), reason: error.to_string() })?;
        escape_strings(&mut json);
        let form = |error: serde_json::Error| DocumentError::Form { name: name(), reason: error.to_string() };
        match &json["schema_version"] {
            serde_json::Value::Null if json["ops_total"].is_u64() => {
                Ok(Self::of_one(serde_json::from_value(json).map_err(form)?))
            }
            version => match version.as_u64() {
                None => Err(DocumentError::Form { name: name(), reason: "it has no schema_version".to_owned() }),
                Some(version) if version > SCHEMA_VERSION.into() => Err(DocumentError::Newer { name: name(), version }),
                Some(_) => serde_json::from_value(json).map_err(form),
            },
        }
    }

    /// Converts a single run, the format of older versions.
    fn of_one(run: Report) -> Self {
        let recipe = Recipe {
            scenario: run.scenario.clone(),
            profile: run.profile.clone(),
            rate_per_sec: run.open_loop.map(|open| open.offered_per_sec),
            seed: run.seed,
            schedulers: Some(run.schedulers),
            runs: 1,
            duration_ms: (run.duration_s * 1e3).round() as u64,
            params: run.params.clone(),
            ..Recipe::default()
        };
        let machine = run.machine.clone();
        Self { recorded_at: String::new(), ..Self::of(DocumentKind::Bench, recipe, machine, vec![run]) }
    }

    /// Returns the figure with this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Returns the report as indented JSON.
    ///
    /// # Panics
    /// Never: all keys are strings, and numbers that are not finite become `null`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("every field of a report can be written as JSON")
    }
}

/// Escapes every string, because a report may come from an untrusted source and is printed to the terminal.
fn escape_strings(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::String(text) => {
            if let Cow::Owned(shown) = escape(text) {
                *text = shown;
            }
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(escape_strings),
        serde_json::Value::Object(fields) => {
            if !fields.keys().all(|name| is_all_plain(name)) {
                let renamed =
                    std::mem::take(fields).into_iter().map(|(name, value)| (escape(&name).into_owned(), value));
                *fields = renamed.collect();
            }
            fields.values_mut().for_each(escape_strings);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_reports() {
        const REPORT: &str = include_str!("../../../node/tests/run/report.json");
        let words = ["schema_version", "\"ops_total\":1", "null", "\"runs\":[]", "\\u001b[2J", "\u{9b}", "[", "{"];
        rusm_fuzz::Fuzz::new("report").seed(REPORT).words(&words).cases(1_000).run(|input| {
            let shown = match Document::read(&String::from_utf8_lossy(input), "a\u{1b}[2J.json") {
                Ok(document) => document.to_string(),
                Err(error) => format!("{error}\n"),
            };
            assert!(shown.lines().all(is_all_plain), "{shown:?}");
        });
    }

    fn document() -> Document {
        let run = Report { ops_total: 1, verdict: Verdict::Steady, ..Report::default() };
        Document::of(DocumentKind::Bench, Recipe::default(), Machine::default(), vec![run; 6])
    }

    fn refusal(text: &str) -> String {
        Document::read(text, "A.json").unwrap_err().to_string()
    }

    #[test]
    fn a_document_survives_its_json() {
        let document = document();

        assert_eq!(Document::read(&document.to_json(), "A.json"), Ok(document));
    }

    #[test]
    fn a_single_run_of_an_older_version_is_read_as_one() {
        let old = Report { scenario: "fan-in".to_owned(), ops_total: 5, duration_s: 1.5, ..Report::default() };

        let read = Document::read(&old.to_json(), "A.json").unwrap();

        assert_eq!((read.recipe.scenario.as_str(), read.recipe.duration_ms, read.runs.len()), ("fan-in", 1_500, 1));
    }

    #[test]
    fn what_is_no_report_is_refused_in_one_line() {
        let whole = document().to_json();

        assert_eq!(refusal(" \n"), "A.json is empty, not a report");
        assert!(refusal(&whole[..whole.len() / 2]).starts_with("A.json is not complete JSON: EOF while parsing"));
        assert_eq!(refusal("[1]"), "A.json is not a report: it has no schema_version");
        assert!(refusal(r#"{"schema_version":1}"#).starts_with("A.json is not a report: missing field"));
        assert_eq!(
            refusal(r#"{"schema_version":2,"kind":"other"}"#),
            "A.json has schema version 2, but this rusm reads at most 1: use a newer rusm"
        );
    }
}
