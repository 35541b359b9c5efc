//! Subscriptions that come and go while a topic is in use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_runtime::topic::{AckStatus, Message, Overflow, SubscriptionConfig, Topic};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::live_bytes::live_bytes;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::topics::RunTopic;

/// Scenario in which subscriptions come and go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicChurn;

impl Scenario for TopicChurn {
    fn card(&self) -> Card {
        Card {
            id: "topic-churn",
            family: Family::Topics,
            label: "Topic churn",
            description: "Subscriptions that are created, used for one message and deleted, next to others that stay.",
            details: &[
                "One operation is a subscription that is created, gets a message, acknowledges it and is deleted. \
                 Subscribers that stay get the same message.",
                "Latency is that of the whole cycle.",
                "A good result: live bytes do not grow with the cycles, and at the end the topic holds no subscription \
                 and no message of the cycles.",
            ],
            ops_label: "cycles/s",
            latency_label: Some("create to deleted"),
            unit: Unit::Count,
            parameters: &[Parameter {
                name: "staying",
                description: "Subscribers that stay all the time.",
                kind: Kind::Count { min: 0, max: 10_000, default: 100 },
            }],
            source_file: file!(),
            timed: "cycle",
            ops_per_timed: 1,
            sampling: 16,
        }
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let topic = RunTopic::new(context.runtime().topics().create("topic-churn"))?;
            drive(context, &topic).await
        })
    }
}

/// Number of cycles after which all one-time allocations are done.
const WARM: u64 = 10_000;

async fn drive(context: &mut RunContext, topic: &Topic) -> Result<(), RunError> {
    for _ in 0..context.params().number("staying") {
        let mut subscriber = topic.subscribe(Overflow::Block);
        context.spawn_worker(move |_| async move { while subscriber.next_batch(64).await.is_ok() {} })?;
    }
    let (recorder, pace, own) = (context.recorder(), context.pace(0, 1, context.duty()), topic.clone());
    let seen = Arc::new(ChurnResult::default());
    let tells = Arc::clone(&seen);
    context.spawn_worker(move |ctx| cycles(ctx, own, recorder, pace, tells))?;
    context.stopped().await?;
    context.ended().await?;
    let view = topic.view(0);
    let failed = seen.failed.load(Ordering::Relaxed);
    let exact = view.subscriptions.is_empty() && view.subscribers == 0 && view.dropped_total == 0 && failed == 0;
    let columns = [
        ("cycles", ColumnUnit::Count),
        ("failed", ColumnUnit::Count),
        ("subscriptions left", ColumnUnit::Count),
        ("subscribers left", ColumnUnit::Count),
        ("dropped", ColumnUnit::Count),
        ("exact", ColumnUnit::Text),
    ];
    let mut table = Table::new("Loss account", &columns);
    table.row([
        view.published_total.into(),
        failed.into(),
        (view.subscriptions.len() as u64).into(),
        (view.subscribers as u64).into(),
        view.dropped_total.into(),
        if exact { "yes" } else { "no" }.into(),
    ]);
    context.tables().show(table);
    if let Some(memory) = seen.memory() {
        context.tables().show(memory);
    }
    if exact { Ok(()) } else { Err(RunError::Account(format!("{view:?}"))) }
}

/// Result of the cycles.
#[derive(Default)]
struct ChurnResult {
    failed: AtomicU64,
    /// Number of cycles and live bytes at that point: after the first [`WARM`] cycles, and at the end.
    first: OnceLock<(u64, u64)>,
    last: OnceLock<(u64, u64)>,
}

impl ChurnResult {
    fn memory(&self) -> Option<Table> {
        let (first, last) = (self.first.get()?, self.last.get()?);
        let columns = [
            ("cycles", ColumnUnit::Count),
            ("live bytes before", ColumnUnit::Bytes),
            ("after", ColumnUnit::Bytes),
            ("bytes/cycle", ColumnUnit::Amount),
        ];
        let mut table = Table::new("Memory", &columns);
        let cycles = last.0 - first.0;
        let each = (last.1 as f64 - first.1 as f64) / cycles.max(1) as f64;
        table.row([cycles.into(), first.1.into(), last.1.into(), each.into()]);
        table.note(format!("from cycle {WARM} on, as counted by the allocator; includes what the run itself records"));
        Some(table)
    }
}

async fn cycles(ctx: Context, topic: Topic, mut recorder: Recorder, mut pace: Pace, seen: Arc<ChurnResult>) {
    ctx.set_label("churn");
    let mut count = 0;
    while let Some(ops) = pace.next_batch(&ctx, 16).await {
        for _ in 0..ops {
            let stamp = pace.begin(&mut recorder);
            let cycled = cycle(&topic).await;
            recorder.end(stamp);
            if cycled {
                recorder.count(1);
            } else {
                recorder.fail(1);
                seen.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        count += ops;
        if count >= WARM && seen.first.get().is_none() {
            note(&seen.first, count);
        }
        ctx.yield_now().await;
    }
    note(&seen.last, count);
    topic.close();
}

/// Records the live bytes after this number of cycles.
fn note(place: &OnceLock<(u64, u64)>, cycles: u64) {
    if let Some(bytes) = live_bytes() {
        place.get_or_init(|| (cycles, bytes));
    }
}

/// Returns true if one subscription received exactly its own message.
async fn cycle(topic: &Topic) -> bool {
    let Ok(subscription) = topic.create_subscription("cycle", SubscriptionConfig::default()) else { return false };
    let mut consumer = subscription.consumer();
    let published = topic.publish(Message::new(&b"cycle"[..])).await.is_ok();
    let acked = match consumer.next().await {
        Ok(lease) => consumer.ack(lease.id) == AckStatus::Done,
        Err(_) => false,
    };
    subscription.delete();
    let account = subscription.account();
    published && acked && account.acked == 1 && account.dropped == 0
}
