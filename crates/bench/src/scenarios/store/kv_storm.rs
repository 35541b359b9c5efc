//! Many processes update keys of a durable store, each waiting until its update is durable.
//!
//! ```text
//!   writer ── update ──▶ store: one commit and one sync for all waiting writers ──▶ acknowledged ──▶ next update
//!   at the end: close, open again, and compare every key with the acknowledged updates
//! ```

use std::sync::Arc;

use bytes::Bytes;
use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_store::{Bucket, StorageReport, Store, StoreConfig, defaults};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::{RunError, check_memory};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::store::dataset::{
    Acknowledged, DURABILITY, KEYS, Keys, ObservedStore, StoreDirectory, UpdateAccount, VALUE, WRITERS, durability,
    updated,
};

/// Updates between two checks of the stop flag: only one, because an update can take as long as a slow disk needs.
const BATCH: u64 = 1;

/// The scenario `kv-storm`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvStorm;

impl Scenario for KvStorm {
    fn card(&self) -> Card {
        Card {
            id: "kv-storm",
            family: Family::Actors,
            label: "Key-value storm",
            description: "Processes that update keys of the durable store; each waits for its acknowledgement.",
            details: &[
                "One operation is an update: one transaction reads a key and writes its new value. It is acknowledged \
                 when the chosen durability holds.",
                "Latency is from before the update is sent to after its acknowledgement. With durability=immediate it \
                 includes a sync of the disk.",
                "All writers that wait share a commit and its sync. With group=off each update has its own commit, and \
                 the rate is that of the disk.",
                "The file is in the directory for temporary files (TMPDIR), and the table names its file system. In \
                 memory, for example on tmpfs, a sync costs nothing.",
                "At the end the store is closed and opened again, and every key is compared with the acknowledged \
                 updates. kill -9 and power cuts are covered by tests, not by this scenario.",
                "A good result: no lost updates and many updates per sync. kv-versus compares the rate with redb's \
                 own.",
            ],
            ops_label: "updates/s",
            latency_label: Some("update"),
            unit: Unit::Count,
            parameters: &[
                WRITERS,
                KEYS,
                VALUE,
                DURABILITY,
                Parameter {
                    name: "group",
                    description: "Group commit: writers that wait share a commit.",
                    kind: Kind::Choice { words: &["on", "off"] },
                },
            ],
            source_file: file!(),
            timed: "update",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let load = StoreLoad::of(context);
            let config = load.config();
            check_memory(load.writers.saturating_mul(load.value_bytes as u64))?;
            let opened = context.blocking(move || {
                StoreDirectory::new().and_then(|directory| Ok((directory.store(config)?, directory)))
            });
            let (store, directory) = opened.await?;
            let watched = ObservedStore::on(context.runtime(), &store);
            let acknowledged = Arc::new(Acknowledged::new(load.keys));
            context.prepared();
            let workers = context.workers(Some(load.writers));
            for index in 0..workers.count {
                let writer = Writer {
                    bucket: store.bucket("rows").map_err(|error| RunError::Lacks(error.to_string()))?,
                    recorder: context.recorder(),
                    pace: context.pace(index, workers.count, workers.duty),
                    keys: Keys::new(context.seed().wrapping_add(index), load.keys),
                    value_bytes: load.value_bytes,
                    acknowledged: Arc::clone(&acknowledged),
                };
                context.spawn_worker(|ctx| writer.run(ctx))?;
            }
            context.stopped().await?;
            context.ended().await?;
            drop(watched);

            let tables = context.tables().clone();
            context
                .blocking(move || {
                    let report = store.report();
                    let account = account(&directory, &store, &acknowledged).map_err(RunError::Lacks)?;
                    tables.show(load.table(&directory, &report, account));
                    match account.lost {
                        0 => Ok(()),
                        lost => Err(RunError::Account(format!(
                            "{lost} acknowledged updates were missing after the store was opened again"
                        ))),
                    }
                })
                .await
        })
    }
}

/// Closes the store, opens it again, and checks that all acknowledged updates exist.
fn account(directory: &StoreDirectory, store: &Store, acknowledged: &Acknowledged) -> Result<UpdateAccount, String> {
    store.close();
    let again = directory.store(StoreConfig::default()).map_err(|error| error.to_string())?;
    let account = acknowledged.check(&again);
    again.close();
    account
}

/// Parameters of the run.
#[derive(Clone, Copy, Debug)]
struct StoreLoad {
    writers: u64,
    keys: u64,
    value_bytes: usize,
    durability: rusm_store::Durability,
    groups: bool,
}

impl StoreLoad {
    fn of(context: &RunContext) -> Self {
        let params = context.params();
        Self {
            writers: params.number("writers"),
            keys: params.number("keys"),
            value_bytes: params.number("value") as usize,
            durability: durability(params),
            groups: params.word("group") == "on",
        }
    }

    fn config(&self) -> StoreConfig {
        StoreConfig {
            durability: self.durability,
            group_operations: if self.groups { defaults::GROUP_OPERATIONS } else { 1 },
            ..StoreConfig::default()
        }
    }

    fn table(&self, directory: &StoreDirectory, report: &StorageReport, account: UpdateAccount) -> Table {
        let columns = [
            ("file system", ColumnUnit::Text),
            ("durability", ColumnUnit::Text),
            ("group", ColumnUnit::Text),
            ("writers", ColumnUnit::Count),
            ("updates", ColumnUnit::Count),
            ("commits", ColumnUnit::Count),
            ("updates/commit", ColumnUnit::Amount),
            ("updates/sync", ColumnUnit::Amount),
            ("sync", ColumnUnit::Ns),
            ("file", ColumnUnit::Bytes),
            ("acknowledged", ColumnUnit::Count),
            ("lost", ColumnUnit::Count),
        ];
        let mut table = Table::new("The store", &columns);
        let per = |whole: u64, part: u64| (part > 0).then(|| whole as f64 / part as f64);
        table.row([
            directory.file_system().into(),
            self.durability.word().into(),
            if self.groups { "on" } else { "off" }.into(),
            self.writers.into(),
            report.operations_total.into(),
            report.commits_total.into(),
            per(report.operations_total, report.commits_total).into(),
            per(report.operations_total, report.syncs_total).into(),
            per(report.sync_time.as_nanos() as u64, report.syncs_total).into(),
            report.file_bytes.into(),
            account.acknowledged.into(),
            account.lost.into(),
        ]);
        table.note(
            "counts include the warm-up; lost: acknowledged updates that are missing after the store was closed \
                    and opened again",
        );
        table
    }
}

struct Writer {
    bucket: Bucket,
    recorder: Recorder,
    pace: Pace,
    keys: Keys,
    value_bytes: usize,
    acknowledged: Arc<Acknowledged>,
}

impl Writer {
    async fn run(mut self, ctx: Context) {
        ctx.set_label("kv writer");
        while self.pace.next_batch(&ctx, BATCH).await.is_some() {
            let (key, bytes) = (self.keys.next(), self.value_bytes);
            let stamp = self.pace.begin(&mut self.recorder);
            let update =
                self.bucket.update(key.to_be_bytes(), move |old| Some(Bytes::from(updated(old.as_deref(), bytes))));
            let outcome = update.await;
            self.recorder.end(stamp);
            if outcome.is_ok() {
                self.acknowledged.note(key);
                self.recorder.count(1);
            } else {
                self.recorder.fail(1);
            }
        }
    }
}
