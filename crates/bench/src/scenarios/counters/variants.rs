//! The six variants of the seed's harness, each a scenario: the same operations over memory, with or without a delay.
//!
//! ```text
//!   round ──▶ RoundOutcome ──▶ the round with the median rate ──▶ the seed's block, line and row ──▶ our table
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use rusm_protocol::Unit;
use rusm_runtime::counter::{
    AchievedDelay, AtomicCounter, BatchCounter, BucketKind, BucketOptions, CounterStore, Crdt, DelayedStore,
    MemoryStore, NoOptions, StoredBucket, Vsa,
};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::clock::ClockCost;
use crate::measure::meter::Recorder;
use crate::parameter::{ParameterError, Params};
use crate::report::table::{Cell, ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::counters::flags::{FLAGS, Flags, fill_from_preset};
use crate::scenarios::counters::load::{CounterLoad, RecorderPool, RoundOutcome, round};
use crate::scenarios::counters::oracle::{Oracle, OracleVerdict};
use crate::scenarios::counters::summary::{TSV_HEAD, block, summary, tsv};
use crate::scenarios::rings::cases::median;

/// Maximum number of rounds kept.
const KEPT: usize = 1_000;

/// A counter variant of the seed's harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Vsa,
    Atomic,
    Batch,
    Crdt,
    Token,
    Leaky,
}

impl Variant {
    pub(crate) const ALL: [Self; 6] = [Self::Vsa, Self::Atomic, Self::Batch, Self::Crdt, Self::Token, Self::Leaky];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Vsa => "vsa",
            Self::Atomic => "atomic",
            Self::Batch => "batch",
            Self::Crdt => "crdt",
            Self::Token => "token",
            Self::Leaky => "leaky",
        }
    }

    /// Returns true if an operation may wait for the store.
    pub(crate) fn waits(self) -> bool {
        self != Self::Vsa
    }

    /// Runs a round over a given store.
    pub(crate) fn round<S: CounterStore>(
        self,
        context: &CaseContext,
        recorders: &mut Vec<Recorder>,
        load: CounterLoad,
        store: &Arc<S>,
        achieved: impl Fn(&S) -> AchievedDelay,
    ) -> Result<Option<RoundOutcome>, RunError> {
        let (runtime, stop, flags) = (&context.runtime, &context.stop_flag(), load.flags);
        let meters = &mut RecorderPool::new(&context.recorder, recorders);
        let bucket = |kind| BucketOptions { kind, quota: flags.quota };
        match self {
            Self::Vsa => round::<Vsa, S>(runtime, stop, meters, load, store, flags.commit, achieved),
            Self::Atomic => round::<AtomicCounter<S>, S>(runtime, stop, meters, load, store, NoOptions, achieved),
            Self::Batch => round::<BatchCounter<S>, S>(runtime, stop, meters, load, store, flags.batch, achieved),
            Self::Crdt => round::<Crdt<S>, S>(runtime, stop, meters, load, store, flags.crdt, achieved),
            Self::Token => {
                round::<StoredBucket<S>, S>(runtime, stop, meters, load, store, bucket(BucketKind::Token), achieved)
            }
            Self::Leaky => {
                round::<StoredBucket<S>, S>(runtime, stop, meters, load, store, bucket(BucketKind::Leaky), achieved)
            }
        }
    }

    /// Runs a round over an in-memory store with the delay given in the flags.
    pub(crate) fn in_memory(
        self,
        context: &CaseContext,
        recorders: &mut Vec<Recorder>,
        flags: Flags,
        clock: ClockCost,
    ) -> Result<Option<RoundOutcome>, RunError> {
        let has_delay = !flags.write_delay.is_zero();
        let load = CounterLoad {
            flags,
            waits: has_delay && self.waits(),
            adds_up: !matches!(self, Self::Token | Self::Leaky),
            clock_ns: 2.0 * clock.read_ns,
        };
        if has_delay {
            let store = DelayedStore::start(flags.write_delay).map_err(|error| RunError::Lacks(error.to_string()))?;
            self.round(context, recorders, load, &Arc::new(store), DelayedStore::achieved)
        } else {
            self.round(context, recorders, load, &Arc::new(MemoryStore::new()), |_| AchievedDelay::default())
        }
    }
}

/// The scenario of one variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterVariant(pub(crate) Variant);

