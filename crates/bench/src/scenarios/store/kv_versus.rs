//! The store compared with plain redb, in turn: the cost of sharing commits among processes.
//!
//! ```text
//!   store: writers are processes ──▶ redb: one thread, as many updates per transaction ──▶ redb: one update ──▶ again
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use redb::{AccessGuard, Database, ReadableTable, TableDefinition};
use rusm_protocol::Unit;
use rusm_store::{Durability, Store, StoreConfig};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::usage::process_cpu;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::{RunError, check_memory};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::rings::cases::median;
use crate::scenarios::store::dataset::{
    DURABILITY, KEYS, Keys, ObservedStore, StoreDirectory, VALUE, WRITERS, durability, updated,
};

/// Time that a case writes in each turn.
const TURN: Duration = Duration::from_millis(250);
/// Maximum number of turns kept per case.
const KEPT: usize = 1_000;
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

/// The scenario `kv-versus`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvVersus;

impl Scenario for KvVersus {
    fn card(&self) -> Card {
        Card {
            id: "kv-versus",
            family: Family::Actors,
            label: "Key-value versus",
            description: "The durable store compared with plain redb, in turn in the same run.",
            details: &[
                "One operation is an update, as in kv-storm. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the medians in the table.",
                "redb grouped is one thread that puts as many updates into a transaction as there are writers, and \
                 commits it. This is the limit without any communication between processes.",
                "redb alone commits each update separately.",
                "The ratio is the median of the ratios of consecutive turns.",
                "Goal: at least 0.9 of the rate of redb grouped with 64 writers.",
            ],
            ops_label: "updates/s",
            latency_label: Some("update"),
            unit: Unit::Count,
            parameters: &[WRITERS, KEYS, VALUE, DURABILITY],
            source_file: file!(),
            timed: "update",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let params = context.params().clone();
            let durability = durability(&params);
            check_memory(params.number("writers").saturating_mul(params.number("value")))?;
            let opened = context.blocking(move || {
                let directory = StoreDirectory::new()?;
                let store = directory.store(StoreConfig { durability, ..StoreConfig::default() })?;
                let lacks = |error: redb::DatabaseError| RunError::Lacks(error.to_string());
                let database = Database::create(directory.path("redb.redb")).map_err(lacks)?;
                Ok::<_, RunError>(Versus {
                    writers: params.number("writers"),
                    keys: params.number("keys"),
                    value_bytes: params.number("value") as usize,
                    durability,
                    store,
                    database,
                    directory,
                    turns: [const { Vec::new() }; 3],
                })
            });
            let versus = opened.await?;
            let _watched = ObservedStore::on(context.runtime(), &versus.store);
            run_in_turn(context, versus).await
        })
    }
}

const NAMES: [&str; 3] = ["store, processes", "redb grouped", "redb alone"];

struct Versus {
    writers: u64,
    keys: u64,
    value_bytes: usize,
    durability: Durability,
    store: Store,
    database: Database,
    directory: StoreDirectory,
    turns: [Vec<TurnResult>; 3],
}

/// Results of one turn.
#[derive(Clone, Copy, Debug)]
struct TurnResult {
    updates_per_sec: f64,
    updates_per_commit: f64,
    cpu_ns: f64,
}

