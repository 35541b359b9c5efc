//! Ring loads that run in turns, and the median result of each.

use std::time::Duration;

use crate::report::table::{Cell, ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenarios::cases::{CaseContext, Cases};
use crate::scenarios::rings::load::{RingLoad, RingOutcome, run};

/// The seed's own published results for a number of readers: busy threads on 16 cores.
#[derive(Clone, Copy)]
pub(crate) struct SeedFigures {
    pub(crate) readers: usize,
    /// Millions of items per second: written, and read by all readers together.
    pub(crate) rates: [f64; 2],
    /// Percentage of reads and of writes that failed.
    pub(crate) failed: [f64; 2],
    /// Millions of scans of all reader positions.
    pub(crate) looks: f64,
}

pub(crate) const fn seed(readers: usize, rates: [f64; 2], failed: [f64; 2], looks: f64) -> SeedFigures {
    SeedFigures { readers, rates, failed, looks }
}

/// Columns for the seed's results.
pub(crate) const SEED_COLUMNS: [(&str, ColumnUnit); 5] = [
    ("seed written/s", ColumnUnit::Amount),
    ("seed read/s", ColumnUnit::Amount),
    ("seed reads failed", ColumnUnit::Percent),
    ("seed writes failed", ColumnUnit::Percent),
    ("seed looks", ColumnUnit::Amount),
];

impl SeedFigures {
    /// Returns the cells for those columns; they are empty if the seed lacks a result for this row.
    pub(crate) fn cells(seed: Option<&Self>) -> [Cell; 5] {
        seed.map_or([const { Cell::Missing }; 5], |Self { rates, failed, looks, .. }| {
            [rates[0] * 1e6, rates[1] * 1e6, failed[0], failed[1], looks * 1e6].map(Cell::from)
        })
    }
}

/// Writing time in one turn of a case.
pub(crate) const TURN: Duration = Duration::from_millis(30);
/// Maximum number of turns kept per case.
const KEPT: usize = 1_000;

/// Ring loads that run in turns.
pub(crate) struct RingCases {
    cases: Vec<(RingLoad, Vec<TurnResult>)>,
    table: fn(&Self) -> Table,
}

/// Result of a turn, or the medians of many turns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TurnResult {
    pub(crate) written_per_sec: f64,
    pub(crate) delivered_per_sec: f64,
    pub(crate) reads_failed_percent: f64,
    pub(crate) writes_failed_percent: f64,
    pub(crate) looks: f64,
    pub(crate) cpu_ns_per_item: f64,
    pub(crate) turns: u64,
}

impl TurnResult {
    pub(crate) fn of(outcome: &RingOutcome) -> Self {
        let percent = |failed: u64, done: u64| 100.0 * failed as f64 / (failed + done).max(1) as f64;
        Self {
            written_per_sec: outcome.written_per_sec(),
            delivered_per_sec: outcome.delivered_per_sec(),
            reads_failed_percent: percent(outcome.reads_empty, outcome.reads),
            writes_failed_percent: percent(outcome.writes_full, outcome.writes),
            looks: outcome.looks as f64,
            cpu_ns_per_item: outcome.cpu_ns_per_item(),
            turns: 1,
        }
    }

    pub(crate) fn median(turns: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| median(turns.iter().map(value).collect());
        Self {
            written_per_sec: of(|turn| turn.written_per_sec),
            delivered_per_sec: of(|turn| turn.delivered_per_sec),
            reads_failed_percent: of(|turn| turn.reads_failed_percent),
            writes_failed_percent: of(|turn| turn.writes_failed_percent),
            looks: of(|turn| turn.looks),
            cpu_ns_per_item: of(|turn| turn.cpu_ns_per_item),
            turns: turns.len() as u64,
        }
    }
}

/// Returns the median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl RingCases {
    pub(crate) fn new(loads: Vec<RingLoad>, table: fn(&Self) -> Table) -> Self {
        Self { cases: loads.into_iter().map(|load| (load, Vec::new())).collect(), table }
    }

    /// Returns the cases that had a turn, with their medians.
    pub(crate) fn medians(&self) -> impl Iterator<Item = (&RingLoad, TurnResult)> {
        self.cases.iter().filter(|(_, turns)| !turns.is_empty()).map(|(load, turns)| (load, TurnResult::median(turns)))
    }

    /// Returns the median write rate of the first case that matches.
    pub(crate) fn written_per_sec(&self, wanted: impl Fn(&RingLoad) -> bool) -> Option<f64> {
        self.medians().find(|(load, _)| wanted(load)).map(|(_, turn)| turn.written_per_sec)
    }
}

impl Cases for RingCases {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let (load, turns) = &mut self.cases[case];
        let Some(outcome) = run(&context.runtime, &context.stop_flag(), *load)? else { return Ok(()) };
        context.recorder.count(outcome.delivered);
        context.recorder.fail(outcome.wrong);
        outcome.latencies_ns.iter().for_each(|ns| context.recorder.latency((*ns).max(1)));
        if turns.len() < KEPT {
            turns.push(TurnResult::of(&outcome));
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        context.show((self.table)(self));
    }
}
