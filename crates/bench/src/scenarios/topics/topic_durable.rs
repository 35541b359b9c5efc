//! Publishers to a topic on disk that wait until their messages are persisted, and one consumer that acknowledges them.
//!
//! ```text
//!   publisher ─┐                 ┌─ one commit, one sync ─▶ persisted: each publisher goes on
//!   publisher ─┼─▶ topic on disk ┤
//!   publisher ─┘                 └─▶ consumer ── ack ──▶ with a later commit
//!   at the end: close, reopen, and compare the account on disk with the counts of publishers and consumer
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use rusm_protocol::Unit;
use rusm_runtime::topic::{
    Consumer, Message, Subscription, SubscriptionAccount, SubscriptionConfig, Topic, TopicConfig,
};
use rusm_runtime::{Context, Handle};
use rusm_store::{Durability, StorageReport, Store, StoreConfig};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::store::dataset::{DURABILITY, ObservedStore, StoreDirectory, durability};
use crate::scenarios::topics::RunTopic;
use crate::scenarios::topics::payload::per_turn;

const NAME: &str = "topic-durable";
const SUBSCRIPTION: &str = "worker";
/// Maximum number of messages that the consumer takes and acknowledges at once.
const TAKE: usize = 256;

/// Scenario with publishers to a topic on disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicDurable;

impl Scenario for TopicDurable {
    fn card(&self) -> Card {
        Card {
            id: "topic-durable",
            family: Family::Topics,
            label: "Topic on disk",
            description: "Publishers that wait until messages are on disk, and a consumer that acknowledges them.",
            details: &[
                "One operation is a message whose publication has returned: the store keeps it with the chosen \
                 durability.",
                "Latency is from before a message is published to that return. With durability=immediate it includes a \
                 sync of the disk. With a batch, the messages of one publication are timed together.",
                "All publishers that wait share a commit and its sync; acknowledgements go with the next one. \
                 messages/sync is the number of messages that share a sync: it grows with the publishers and the \
                 batch.",
                "The file is in the directory for temporary files (TMPDIR), and the table names its file system. In \
                 memory, for example on tmpfs, a sync costs nothing.",
                "At the end everything is read and acknowledged, and the store is closed and opened again. The run \
                 fails unless publishers, consumer, topic and disk agree. kill -9 and power cuts are covered by tests.",
                "A good result: a high rate with many messages per sync.",
            ],
            ops_label: "messages/s",
            latency_label: Some("publish to kept"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "publishers",
                    description: "Processes that publish; each waits until its messages are stored.",
                    kind: Kind::Count { min: 1, max: 100_000, default: 64 },
                },
                Parameter {
                    name: "batch",
                    description: "Messages in one publication.",
                    kind: Kind::Count { min: 1, max: 1_000, default: 1 },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes of a message.",
                    kind: Kind::Bytes { min: 0, max: 1 << 20, default: 1024 },
                },
                DURABILITY,
            ],
            source_file: file!(),
            timed: "publication",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let durability = durability(context.params());
            let (runtime, config) = (context.runtime().clone(), StoreConfig { durability, ..StoreConfig::default() });
            let opened = context.blocking(move || DurableTopic::open(&runtime, StoreDirectory::new()?, config)).await?;
            let watched = ObservedStore::on(context.runtime(), &opened.store);
            context.prepared();
            let counts = publish(context, &opened).await;
            opened.topic.close();
            drop(watched);
            let (counts, runtime, tables) = (counts?, context.runtime().clone(), context.tables().clone());
            context
                .blocking(move || {
                    let live = opened.subscription.account();
                    let (report, directory) = opened.close();
                    let again = DurableTopic::open(&runtime, directory, StoreConfig::default())?;
                    let disk = again.subscription.account();
                    again.topic.close();
                    let (_, directory) = again.close();
                    let account = LossAccount { counts, live, disk };
                    tables.show(table(&directory, durability, &report, &account));
                    tables.show(account.table());
                    if account.is_exact() { Ok(()) } else { Err(RunError::Account(format!("{account:?}"))) }
                })
                .await
        })
    }
}

/// A topic on disk with its store and directory.
struct DurableTopic {
    // Dropped in this order.
    topic: RunTopic,
    subscription: Subscription,
    store: Store,
    directory: StoreDirectory,
}

impl DurableTopic {
    fn open(runtime: &Handle, directory: StoreDirectory, config: StoreConfig) -> Result<Self, RunError> {
        let store = directory.store(config)?;
        let topic = RunTopic::new(store.open_topic(&runtime.topics(), NAME, TopicConfig::default()))?;
        let subscription = topic
            .create_subscription(SUBSCRIPTION, SubscriptionConfig::default())
            .map_err(|error| RunError::Lacks(error.to_string()))?;
        subscription.blocking_flush_acks().map_err(|error| RunError::Lacks(error.to_string()))?;
        Ok(Self { topic, subscription, store, directory })
    }

    /// Closes the store. Returns its storage report and the directory.
    fn close(self) -> (StorageReport, StoreDirectory) {
        let report = self.store.report();
        self.store.close();
        (report, self.directory)
    }
}

/// Counts of the publishers and of the consumer.
#[derive(Clone, Copy, Debug)]
struct MessageCounts {
    published: u64,
    acked: u64,
}

/// Counts of the same messages by publishers and consumer, the topic, and the disk.
#[derive(Clone, Copy, Debug)]
struct LossAccount {
    counts: MessageCounts,
    /// The topic's own account before its store was closed.
    live: SubscriptionAccount,
    /// The topic's account after its store was reopened.
    disk: SubscriptionAccount,
}

