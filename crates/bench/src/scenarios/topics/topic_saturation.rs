//! Load on a topic at one rate: the rate of `--open-loop`, or full speed without it. `rusm bench saturate` repeats this
//! scenario at different rates to find the highest stable one.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::topics::load::{MESSAGES_ARE_HANDLES, NUMBERS_AGREE, Tier, TopicLoad};
use crate::scenarios::topics::payload::PAYLOAD_MIN;

/// The scenario `topic-saturation`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicSaturation;

impl Scenario for TopicSaturation {
    fn card(&self) -> Card {
        Card {
            id: "topic-saturation",
            family: Family::Topics,
            label: "Topic saturation",
            description: "Publishers and consumers with acknowledgements, at one offered rate.",
            details: &[
                "One operation is a message acknowledged.",
                "Offer rates in an open loop (--open-loop): latency then counts from the intended publication, so it \
                 shows when a topic falls behind. Without a rate it runs at full speed.",
                "rusm bench saturate first runs it at full speed; its levels are percentages of that rate.",
                MESSAGES_ARE_HANDLES,
                NUMBERS_AGREE,
                "A good result is a high rate that stays stable; rusm bench saturate finds it.",
            ],
            ops_label: "messages/s",
            latency_label: Some("intended publication to delivery"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "publishers",
                    description: "Processes that publish.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
                Parameter {
                    name: "consumers",
                    description: "Consumers of the one subscription.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
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
                publishers: params.number("publishers"),
                consumers: params.number("consumers"),
                payload: params.number("payload") as usize,
                batch,
                take: batch.max(16),
                ..TopicLoad::default()
            };
            load.run(context, "topic-saturation").await
        })
    }
}