impl Scenario for CounterVariant {
    fn card(&self) -> Card {
        let (id, label, description) = match self.0 {
            Variant::Vsa => (
                "counter-vsa",
                "Counter: vsa",
                "Counters that store only their net change, when it reaches a threshold or an age.",
            ),
            Variant::Atomic => ("counter-atomic", "Counter: atomic", "Counters that store every operation."),
            Variant::Batch => ("counter-batch", "Counter: batch", "Counters that store operations in batches."),
            Variant::Crdt => {
                ("counter-crdt", "Counter: CRDT", "PN-counters: replicas that store every event and merge.")
            }
            Variant::Token => {
                ("counter-token", "Limiter: token", "Token buckets with a read and a write for each operation.")
            }
            Variant::Leaky => {
                ("counter-leaky", "Limiter: leaky", "Leaky buckets with a read and a write for each operation.")
            }
        };
        Card {
            id,
            family: Family::Counters,
            label,
            description,
            details: &[
                "One operation takes one unit of a random key, or gives one back. Parameters have the names and \
                 defaults of the seed project's test harness, and its HARNESS_ environment variables are read.",
                "A run is many rounds of a fixed number of operations or a fixed length. The printed lines have the \
                 format of the seed project and describe the median round; the table has the medians of all rounds. \
                 The final flush counts in the calls of the store, not in the time.",
                "Latency is that of an operation in memory, or including the store where it waits for the store. In \
                 memory it is the mean of 16 operations between two clock reads, less the cost of the clock. With a \
                 delay each operation is timed alone.",
                "A delay is exact: the store answers after it, not at the next tick of a coarse timer. The table has \
                 the real delay.",
                "The store counts logical writes and calls itself: atomic and batch write each operation, vsa a row \
                 for each net change, crdt events and merges, buckets a read and a write for each operation.",
                "A good result is a high rate with few calls of the store; compare the variants with each other.",
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
        fill_from_preset(given);
    }

    fn check(&self, params: &Params) -> Result<(), ParameterError> {
        Flags::of(params).map(drop)
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let mut flags = Flags::of(context.params()).map_err(|error| RunError::Lacks(error.to_string()))?;
            flags.seed = context.params().auto_number("seed").unwrap_or_else(|| context.seed());
            let rounds = Rounds {
                variant: self.0,
                flags,
                clock: ClockCost::measure(),
                outcomes: Vec::new(),
                recorders: Vec::new(),
            };
            run_in_turn(context, rounds).await
        })
    }
}

struct Rounds {
    variant: Variant,
    flags: Flags,
    clock: ClockCost,
    outcomes: Vec<RoundOutcome>,
    recorders: Vec<Recorder>,
}

impl Cases for Rounds {
    fn count(&self) -> usize {
        1
    }

    fn run_turn(&mut self, _: usize, context: &mut CaseContext) -> Result<(), RunError> {
        // Each round has its own seed, derived from the run's seed.
        let flags = Flags { seed: self.flags.seed.wrapping_add(self.outcomes.len() as u64), ..self.flags };
        let Some(outcome) = self.variant.in_memory(context, &mut self.recorders, flags, self.clock)? else {
            return Ok(());
        };
        outcome.check()?;
        if self.outcomes.len() < KEPT {
            self.outcomes.push(outcome);
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut by_rate: Vec<&RoundOutcome> = self.outcomes.iter().collect();
        by_rate.sort_by(|a, b| a.ops_per_sec().total_cmp(&b.ops_per_sec()));
        let Some(middle) = by_rate.get(by_rate.len() / 2) else { return };
        let (word, flags) = (self.variant.word(), &self.flags);
        let mut lines = block(word, flags, middle);
        lines.extend([summary(word, flags, middle), TSV_HEAD.to_owned(), tsv(word, flags, middle)]);
        context.print(lines);
        context.show(self.table());
    }
}

impl Rounds {
    fn table(&self) -> Table {
        let columns = [
            ("rounds", ColumnUnit::Count),
            ("ops/s", ColumnUnit::Amount),
            ("cpu/op", ColumnUnit::Ns),
            ("p50", ColumnUnit::Ns),
            ("p95", ColumnUnit::Ns),
            ("p99", ColumnUnit::Ns),
            ("denied", ColumnUnit::Percent),
            ("calls/s", ColumnUnit::Amount),
            ("rows/s", ColumnUnit::Amount),
            ("ops/call", ColumnUnit::Amount),
            ("delay achieved", ColumnUnit::Ns),
            ("delay max", ColumnUnit::Ns),
        ];
        let mut table = Table::new("Medians of the rounds", &columns);
        let of = |value: &dyn Fn(&RoundOutcome) -> f64| median(self.outcomes.iter().map(value).collect());
        let delay = |value: &dyn Fn(&AchievedDelay) -> f64| {
            let seen = of(&|outcome| value(&outcome.achieved));
            if seen > 0.0 { Cell::from(seen) } else { Cell::Missing }
        };
        table.row([
            (self.outcomes.len() as u64).into(),
            of(&RoundOutcome::ops_per_sec).into(),
            of(&RoundOutcome::cpu_ns_per_op).into(),
            of(&|outcome| outcome.latency_ns(50.0)).into(),
            of(&|outcome| outcome.latency_ns(95.0)).into(),
            of(&|outcome| outcome.latency_ns(99.0)).into(),
            of(&|outcome| 100.0 * outcome.denied as f64 / outcome.ops as f64).into(),
            of(&|outcome| outcome.account.calls() as f64 / outcome.wall.as_secs_f64()).into(),
            of(&|outcome| outcome.account.rows as f64 / outcome.wall.as_secs_f64()).into(),
            of(&|outcome| outcome.ops as f64 / (outcome.account.calls() as f64)).into(),
            delay(&|achieved| achieved.mean.as_nanos() as f64),
            delay(&|achieved| achieved.max.as_nanos() as f64),
        ]);
        if self.variant == Variant::Vsa {
            let mut oracle = Oracle::default();
            self.outcomes.iter().for_each(|outcome| oracle.add(&self.flags, outcome));
            let judged = oracle.judge(&self.flags);
            table.note(match judged.verdict {
                OracleVerdict::DoesNotApply(why) => format!("operations per row: no expectation, {why}"),
                verdict => format!(
                    "operations per row: {:.0} expected by the random walk, {:.0} measured over {} rows: {verdict}",
                    judged.expected, judged.measured, judged.rows
                ),
            });
        }
        table
    }
}
