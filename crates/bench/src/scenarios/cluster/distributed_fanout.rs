//! Messages from a publisher to subscribers on other nodes, and their replies.
//!
//! ```text
//!   publisher ── ping (publication, payload) ──▶ subscribers on each other node
//!       ▲── done ── collector ◀── pong (the same number) ──┘      as many publications in flight as the window says
//! ```

#[cfg(feature = "cluster")]
pub(super) mod load;
#[cfg(feature = "cluster")]
mod run;

use rusm_protocol::Unit;
use rusm_runtime::Config;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cluster::{NODES_ARE_PROGRAMS, SCHEDULERS, lacks};

/// Scenario with processes on several nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DistributedFanout;

impl Scenario for DistributedFanout {
    fn card(&self) -> Card {
        Card {
            id: "distributed-fanout",
            family: Family::Actors,
            label: "Distributed fan-out",
            description: "Messages from publishers to processes on other nodes, and the replies.",
            details: &[
                "One operation is a message sent to a process on another node and its reply received. A publication \
                 counts once for each subscriber, and so does an offered rate.",
                "Latency is from before a publication is sent until a reply to it is received, for each reply.",
                NODES_ARE_PROGRAMS,
                "A subscriber checks the payload and that no publication is missing or out of order; the publisher's \
                 node checks the replies in the same way. At the end, everything that was sent must have been answered.",
                "The transport's own round trip is measured in the same run, before and after the load: packets of the \
                 same length between two links of zenoh, without sessions and processes.",
                "A good result: nothing lost. Goal: with nodes=1, subscribers=1 and window=1, the p50 is at most 1.5 \
                 times that of the transport, and better 1.2 times.",
            ],
            ops_label: "replies/s",
            latency_label: Some("publish to reply"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "nodes",
                    description: "Other nodes, on which the subscribers are.",
                    kind: Kind::Count { min: 1, max: 16, default: 2 },
                },
                Parameter {
                    name: "senders",
                    description: "Processes that publish, each to all subscribers.",
                    kind: Kind::Count { min: 1, max: 1_000, default: 1 },
                },
                Parameter {
                    name: "subscribers",
                    description: "Processes on each other node that receive every message and reply to it.",
                    kind: Kind::Count { min: 1, max: 10_000, default: 4 },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes that each message carries in addition to its number.",
                    kind: Kind::Bytes { min: 0, max: 1 << 20, default: 64 },
                },
                Parameter {
                    name: "window",
                    description: "Publications of a sender that may be without all of their replies.",
                    kind: Kind::Count { min: 1, max: 128, default: 1 },
                },
                SCHEDULERS,
            ],
            source_file: file!(),
            timed: "reply",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn loads_neighbour(&self) -> bool {
        true
    }

    fn lacks(&self, _: &Config) -> Option<String> {
        lacks()
    }

    #[cfg(feature = "cluster")]
    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(run::run(context))
    }

    #[cfg(not(feature = "cluster"))]
    fn run<'a>(&'a self, _: &'a mut RunContext) -> ScenarioRun<'a> {
        super::not_built()
    }
}
