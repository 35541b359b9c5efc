//! Sizes, publishers, subscriptions, consumers, keys and batches in every combination.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::topics::gather::{DELAY, GATHER, OUTSTANDING, gather};
use crate::scenarios::topics::load::{LATENCY_IS_QUEUE, MESSAGES_ARE_HANDLES, NUMBERS_AGREE, Tier, TopicLoad};
use crate::scenarios::topics::payload::{MIX_NAMES, MIXES, PAYLOAD_MIN};
use rusm_runtime::topic::TopicConfig;

/// Scenario with any combination of sizes, publishers, subscriptions, consumers, keys and batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicMix;

impl Scenario for TopicMix {
    fn card(&self) -> Card {
        Card {
            id: "topic-mix",
            family: Family::Topics,
            label: "Topic mix",
            description: "Messages of mixed sizes from publishers to subscriptions, ordered by key or not.",
            details: &[
                "One operation is a message acknowledged by one subscription; an offered rate counts these.",
                "The mixes are the seed project's: small (1 KiB), large (500 KiB), mixed (90 % and 10 % of these), \
                 mixed-heavy (half of each), full-spectrum (70 % 1 KiB, 20 % 10 KiB, 8 % 500 KiB, 2 % 1 MiB).",
                "With keys, the batches of a key are delivered one after the other. A message out of order fails the \
                 run.",
                MESSAGES_ARE_HANDLES,
                NUMBERS_AGREE,
                LATENCY_IS_QUEUE,
                "Goal: with ordering keys at least half of the rate without keys.",
            ],
            ops_label: "messages/s",
            latency_label: Some("publish to delivery"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "mix",
                    description: "Sizes of messages: those of `payload`, or a mix.",
                    kind: Kind::Choice { words: MIX_NAMES },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes of a message, without a mix.",
                    kind: Kind::Bytes { min: PAYLOAD_MIN, max: 10_000_000, default: 1024 },
                },
                Parameter {
                    name: "publishers",
                    description: "Processes that publish.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
                Parameter {
                    name: "subscriptions",
                    description: "Subscriptions, each of which gets every message.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
                Parameter {
                    name: "consumers",
                    description: "Consumers of each subscription.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
                },
                Parameter {
                    name: "keys",
                    description: "Number of ordering keys; 0 is without order.",
                    kind: Kind::Count { min: 0, max: 100_000, default: 0 },
                },
                Parameter {
                    name: "batch",
                    description: "Messages published, received and acknowledged at once.",
                    kind: Kind::Count { min: 1, max: 1000, default: 1 },
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
            let (batch, mix) = (params.number("batch") as usize, params.word("mix"));
            let load = TopicLoad {
                tier: if batch == 1 { Tier::AckEach } else { Tier::AckBatch },
                mix: MIXES.iter().find(|(name, _)| *name == mix).map_or(&[], |(_, mix)| *mix),
                payload: params.number("payload") as usize,
                publishers: params.number("publishers"),
                subscribers: params.number("subscriptions"),
                consumers: params.number("consumers"),
                keys: params.number("keys"),
                batch,
                gather: gather(params),
                take: batch,
                config: TopicConfig { bytes: 256 << 20, ..TopicConfig::default() },
                ..TopicLoad::default()
            };
            load.run(context, "topic-mix").await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;

    #[test]
    fn loads_that_make_no_sense_are_refused_with_their_number() {
        let card = TopicMix.card();
        let refusal = |name: &str, value: &str| {
            let given = [(name.to_owned(), value.to_owned())].into();
            Params::check(card.id, card.parameters, &given).map(drop).unwrap_err().to_string()
        };

        for (name, value) in
            [("publishers", "0"), ("consumers", "0"), ("batch", "-1"), ("gather", "10001"), ("payload", "20000000")]
        {
            let line = refusal(name, value);
            assert!(line.contains(name) && line.contains(value) && line.lines().count() == 1, "{line}");
        }
    }
}
