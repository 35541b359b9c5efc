//! The seed's sweep: store delays × commit intervals × thresholds, and the other variants at each delay.
//!
//! ```text
//!   for each delay: atomic, batch, crdt, token, leaky; vsa with 3 intervals × 3 thresholds ──▶ table, TSV ──▶ again
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use rusm_protocol::Unit;
use rusm_runtime::counter::CommitOptions;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::clock::ClockCost;
use crate::measure::meter::Recorder;
use crate::parameter::{ParameterError, Params};
use crate::report::table::{Cell, ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::counters::flags::{FLAGS, Flags};
use crate::scenarios::counters::load::RoundOutcome;
use crate::scenarios::counters::oracle::Oracle;
use crate::scenarios::counters::summary::{TSV_HEAD, tsv};
use crate::scenarios::counters::variants::Variant;
use crate::scenarios::rings::cases::median;

const DELAYS_US: [u64; 4] = [0, 50, 200, 1_000];
const INTERVALS_MS: [u64; 3] = [1, 2, 5];
const THRESHOLDS: [u64; 3] = [128, 192, 256];
/// Default values of parameters.
const DEFAULTS: [(&str, &str); 3] = [("keys", "128"), ("commit_max_age", "0"), ("sample_every", "8")];
const ROUND: &str = "60ms";
/// Maximum number of rounds kept per cell.
const KEPT: usize = 100;

/// The scenario `counter-sweep`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterSweep;

impl Scenario for CounterSweep {
    fn card(&self) -> Card {
        Card {
            id: "counter-sweep",
            family: Family::Counters,
            label: "Counter sweep",
            description: "The seed project's sweep of delays, commit intervals and thresholds, and the baselines at \
                          each delay.",
            details: &[
                "One operation takes one unit of a random key, or gives one back. Cases run in turn, so the rate of \
                 the whole run means nothing; compare the rows of the table.",
                "A cycle is 56 cells of 60 ms and takes 4 s: run for a multiple of that. Unless others are given, there \
                 are 128 keys and one operation in 8 is timed.",
                "The sweep sets write_delay, commit_interval and threshold; values and presets given for them are \
                 ignored. low_threshold is half the threshold. The age of untouched keys is off, so that the theory of \
                 random walks applies.",
                "Expected is the mean number of operations until a check finds the threshold crossed, by theory. A \
                 good result: measured is within 20 % of it. A cell with fewer than 60 rows in all rounds has no \
                 verdict.",
                "The lines after the table are in the seed project's TSV format with its derived columns, one row for \
                 each cell.",
            ],
            ops_label: "ops/s",
            latency_label: Some("one operation"),
            unit: Unit::Count,
            parameters: FLAGS,
            source_file: file!(),
            timed: "group",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn fill(&self, given: &mut BTreeMap<String, String>) {
        for (name, value) in DEFAULTS {
            given.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        if !given.contains_key("ops") {
            given.entry("duration".to_owned()).or_insert_with(|| ROUND.to_owned());
        }
    }

    fn check(&self, params: &Params) -> Result<(), ParameterError> {
        Flags::of(params).map(drop)
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let mut flags = Flags::of(context.params()).map_err(|error| RunError::Lacks(error.to_string()))?;
            flags.seed = context.params().auto_number("seed").unwrap_or_else(|| context.seed());
            run_in_turn(context, Sweep { cells: cells(&flags), clock: ClockCost::measure(), recorders: Vec::new() })
                .await
        })
    }
}

fn cells(flags: &Flags) -> Vec<VariantCell> {
    let mut cells = Vec::new();
    for delay in DELAYS_US.map(Duration::from_micros) {
        let flags = Flags { write_delay: delay, ..*flags };
        let baselines = Variant::ALL.into_iter().filter(|variant| *variant != Variant::Vsa);
        cells.extend(baselines.map(|variant| VariantCell { variant, flags, rounds: Vec::new() }));
        for interval in INTERVALS_MS.map(Duration::from_millis) {
            for threshold in THRESHOLDS {
                let commit = CommitOptions { threshold, low_threshold: threshold / 2, interval, ..flags.commit };
                cells.push(VariantCell { variant: Variant::Vsa, flags: Flags { commit, ..flags }, rounds: Vec::new() });
            }
        }
    }
    cells
}

/// One cell of the sweep: a variant with its flags and its rounds.
struct VariantCell {
    variant: Variant,
    flags: Flags,
    rounds: Vec<RoundOutcome>,
}

struct Sweep {
    cells: Vec<VariantCell>,
    clock: ClockCost,
    recorders: Vec<Recorder>,
}

impl Cases for Sweep {
    fn count(&self) -> usize {
        self.cells.len()
    }

    fn run_turn(&mut self, number: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let cell = &mut self.cells[number];
        let flags = Flags { seed: cell.flags.seed.wrapping_add(cell.rounds.len() as u64), ..cell.flags };
        let Some(outcome) = cell.variant.in_memory(context, &mut self.recorders, flags, self.clock)? else {
            return Ok(());
        };
        outcome.check()?;
        if cell.rounds.len() < KEPT {
            cell.rounds.push(outcome);
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let columns = [
            ("variant", ColumnUnit::Text),
            ("delay", ColumnUnit::Ns),
            ("achieved", ColumnUnit::Ns),
            ("interval", ColumnUnit::Text),
            ("threshold", ColumnUnit::Count),
            ("ops/s", ColumnUnit::Amount),
            ("cpu/op", ColumnUnit::Ns),
            ("calls/s", ColumnUnit::Amount),
            ("ops/row", ColumnUnit::Amount),
            ("expected", ColumnUnit::Amount),
            ("verdict", ColumnUnit::Text),
            ("rounds", ColumnUnit::Count),
        ];
        let mut table = Table::new("Counters by delay of the store, commit interval and threshold", &columns);
        let mut lines = vec![format!("{TSV_HEAD}\tWriteDelay\tCommitInterval\tThreshold")];
        for cell in self.cells.iter().filter(|cell| !cell.rounds.is_empty()) {
            table.row(cell.row());
            lines.push(cell.line());
        }
        table.note("achieved: mean real delay of a call of the store");
        context.print(lines);
        context.show(table);
    }
}

impl VariantCell {
    fn row(&self) -> [Cell; 12] {
        let of = |value: &dyn Fn(&RoundOutcome) -> f64| median(self.rounds.iter().map(value).collect());
        let (delay, commit) = (self.flags.write_delay, self.flags.commit);
        let is_vsa = self.variant == Variant::Vsa;
        let achieved = of(&|outcome| outcome.achieved.mean.as_nanos() as f64);
        let mut oracle = Oracle::default();
        self.rounds.iter().for_each(|outcome| oracle.add(&self.flags, outcome));
        let judged = is_vsa.then(|| oracle.judge(&self.flags));
        [
            self.variant.word().into(),
            (delay.as_nanos() as f64).into(),
            if delay.is_zero() { Cell::Missing } else { achieved.into() },
            is_vsa.then(|| format!("{:?}", commit.interval)).into(),
            is_vsa.then_some(commit.threshold).into(),
            of(&RoundOutcome::ops_per_sec).into(),
            of(&RoundOutcome::cpu_ns_per_op).into(),
            of(&|outcome| outcome.account.calls() as f64 / outcome.wall.as_secs_f64()).into(),
            judged
                .map_or_else(|| of(&|outcome| outcome.ops as f64 / (outcome.account.rows as f64)), |j| j.measured)
                .into(),
            judged.map(|judged| judged.expected).into(),
            judged.map(|judged| judged.verdict.to_string()).into(),
            (self.rounds.len() as u64).into(),
        ]
    }

    /// Returns the TSV row of the round with the median rate, as the seed prints it.
    fn line(&self) -> String {
        let mut by_rate: Vec<&RoundOutcome> = self.rounds.iter().collect();
        by_rate.sort_by(|a, b| a.ops_per_sec().total_cmp(&b.ops_per_sec()));
        let row = tsv(self.variant.word(), &self.flags, by_rate[by_rate.len() / 2]);
        format!(
            "{row}\t{:?}\t{:?}\t{}",
            self.flags.write_delay, self.flags.commit.interval, self.flags.commit.threshold
        )
    }
}
