//! The results of a node: the current one, the latest complete ones, and summaries of earlier ones from the history.
//!
//! Complete results stay in memory with all their runs, so that two of them can be compared; the oldest are dropped
//! beyond [`KEPT_MAX`]. The history file holds the summaries of all of them, and those of other programs.

use std::collections::VecDeque;
use std::sync::Arc;

use rusm_protocol::{RunComparison, RunEntry};

use crate::judge::compare::{CompareOptions, Interleaved, compare};
use crate::judge::saturate::Saturation;
use crate::judge::soak::Soak;
use crate::judge::sweep::Sweep;
use crate::live::encode::{entry_of, table_page};
use crate::live::measurement::Head;
use crate::live::sheet::{Sheet, compared_table};
use crate::report::document::Document;
use crate::report::history::Entry;
use crate::run::recipe::Recipe;

/// Maximum number of complete results in memory.
pub(crate) const KEPT_MAX: usize = 50;
/// Maximum number of samples of a long run that stay in memory.
const SAMPLES_MAX: usize = 3_600;

/// A complete measurement.
#[derive(Clone, Debug)]
pub(crate) enum Complete {
    Series(Box<Document>),
    Sweep(Box<Sweep>),
    Saturation(Box<Saturation>),
    Soak(Box<Soak>),
    Ab { judged: Box<Interleaved>, baseline: u64 },
}

impl Complete {
    /// Returns the measurement as JSON, as the headless command prints it.
    pub(crate) fn to_json(&self) -> String {
        match self {
            Self::Series(document) => document.to_json(),
            Self::Sweep(sweep) => pretty(sweep),
            Self::Saturation(found) => pretty(found),
            Self::Soak(soak) => soak.to_json(),
            Self::Ab { judged, .. } => pretty(judged),
        }
    }

    /// Returns the sheet.
    pub(crate) fn sheet(&self) -> Sheet {
        match self {
            Self::Series(document) => Sheet::of_document(document),
            Self::Sweep(sweep) => Sheet::of_sweep(sweep),
            Self::Saturation(found) => Sheet::of_saturation(found),
            Self::Soak(soak) => Sheet::of_soak(soak),
            Self::Ab { judged, baseline } => Sheet::of_interleaved(judged, *baseline, true),
        }
    }

    /// Drops samples of a long run that a curve does not need.
    pub(crate) fn thinned(mut self) -> Self {
        if let Self::Soak(soak) = &mut self {
            let every = soak.samples.len().div_ceil(SAMPLES_MAX).max(1);
            let mut number = 0;
            soak.samples.retain(|_| {
                number += 1;
                (number - 1) % every == 0
            });
        }
        self
    }
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("every field of a result can be written as JSON")
}

/// A complete result.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) head: Head,
    pub(crate) complete: Complete,
    pub(crate) sheet: Arc<Sheet>,
    /// Summary for the list.
    pub(crate) entry: RunEntry,
    /// Summaries in the history file: several for a sweep and a comparison.
    pub(crate) saved: Vec<Entry>,
}

/// A result while it is measured.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) head: Head,
    pub(crate) state: &'static str,
    pub(crate) step: u32,
    pub(crate) steps: u32,
    pub(crate) progress: String,
    pub(crate) measured_ms: u64,
    pub(crate) planned_ms: u64,
    pub(crate) sheet: Arc<Sheet>,
}

/// All results of a node.
#[derive(Debug, Default)]
pub(crate) struct ResultsState {
    /// Changes with each change of the results.
    pub(crate) revision: u64,
    /// Number of results that were begun.
    pub(crate) numbers: u64,
    pub(crate) current: Option<Current>,
    /// Complete results, oldest first.
    pub(crate) kept: VecDeque<Kept>,
    /// A result that failed before it had a report, with its error.
    pub(crate) failed: Option<(Head, String)>,
    /// Results in the history file that are not of this node, oldest first.
    pub(crate) earlier: Vec<RunEntry>,
    /// Reason why results are not saved or earlier ones cannot be read.
    pub(crate) history_error: Option<String>,
    /// The last comparison, so that it is computed only once.
    compared: Option<RunComparison>,
    /// The last report that was requested.
    report: Option<(u64, Arc<str>)>,
}

