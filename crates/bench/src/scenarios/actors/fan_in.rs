//! Many producers, one consumer: measures the cost of a contended mailbox.
//!
//! ```text
//!   producer ─┐
//!   producer ─┼─▶ mailbox ─▶ consumer     a producer waits while the mailbox is full
//!   producer ─┘
//! ```

use rusm_protocol::Unit;
use rusm_runtime::{Context, Pid};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::{Recorder, Stamp};
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::run::error::check_memory;
use crate::scenario::{Scenario, ScenarioRun};

/// Number of messages that a producer sends before it yields.
const BATCH: u64 = 64;

/// The scenario `fan-in`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FanIn;

impl Scenario for FanIn {
    fn card(&self) -> Card {
        Card {
            id: "fan-in",
            family: Family::Actors,
            label: "Fan-in",
            description: "Producers that send to one process as fast as its mailbox accepts messages.",
            details: &[
                "One operation is a message received by the one consumer.",
                "Latency is from before the send call to after the receive, so it includes the wait for free space and \
                 the time in the mailbox.",
                "With mailbox=bounded it holds 1,024 messages by default, and producers wait while it is full. At full \
                 speed the latency is the length of that queue, not a service time.",
                "With mailbox=unbounded the number of messages has no bound, and producers wait only when their bytes \
                 reach the limit of a mailbox, 64 MiB by default. The queue and the latency then grow until there.",
                "Each message has its own payload buffer: the producer allocates and writes it, the consumer reads it \
                 byte by byte and frees it. A payload whose bytes are not all equal counts as an error.",
                "It does not scale with cores: the one consumer runs on one core at a time.",
                "A good result: a high rate without errors. Goal: at least 1.2 times the rate of tokio's mpsc channel.",
            ],
            ops_label: "messages/s",
            latency_label: Some("send call to received"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "producers",
                    description: "Number of processes that send.",
                    kind: Kind::Count { min: 1, max: 100_000, default: 64 },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes that each message carries.",
                    kind: Kind::Bytes { min: 0, max: 1 << 20, default: 0 },
                },
                Parameter {
                    name: "mailbox",
                    description: "Bound of the number of messages in the mailbox of the consumer.",
                    kind: Kind::Choice { words: &["bounded", "unbounded"] },
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
            let workers = context.workers(Some(context.params().number("producers")));
            let payload = context.params().number("payload") as usize;
            check_memory(workers.count.saturating_mul(payload as u64))?;
            let recorder = context.recorder();
            let capacity = (context.params().word("mailbox") == "unbounded").then_some(u32::MAX);
            let consumer = if payload == 0 {
                context.spawn_worker(move |ctx| consume(ctx, recorder, capacity))?
            } else {
                context.spawn_worker(move |ctx| consume_payload(ctx, recorder, capacity))?
            };
            for index in 0..workers.count {
                let producer = Producer {
                    consumer,
                    recorder: context.recorder(),
                    pace: context.pace(index, workers.count, workers.duty),
                };
                context.spawn_worker(move |ctx| producer.run(ctx, payload))?;
            }
            context.stopped().await
        })
    }
}

async fn consume(ctx: Context, mut recorder: Recorder, capacity: Option<u32>) {
    prepare(&ctx, capacity);
    loop {
        let stamp: Stamp = ctx.receive_of().await;
        recorder.end(stamp);
        recorder.count(1);
    }
}

async fn consume_payload(ctx: Context, mut recorder: Recorder, capacity: Option<u32>) {
    prepare(&ctx, capacity);
    loop {
        let (stamp, payload): (Stamp, Vec<u8>) = ctx.receive_of().await;
        let first = payload.first().copied();
        let right = payload.iter().all(|byte| Some(*byte) == first);
        recorder.end(stamp);
        if right {
            recorder.count(1);
        } else {
            recorder.fail(1);
        }
    }
}

fn prepare(ctx: &Context, capacity: Option<u32>) {
    ctx.set_label("consumer");
    if let Some(messages) = capacity {
        ctx.set_mailbox_capacity(messages);
    }
}

struct Producer {
    consumer: Pid,
    recorder: Recorder,
    pace: Pace,
}

impl Producer {
    async fn run(mut self, ctx: Context, payload: usize) {
        ctx.set_label("producer");
        let mut number = 0_u64;
        while let Some(ops) = self.pace.next_batch(&ctx, BATCH).await {
            for _ in 0..ops {
                let stamp = self.pace.begin(&mut self.recorder);
                if payload == 0 {
                    ctx.send(self.consumer, stamp).await;
                } else {
                    number += 1;
                    ctx.send(self.consumer, (stamp, vec![number as u8; payload])).await;
                }
            }
            ctx.yield_now().await;
        }
    }
}
