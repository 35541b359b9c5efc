//! One topic, many subscribers: each receives every message.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::topics::load::{LATENCY_IS_QUEUE, MESSAGES_ARE_HANDLES, NUMBERS_AGREE, Tier, TopicLoad};
use crate::scenarios::topics::payload::PAYLOAD_MIN;

/// Scenario with one topic and many subscribers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicFanout;

impl Scenario for TopicFanout {
    fn card(&self) -> Card {
        Card {
            id: "topic-fanout",
            family: Family::Topics,
            label: "Topic fan-out",
            description: "A publisher whose messages all go to each of many subscribers.",
            details: &[
                "One operation is a message delivered to one subscriber, so a publication counts once for each \
                 subscriber. An offered rate is in deliveries: 5,000 a second to 50 subscribers are the seed project's \
                 100 messages a second.",
                MESSAGES_ARE_HANDLES,
                NUMBERS_AGREE,
                LATENCY_IS_QUEUE,
                "Goal: a p99 of at most 1 ms at 5,000 deliveries a second, and 5 million deliveries a second at full \
                 speed.",
            ],
            ops_label: "deliveries/s",
            latency_label: Some("publish to delivery"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "subscribers",
                    description: "Subscribers without acknowledgements; the publisher waits for the slowest.",
                    kind: Kind::Count { min: 1, max: 100_000, default: 50 },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes of a message.",
                    kind: Kind::Bytes { min: PAYLOAD_MIN, max: 10_000_000, default: 1024 },
                },
                Parameter {
                    name: "publishers",
                    description: "Processes that publish.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
                Parameter {
                    name: "take",
                    description: "Largest number of messages that a subscriber takes at once.",
                    kind: Kind::Count { min: 1, max: 10000, default: 64 },
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
                subscribers: params.number("subscribers"),
                payload: params.number("payload") as usize,
                publishers: params.number("publishers"),
                take: params.number("take") as usize,
                tier: Tier::Broadcast,
                ..TopicLoad::default()
            };
            load.run(context, "topic-fanout").await
        })
    }
}