impl ResultsState {
    /// Adds a complete result.
    pub(crate) fn keep(&mut self, head: Head, complete: Complete, saved: Vec<Entry>) {
        let complete = complete.thinned();
        let sheet = Arc::new(complete.sheet());
        let entry = entry_of(&head, &sheet, saved.last());
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        // A comparison that failed because this result was missing may succeed now.
        self.compared = None;
        self.kept.push_back(Kept { head, complete, sheet, entry, saved });
        self.revision += 1;
    }

    /// Returns the complete result with this number.
    pub(crate) fn find(&self, number: u64) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.head.number == number)
    }

    /// Returns number and recipe of a result of a scenario: the given one, or the newest.
    pub(crate) fn recipe(&self, scenario: &str, number: Option<u64>) -> Option<(u64, Recipe)> {
        let is_it = |kept: &&Kept| {
            kept.head.recipe.scenario == scenario && number.is_none_or(|number| number == kept.head.number)
        };
        self.kept.iter().rev().find(is_it).map(|kept| (kept.head.number, kept.head.recipe.clone()))
    }

    /// Returns the JSON report of a result.
    pub(crate) fn report(&mut self, number: u64) -> Option<Arc<str>> {
        if let Some((known, text)) = &self.report
            && *known == number
        {
            return Some(Arc::clone(text));
        }
        let text: Arc<str> = self.find(number)?.complete.to_json().into();
        self.report = Some((number, Arc::clone(&text)));
        Some(text)
    }

    /// Compares two complete results.
    pub(crate) fn compare(&mut self, before: u64, after: u64) -> RunComparison {
        if let Some(known) = self.compared.as_ref().filter(|known| (known.before, known.after) == (before, after)) {
            return known.clone();
        }
        let compared = self.judged(before, after).unwrap_or_else(|why| RunComparison {
            notes: vec![why],
            outcome: "inconclusive".to_owned(),
            ..RunComparison::default()
        });
        self.compared.insert(RunComparison { before, after, ..compared }).clone()
    }

    fn judged(&self, before: u64, after: u64) -> Result<RunComparison, String> {
        let document = |number: u64| match self.find(number).map(|kept| &kept.complete) {
            Some(Complete::Series(document)) => Ok(document),
            Some(_) => Err(format!("#{number} is not a run: only runs are compared")),
            None => Err(format!("#{number} is not in memory: only the last {KEPT_MAX} results can be compared")),
        };
        let (earlier, later) = (document(before)?, document(after)?);
        let names = [format!("#{before}"), format!("#{after}")];
        let judged = compare((&names[0], earlier), (&names[1], later), &CompareOptions::default())
            .map_err(|error| error.to_string())?;
        let table = compared_table(&judged.figures);
        let mut notes = judged.notes;
        notes.push("runs one after the other: the interleaved comparison (kind ab) also rules out drift".to_owned());
        Ok(RunComparison {
            table: table_page(&table, 0, usize::MAX),
            notes,
            decides: judged.decides,
            threshold: judged.threshold,
            outcome: judged.outcome.word().to_owned(),
            ..RunComparison::default()
        })
    }

    /// Sets what the history file holds, without the results of this node.
    pub(crate) fn set_earlier(&mut self, entries: &[Entry], summary: impl Fn(&Entry) -> RunEntry) {
        let is_own = |entry: &&Entry| self.kept.iter().flat_map(|kept| &kept.saved).any(|own| own == *entry);
        self.earlier = entries.iter().filter(|entry| !is_own(entry)).map(summary).collect();
        self.revision += 1;
    }
}
