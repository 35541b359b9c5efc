//! The six counter variants over redb with each durability: the cost of counts that survive a crash.
//!
//! ```text
//!   variant × durability: a file of its own ──▶ one round ──▶ file removed ──▶ next case ──▶ again
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusm_protocol::Unit;
use rusm_runtime::counter::AchievedDelay;
use rusm_store::{Durability, DurableCounters, Store, StoreConfig};
use rustix::fs::statfs;

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
use crate::scenarios::counters::load::{CounterLoad, RoundOutcome};
use crate::scenarios::counters::summary::{TSV_HEAD, tsv};
use crate::scenarios::counters::variants::Variant;
use crate::scenarios::rings::cases::median;

/// Default length of a round.
const ROUND: &str = "150ms";

/// The scenario `counter-redb`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterRedb;

impl Scenario for CounterRedb {
    fn card(&self) -> Card {
        Card {
            id: "counter-redb",
            family: Family::Counters,
            label: "Counters on disk",
            description: "The six counter variants on the database redb, with immediate, eventual and no durability.",
            details: &[
                "One operation takes one unit of a random key, or gives one back. There are 128 keys and rounds of 150 \
                 ms unless others are given. Cases run in turn, so the rate of the whole run means nothing; compare \
                 the medians in the table.",
                "Writers that wait at the same time share a transaction. immediate syncs the disk in each transaction, \
                 eventual at least every 100 ms, none only at the end.",
                "ops/durable tx is the number of operations per durable transaction: they share one fsync.",
                "The file is in the directory for temporary files (TMPDIR), and the table names its file system. On \
                 tmpfs an fsync costs nothing.",
                "Latency is that of one operation: vsa never waits for the disk, the other variants do.",
                "Goal: vsa needs one durable transaction for 100,000 operations or more.",
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
        given.entry("keys".to_owned()).or_insert_with(|| "128".to_owned());
        if !given.contains_key("ops") {
            given.entry("duration".to_owned()).or_insert_with(|| ROUND.to_owned());
        }
    }

    fn check(&self, params: &Params) -> Result<(), ParameterError> {
        match Flags::of(params)?.write_delay {
            Duration::ZERO => Ok(()),
            delay => Err(ParameterError::Together(format!(
                "write_delay of {delay:?} is not supported, because a disk has its own delay: leave it at 0"
            ))),
        }
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let mut flags = Flags::of(context.params()).map_err(|error| RunError::Lacks(error.to_string()))?;
            flags.seed = context.params().auto_number("seed").unwrap_or_else(|| context.seed());
            let directory = TempDirectory::new()?;
            let cases = Variant::ALL
                .into_iter()
                .flat_map(|variant| Durability::ALL.map(|durability| Case { variant, durability, rounds: Vec::new() }));
            let redb =
                Redb { cases: cases.collect(), flags, directory, clock: ClockCost::measure(), recorders: Vec::new() };
            run_in_turn(context, redb).await
        })
    }
}