impl Cases for Versus {
    fn count(&self) -> usize {
        NAMES.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let (started, cpu) = (Instant::now(), process_cpu());
        let (updates, commits) = match case {
            0 => self.processes(context)?,
            1 => self.redb(self.writers, context).map_err(|error| RunError::Lacks(error.to_string()))?,
            _ => self.redb(1, context).map_err(|error| RunError::Lacks(error.to_string()))?,
        };
        let (took, cpu) = (started.elapsed(), process_cpu().saturating_sub(cpu));
        context.recorder.count(updates);
        if context.stops() || updates == 0 {
            return Ok(());
        }
        if self.turns[case].len() < KEPT {
            self.turns[case].push(TurnResult {
                updates_per_sec: updates as f64 / took.as_secs_f64(),
                updates_per_commit: updates as f64 / commits.max(1) as f64,
                cpu_ns: cpu.as_nanos() as f64 / updates as f64,
            });
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let columns = [
            ("who", ColumnUnit::Text),
            ("updates/s", ColumnUnit::Amount),
            ("updates/commit", ColumnUnit::Amount),
            ("cpu/update", ColumnUnit::Ns),
            ("store ÷ it", ColumnUnit::Ratio),
            ("turns", ColumnUnit::Count),
        ];
        let mut table = Table::new("The store compared with plain redb", &columns);
        for (name, turns) in NAMES.into_iter().zip(&self.turns) {
            let of = |value: fn(&TurnResult) -> f64| median(turns.iter().map(value).collect());
            let pairs = self.turns[0].iter().zip(turns);
            let ratio = median(pairs.map(|(store, other)| store.updates_per_sec / other.updates_per_sec).collect());
            table.row([
                name.into(),
                of(|turn| turn.updates_per_sec).into(),
                of(|turn| turn.updates_per_commit).into(),
                of(|turn| turn.cpu_ns).into(),
                ratio.into(),
                (turns.len() as u64).into(),
            ]);
        }
        table.note(format!("{} writers; {}", self.writers, self.directory.note(self.durability)));
        context.show(table);
    }
}

impl Versus {
    /// Runs updates by processes; returns the number of updates and of the commits they took.
    fn processes(&self, context: &mut CaseContext) -> Result<(u64, u64), RunError> {
        let bucket = self.store.bucket("rows").map_err(|error| RunError::Lacks(error.to_string()))?;
        let (count, before) = (Arc::new(AtomicU64::new(0)), self.store.report().commits_total);
        let (sender, receiver) = mpsc::channel();
        let started = Instant::now();
        for index in 0..self.writers {
            let (bucket, count, sender, stop) =
                (bucket.clone(), Arc::clone(&count), sender.clone(), context.stop_flag());
            let (mut keys, bytes) = (Keys::new(index, self.keys), self.value_bytes);
            let body = async move {
                let (mut outcome, mut latencies_ns) = (Ok(()), Vec::new());
                while started.elapsed() < TURN && !stop.is_set() && outcome.is_ok() {
                    let begun = Instant::now();
                    let key = keys.next().to_be_bytes();
                    let update = bucket.update(key, move |old| Some(Bytes::from(updated(old.as_deref(), bytes))));
                    outcome = update.await.map(|_| latencies_ns.push(begun.elapsed().as_nanos() as u64));
                    // Relaxed: read only after all writers have sent their result through the channel.
                    count.fetch_add(u64::from(outcome.is_ok()), Ordering::Relaxed);
                }
                drop(sender.send(outcome.map(|()| latencies_ns)));
            };
            context.runtime.spawn(move |_| body)?;
        }
        drop(sender);
        for outcome in receiver {
            match outcome {
                Ok(latencies_ns) => latencies_ns.iter().for_each(|ns| context.recorder.latency((*ns).max(1))),
                Err(error) => return Err(RunError::Lacks(error.to_string())),
            }
        }
        Ok((count.load(Ordering::Relaxed), self.store.report().commits_total - before))
    }

    /// Runs updates on one thread with `group` updates per commit; returns the number of updates and of commits.
    fn redb(&self, group: u64, context: &CaseContext) -> Result<(u64, u64), redb::Error> {
        let (mut keys, mut updates, mut commits) = (Keys::new(1, self.keys), 0, 0);
        let started = Instant::now();
        while started.elapsed() < TURN && !context.stops() {
            let mut txn = self.database.begin_write()?;
            if self.durability != Durability::Immediate {
                txn.set_durability(redb::Durability::None)?;
            }
            let mut table = txn.open_table(TABLE)?;
            for _ in 0..group {
                let key = keys.next().to_be_bytes();
                let value = updated(table.get(&key[..])?.as_ref().map(AccessGuard::value), self.value_bytes);
                table.insert(&key[..], &value[..])?;
            }
            drop(table);
            txn.commit()?;
            updates += group;
            commits += 1;
        }
        Ok((updates, commits))
    }
}
