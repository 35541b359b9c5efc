//! Publish rate of a topic that nothing reads: every payload is copied and kept up to a bound.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_runtime::topic::{PublishError, Retention, Topic, TopicConfig};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::topics::RunTopic;
use crate::scenarios::topics::payload::{PAYLOAD_MIN, Payloads};

/// Scenario that measures the publish rate of a topic that nothing reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicFirehose;

impl Scenario for TopicFirehose {
    fn card(&self) -> Card {
        Card {
            id: "topic-firehose",
            family: Family::Topics,
            label: "Topic firehose",
            description: "A publisher into a topic without receivers; each payload is copied and kept up to a bound.",
            details: &[
                "One operation is a message published: a buffer is allocated, the payload is copied into it, and the \
                 message is appended to the topic.",
                "The topic keeps the newest messages up to its bound of bytes, and frees the oldest for each new one. \
                 So the memory is really written, and the rate cannot exceed that of copying.",
                "Latency is from before the copy to after the append; publishing waits for no receiver.",
                "At the end one thread copies the same payload into a plain buffer of as many bytes, again and again: \
                 this is the ceiling.",
                "The account at the end compares the messages kept and evicted with those published.",
                "Goal: 70 % of the ceiling, and a p99 below 50 ms (below 200 ms for a payload of 1 MB).",
            ],
            ops_label: "messages/s",
            latency_label: Some("publish"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "payload",
                    description: "Bytes of a message.",
                    kind: Kind::Bytes { min: PAYLOAD_MIN, max: 10_000_000, default: 1024 },
                },
                Parameter {
                    name: "keep",
                    description: "Bytes that the topic keeps.",
                    kind: Kind::Bytes { min: 20_000_000, max: 1 << 36, default: 64 << 20 },
                },
                Parameter {
                    name: "publishers",
                    description: "Processes that publish.",
                    kind: Kind::Count { min: 1, max: 1_000, default: 1 },
                },
            ],
            source_file: file!(),
            timed: "message",
            ops_per_timed: 1,
            sampling: 64,
        }
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let (payload, bytes) =
                (context.params().number("payload") as usize, context.params().number("keep") as usize);
            let config = TopicConfig { messages: 1 << 24, bytes, retention: Retention::KeepNewest };
            let topic = RunTopic::new(context.runtime().topics().create_with("topic-firehose", config))?;
            pour(context, &topic, payload).await
        })
    }
}

async fn pour(context: &mut RunContext, topic: &Topic, payload: usize) -> Result<(), RunError> {
    let (publishers, base) = (context.params().number("publishers"), Instant::now());
    let told = Arc::new(AtomicU64::new(0));
    for index in 0..publishers {
        let payloads = Payloads::new(&[], payload, 0, true, base, context.seed() + index);
        let (pace, recorder) = (context.pace(index, publishers, context.duty()), context.recorder());
        let (topic, told) = (topic.clone(), Arc::clone(&told));
        context.spawn_worker(move |ctx| publish(ctx, topic, payloads, pace, recorder, told))?;
    }
    context.stopped().await?;
    let took = base.elapsed();
    context.ended().await?;
    account(context, topic, told.load(Ordering::Relaxed))?;
    let (bytes, published) = (context.params().number("keep") as usize, topic.published());
    let copied = tokio::task::spawn_blocking(move || copy(payload, bytes.min(COPIED_BYTES_MAX))).await;
    let copied = copied.map_err(|error| RunError::Lacks(error.to_string()))?;
    ceiling(context, published as f64 / took.as_secs_f64(), copied, payload);
    Ok(())
}

/// Maximum size of the buffer of the ceiling measurement: a larger one is as fast, and would take the memory twice.
const COPIED_BYTES_MAX: usize = 64 << 20;
/// Length of the ceiling measurement.
const CEILING: Duration = Duration::from_millis(500);

/// Returns the number of copies of a payload per second into a buffer of `bytes` bytes.
fn copy(payload: usize, bytes: usize) -> f64 {
    let from = vec![1_u8; payload];
    // Touch every page first, so that the first round causes no page faults.
    let mut buffer = vec![2_u8; bytes.max(payload)];
    let places = buffer.len() / payload;
    let (start, mut copies) = (Instant::now(), 0_usize);
    while start.elapsed() < CEILING {
        // Enough copies to make the read of the clock negligible.
        for _ in 0..(1 << 20) / payload.min(1 << 20) {
            let at = copies % places * payload;
            buffer[at..at + payload].copy_from_slice(black_box(&from));
            copies += 1;
        }
        black_box(&mut buffer);
    }
    copies as f64 / start.elapsed().as_secs_f64()
}

fn ceiling(context: &RunContext, published: f64, copied: f64, payload: usize) {
    let columns = [
        ("what", ColumnUnit::Text),
        ("messages/s", ColumnUnit::Count),
        ("bytes/s", ColumnUnit::Bytes),
        ("of the ceiling", ColumnUnit::Percent),
    ];
    let mut table = Table::new("Copy ceiling", &columns);
    for (what, rate) in [("published into the topic", published), ("copied into a plain buffer", copied)] {
        let bytes = (rate * payload as f64) as u64;
        table.row([what.into(), (rate as u64).into(), bytes.into(), (100.0 * rate / copied).into()]);
    }
    table.note("one thread copies, after the run; publishing also allocates, stamps and frees each message".to_owned());
    context.tables().show(table);
}

fn account(context: &RunContext, topic: &Topic, told: u64) -> Result<(), RunError> {
    let view = topic.view(0);
    let exact = told == view.published_total && told == view.messages + view.evicted_total;
    let columns = [
        ("counted by publishers", ColumnUnit::Count),
        ("published", ColumnUnit::Count),
        ("kept", ColumnUnit::Count),
        ("kept bytes", ColumnUnit::Bytes),
        ("evicted", ColumnUnit::Count),
        ("exact", ColumnUnit::Text),
    ];
    let mut table = Table::new("Loss account", &columns);
    table.row([
        told.into(),
        view.published_total.into(),
        view.messages.into(),
        (view.bytes as u64).into(),
        view.evicted_total.into(),
        if exact { "yes" } else { "no" }.into(),
    ]);
    context.tables().show(table);
    if exact {
        return Ok(());
    }
    Err(RunError::Account(format!(
        "{} published, {} kept, {} evicted",
        view.published_total, view.messages, view.evicted_total
    )))
}

async fn publish(
    ctx: Context,
    topic: Topic,
    mut payloads: Payloads,
    mut pace: Pace,
    mut recorder: Recorder,
    told: Arc<AtomicU64>,
) -> Result<(), PublishError> {
    ctx.set_label("publisher");
    let mut published = 0;
    let most = payloads.per_turn(64);
    while let Some(ops) = pace.next_batch(&ctx, most).await {
        for _ in 0..ops {
            let stamp = pace.begin(&mut recorder);
            topic.publish(payloads.next(stamp)).await?;
            recorder.end(stamp);
            recorder.count(1);
            published += 1;
        }
    }
    told.fetch_add(published, Ordering::Relaxed);
    Ok(())
}