/// A temporary directory, removed on drop.
struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new() -> Result<Self, RunError> {
        let nonce = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
        let path = std::env::temp_dir().join(format!("rusm-counters-{}-{nonce}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| {
            RunError::Lacks(format!("cannot create {}: {error}; set TMPDIR to another directory", path.display()))
        })?;
        Ok(Self(path))
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        // If it cannot be removed, it remains in the directory for temporary files.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Returns the name of the type of the file system that contains a path.
fn file_system(path: &Path) -> String {
    let known = [
        (0xef53, "ext4"),
        (0x0102_1994, "tmpfs"),
        (0x794c_7630, "overlay"),
        (0x5846_5342, "xfs"),
        (0x9123_683e, "btrfs"),
        (0x2fc1_2fc1, "zfs"),
    ];
    match statfs(path) {
        Ok(found) => {
            let kind = found.f_type as u64 & 0xffff_ffff;
            known
                .iter()
                .find(|(other, _)| *other == kind)
                .map_or_else(|| format!("{kind:#x}"), |(_, name)| (*name).to_owned())
        }
        Err(error) => format!("unknown ({error})"),
    }
}

struct Case {
    variant: Variant,
    durability: Durability,
    rounds: Vec<RoundResult>,
}

struct RoundResult {
    outcome: RoundOutcome,
    transactions: u64,
    durable: u64,
}

struct Redb {
    cases: Vec<Case>,
    flags: Flags,
    directory: TempDirectory,
    clock: ClockCost,
    recorders: Vec<Recorder>,
}

impl Cases for Redb {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, number: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let case = &mut self.cases[number];
        let path = self.directory.0.join(format!("{}-{}", case.variant.word(), case.durability.word()));
        let file = Store::open(&path, StoreConfig::default()).map_err(|error| RunError::Lacks(error.to_string()))?;
        let open = DurableCounters::open(&file, "counters", case.durability);
        let store = Arc::new(open.map_err(|error| RunError::Lacks(error.to_string()))?);
        let load = CounterLoad {
            flags: Flags { seed: self.flags.seed.wrapping_add(case.rounds.len() as u64), ..self.flags },
            waits: case.variant.waits(),
            adds_up: !matches!(case.variant, Variant::Token | Variant::Leaky),
            clock_ns: 2.0 * self.clock.read_ns,
        };
        let outcome = case.variant.round(context, &mut self.recorders, load, &store, |_| AchievedDelay::default())?;
        let report = file.report();
        let (transactions, durable) = (report.commits_total, report.durable_commits_total);
        drop(store);
        file.close();
        // If this fails, the file is removed with the directory.
        std::fs::remove_file(&path).ok();
        if let Some(outcome) = outcome {
            outcome.check()?;
            case.rounds.push(RoundResult { outcome, transactions, durable });
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let columns = [
            ("variant", ColumnUnit::Text),
            ("durability", ColumnUnit::Text),
            ("ops/s", ColumnUnit::Amount),
            ("cpu/op", ColumnUnit::Ns),
            ("p50", ColumnUnit::Ns),
            ("p99", ColumnUnit::Ns),
            ("transactions/s", ColumnUnit::Amount),
            ("ops/transaction", ColumnUnit::Amount),
            ("ops/durable tx", ColumnUnit::Amount),
            ("rounds", ColumnUnit::Count),
        ];
        let mut table = Table::new("Counters over redb", &columns);
        let mut lines = vec![format!("{TSV_HEAD}\tDurability\tTransactions\tDurableTransactions")];
        for case in self.cases.iter().filter(|case| !case.rounds.is_empty()) {
            let of = |value: &dyn Fn(&RoundResult) -> f64| median(case.rounds.iter().map(value).collect());
            let per = |count: fn(&RoundResult) -> u64| {
                let per = of(&|round| round.outcome.ops as f64 / (count(round) as f64));
                if per.is_finite() { Cell::from(per) } else { Cell::Missing }
            };
            table.row([
                case.variant.word().into(),
                case.durability.word().into(),
                of(&|round| round.outcome.ops_per_sec()).into(),
                of(&|round| round.outcome.cpu_ns_per_op()).into(),
                of(&|round| round.outcome.latency_ns(50.0)).into(),
                of(&|round| round.outcome.latency_ns(99.0)).into(),
                of(&|round| round.transactions as f64 / round.outcome.wall.as_secs_f64()).into(),
                per(|round| round.transactions),
                per(|round| round.durable),
                (case.rounds.len() as u64).into(),
            ]);
            let mut by_rate: Vec<&RoundResult> = case.rounds.iter().collect();
            by_rate.sort_by(|a, b| a.outcome.ops_per_sec().total_cmp(&b.outcome.ops_per_sec()));
            let middle = by_rate[by_rate.len() / 2];
            let row = tsv(case.variant.word(), &self.flags, &middle.outcome);
            lines.push(format!("{row}\t{}\t{}\t{}", case.durability.word(), middle.transactions, middle.durable));
        }
        table.note(format!(
            "in {}, a file system of type {}",
            self.directory.0.display(),
            file_system(&self.directory.0)
        ));
        table.note("ops/s covers the time in which workers run; transactions include those of the final flush");
        context.print(lines);
        context.show(table);
    }
}
