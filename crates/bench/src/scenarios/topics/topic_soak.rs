//! Long run of a topic at half of its maximum load.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::topics::load::{MESSAGES_ARE_HANDLES, NUMBERS_AGREE, Tier, TopicLoad};
use crate::scenarios::topics::payload::PAYLOAD_MIN;

/// Scenario for a long run of a topic at half of its maximum load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicSoak;

impl Scenario for TopicSoak {
    fn card(&self) -> Card {
        Card {
            id: "topic-soak",
            family: Family::Topics,
            label: "Topic soak",
            description: "Publishers at half of their maximum rate and consumers that acknowledge at once, for any duration.",
            details: &[
                "One operation is a message acknowledged.",
                "Publishers work at full speed for two seconds, which measures their maximum rate, and then offer `load` \
                 percent of it in an open loop. An offered rate replaces this.",
                MESSAGES_ARE_HANDLES,
                "A good result: memory does not grow over hours, and the account shows an empty topic at the end.",
                NUMBERS_AGREE,
            ],
            ops_label: "messages/s",
            latency_label: Some("publish to delivery"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "load",
                    description: "Percentage of their maximum rate at which publishers work.",
                    kind: Kind::Count { min: 1, max: 100, default: 50 },
                },
                Parameter {
                    name: "publishers",
                    description: "Processes that publish.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
                Parameter {
                    name: "subscriptions",
                    description: "Subscriptions, with a consumer each.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes of a message.",
                    kind: Kind::Bytes { min: PAYLOAD_MIN, max: 10_000_000, default: 1024 },
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
                tier: Tier::AckEach,
                publishers: params.number("publishers"),
                subscribers: params.number("subscriptions"),
                payload: params.number("payload") as usize,
                load_percent: params.number("load"),
                ..TopicLoad::default()
            };
            load.run(context, "topic-soak").await
        })
    }
}