impl LossAccount {
    fn is_exact(&self) -> bool {
        let MessageCounts { published, acked } = self.counts;
        published == acked && [&self.live, &self.disk].into_iter().all(|account| self.confirms(account))
    }

    /// Returns true if an account of the topic agrees with the counts of the publishers and the consumer.
    const fn confirms(&self, account: &SubscriptionAccount) -> bool {
        let MessageCounts { published, acked } = self.counts;
        account.is_exact() && account.published == published && account.acked == acked
    }

    fn table(&self) -> Table {
        let columns = [
            ("of", ColumnUnit::Text),
            ("published", ColumnUnit::Count),
            ("acknowledged", ColumnUnit::Count),
            ("left", ColumnUnit::Count),
            ("exact", ColumnUnit::Text),
        ];
        let mut table = Table::new("Loss account", &columns);
        let exact = |is_exact: bool| if is_exact { "yes" } else { "no" };
        let MessageCounts { published, acked } = self.counts;
        table.row([
            "publishers, consumer".into(),
            published.into(),
            acked.into(),
            published.saturating_sub(acked).into(),
            exact(published == acked).into(),
        ]);
        for (name, account) in [("topic", self.live), ("disk, opened again", self.disk)] {
            let left = account.outstanding + account.backlog + account.dead_lettered + account.dropped;
            table.row([
                name.into(),
                account.published.into(),
                account.acked.into(),
                left.into(),
                exact(self.confirms(&account)).into(),
            ]);
        }
        table
    }
}

fn table(directory: &StoreDirectory, durability: Durability, report: &StorageReport, account: &LossAccount) -> Table {
    let columns = [
        ("file system", ColumnUnit::Text),
        ("durability", ColumnUnit::Text),
        ("messages", ColumnUnit::Count),
        ("commits", ColumnUnit::Count),
        ("syncs", ColumnUnit::Count),
        ("messages/commit", ColumnUnit::Amount),
        ("messages/sync", ColumnUnit::Amount),
        ("sync", ColumnUnit::Ns),
        ("file", ColumnUnit::Bytes),
    ];
    let mut table = Table::new("The topic on disk", &columns);
    let per = |whole: u64, part: u64| (part > 0).then(|| whole as f64 / part as f64);
    let messages = account.counts.published;
    table.row([
        directory.file_system().into(),
        durability.word().into(),
        messages.into(),
        report.commits_total.into(),
        report.syncs_total.into(),
        per(messages, report.commits_total).into(),
        per(messages, report.syncs_total).into(),
        per(report.sync_time.as_nanos() as u64, report.syncs_total).into(),
        report.file_bytes.into(),
    ]);
    table.note("counts include the warm-up; commits and syncs include those of acknowledgements");
    table
}

/// Runs the publishers until the run stops, and the consumer until it has read everything.
async fn publish(context: &mut RunContext, durable: &DurableTopic) -> Result<MessageCounts, RunError> {
    let params = context.params();
    let (batch, payload) = (params.number("batch"), params.number("payload") as usize);
    let workers = context.workers(Some(params.number("publishers")));
    let (kept, acked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (consumer, counts) = (durable.subscription.consumer(), Arc::clone(&acked));
    context.spawn_worker(move |ctx| consume(ctx, consumer, counts))?;
    let publishing = Arc::new(AtomicUsize::new(workers.count as usize));
    for index in 0..workers.count {
        let publisher = Publisher {
            topic: durable.topic.clone(),
            payload: Bytes::from(vec![0x5a; payload]),
            batch,
            pace: context.pace(index, workers.count, workers.duty),
            recorder: context.recorder(),
            kept: Arc::clone(&kept),
            publishing: Arc::clone(&publishing),
        };
        context.spawn_worker(|ctx| publisher.run(ctx))?;
    }
    context.stopped().await?;
    context.ended().await?;
    // Relaxed: all processes have ended.
    Ok(MessageCounts { published: kept.load(Ordering::Relaxed), acked: acked.load(Ordering::Relaxed) })
}

struct Publisher {
    topic: Topic,
    payload: Bytes,
    batch: u64,
    pace: Pace,
    recorder: Recorder,
    kept: Arc<AtomicU64>,
    publishing: Arc<AtomicUsize>,
}

impl Publisher {
    async fn run(mut self, ctx: Context) {
        ctx.set_label("publisher");
        let mut messages = VecDeque::new();
        let most = per_turn(self.payload.len(), self.batch);
        while let Some(count) = self.pace.next_batch(&ctx, most).await {
            let stamp = self.pace.begin_batch(&mut self.recorder, count);
            messages.extend((0..count).map(|_| Message::new(self.payload.clone())));
            // Messages that the disk rejects are left in the queue.
            drop(self.topic.publish_all(&mut messages).await);
            self.recorder.end(stamp);
            let kept = count - messages.len() as u64;
            self.recorder.count(kept);
            self.recorder.fail(messages.len() as u64);
            messages.clear();
            self.kept.fetch_add(kept, Ordering::Relaxed);
        }
        if self.publishing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.topic.close();
        }
    }
}

/// Acknowledges messages until the topic has ended, and waits until the acknowledgements are on disk.
async fn consume(ctx: Context, mut consumer: Consumer, acked: Arc<AtomicU64>) {
    ctx.set_label("consumer");
    let mut batch = Vec::with_capacity(TAKE);
    while consumer.next_batch_into(&mut batch, TAKE).await.is_ok() {
        let done = consumer.subscription().ack_all(batch.iter().map(|lease| lease.id));
        acked.fetch_add(done as u64, Ordering::Relaxed);
    }
    // A failure here shows up in the account on disk.
    drop(consumer.subscription().flush_acks().await);
}
