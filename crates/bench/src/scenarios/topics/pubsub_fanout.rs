//! Fan-out of a topic, and tokio's broadcast channel under the same load.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::topics::load::{LATENCY_IS_QUEUE, MESSAGES_ARE_HANDLES, NUMBERS_AGREE, Tier, TopicLoad};
use crate::scenarios::topics::payload::PAYLOAD_MIN;
use crate::scenarios::topics::rival;

/// Scenario that compares the fan-out of a topic with tokio's broadcast channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PubsubFanout;

impl Scenario for PubsubFanout {
    fn card(&self) -> Card {
        Card {
            id: "pubsub-fanout",
            family: Family::Actors,
            label: "Pub/sub fan-out",
            description: "Publishers whose messages all go to each of many subscribers, by a topic or tokio's \
                          broadcast.",
            details: &[
                "One operation is a message delivered to one subscriber; an offered rate is in deliveries.",
                MESSAGES_ARE_HANDLES,
                NUMBERS_AGREE,
                LATENCY_IS_QUEUE,
                "With through=tokio-broadcast the same processes use tokio's broadcast channel of 1,024 messages. It \
                 loses messages for a receiver that is too slow; these count as dropped.",
                "A good result: a high rate without drops. Goal: with 1,000 subscribers at least twice the rate of \
                 tokio's broadcast.",
            ],
            ops_label: "deliveries/s",
            latency_label: Some("publish to delivery"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "publishers",
                    description: "Processes that publish.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
                Parameter {
                    name: "subscribers",
                    description: "Processes that receive every message.",
                    kind: Kind::Count { min: 1, max: 100_000, default: 50 },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes of a message.",
                    kind: Kind::Bytes { min: PAYLOAD_MIN, max: 10_000_000, default: 1024 },
                },
                Parameter {
                    name: "take",
                    description: "Largest number of messages that a subscriber takes at once.",
                    kind: Kind::Count { min: 1, max: 10000, default: 64 },
                },
                Parameter {
                    name: "through",
                    description: "Carrier of the messages: a topic, or tokio's broadcast channel.",
                    kind: Kind::Choice { words: &["topic", "tokio-broadcast"] },
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
            let params = context.params();
            let load = TopicLoad {
                publishers: params.number("publishers"),
                subscribers: params.number("subscribers"),
                payload: params.number("payload") as usize,
                take: params.number("take") as usize,
                tier: Tier::Broadcast,
                ..TopicLoad::default()
            };
            if params.word("through") == "topic" {
                load.run(context, "pubsub-fanout").await
            } else {
                rival::run(load, context).await
            }
        })
    }
}
