//! Fan-out of a topic, and tokio's broadcast channel under the same load.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::stage::Stage;
use crate::topic_load::{Tier, TopicLoad};
use crate::topic_payload::PAYLOAD_MIN;
use crate::topic_rival;

/// Scenario that compares the fan-out of a topic with tokio's broadcast channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PubsubFanout;

impl Scenario for PubsubFanout {
    fn card(&self) -> Card {
        Card {
            id: "pubsub-fanout",
            family: Family::Actors,
            label: "Pub/sub fan-out",
            description: "Publishers whose every message goes to each of many subscribers; tokio's broadcast beside it.",
            details: &[
                "One operation is a message given to one of the subscribers; an offered rate is of these.",
                "A message is a handle to one of some buffers that were made before, and copied for nobody; a timed one is a buffer of its own.",
                "At the end everything is read, and the run fails unless what was published, received and dropped is the same by everybody's own count.",
                "At full speed the latency is the length of the queue in the topic; offer a rate to see how fast a message gets through.",
                "Through tokio-broadcast the same processes publish into and receive from a channel of tokio's of 1,024 messages, which loses what a receiver is too slow for: that counts as dropped.",
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
                    description: "Messages that a subscriber takes at once, at the most.",
                    kind: Kind::Count { min: 1, max: 10000, default: 64 },
                },
                Parameter {
                    name: "through",
                    description: "What carries the messages.",
                    kind: Kind::Choice { words: &["topic", "tokio-broadcast"] },
                },
            ],
            source_file: "crates/bench/src/pubsub_fanout.rs",
            timed: "message",
            ops_per_timed: 1,
            sampling: 64,
        }
    }

    fn run<'a>(&'a self, stage: &'a mut Stage) -> ScenarioRun<'a> {
        Box::pin(async move {
            let params = stage.params();
            let load = TopicLoad {
                publishers: params.number("publishers"),
                subscribers: params.number("subscribers"),
                payload: params.number("payload") as usize,
                take: params.number("take") as usize,
                tier: Tier::Broadcast,
                ..TopicLoad::default()
            };
            if params.word("through") == "topic" {
                load.run(stage, "pubsub-fanout").await
            } else {
                topic_rival::run(load, stage).await
            }
        })
    }
}
