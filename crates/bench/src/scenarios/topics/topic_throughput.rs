//! One publisher, one consumer, every message acknowledged.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::topics::gather::{DELAY, GATHER, OUTSTANDING, gather};
use crate::scenarios::topics::load::{LATENCY_IS_QUEUE, MESSAGES_ARE_HANDLES, NUMBERS_AGREE, Tier, TopicLoad};
use crate::scenarios::topics::payload::PAYLOAD_MIN;

/// Scenario with one publisher and one consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicThroughput;

impl Scenario for TopicThroughput {
    fn card(&self) -> Card {
        Card {
            id: "topic-throughput",
            family: Family::Topics,
            label: "Topic throughput",
            description: "One publisher, one consumer, every message acknowledged.",
            details: &[
                "One operation is a message acknowledged.",
                MESSAGES_ARE_HANDLES,
                NUMBERS_AGREE,
                LATENCY_IS_QUEUE,
                "With a batch of 1 each message is published, received and acknowledged alone; otherwise a whole batch \
                 at once.",
                "Goal: 890,000 messages a second with a batch of 1, and 5 million with a batch of 100.",
            ],
            ops_label: "messages/s",
            latency_label: Some("publish to delivery"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "batch",
                    description: "Messages published, received and acknowledged at once.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes of a message.",
                    kind: Kind::Bytes { min: PAYLOAD_MIN, max: 10_000_000, default: 1024 },
                },
                GATHER,
                DELAY,
                OUTSTANDING,
            ],
            source_file: file!(),
            timed: "message",
            ops_per_timed: 1,
            sampling: 64,
        }
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let params = context.params();
            let batch = params.number("batch") as usize;
            let load = TopicLoad {
                tier: if batch == 1 { Tier::AckEach } else { Tier::AckBatch },
                payload: params.number("payload") as usize,
                batch,
                gather: gather(params),
                take: batch,
                ..TopicLoad::default()
            };
            load.run(context, "topic-throughput").await
        })
    }
}
