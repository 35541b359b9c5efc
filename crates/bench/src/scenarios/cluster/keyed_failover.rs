//! Calls to keyed processes on several nodes, while nodes are killed or drained and replaced.
//!
//! ```text
//!   caller ── call(key) ──▶ its process, on any node ──▶ sum        the caller knows the right sum
//!   every few seconds: a node is drained, or killed ──▶ its keys are elsewhere ──▶ a new node joins
//! ```

#[cfg(feature = "cluster")]
mod caller;
#[cfg(feature = "cluster")]
mod events;
#[cfg(feature = "cluster")]
mod run;
#[cfg(feature = "cluster")]
pub(super) mod sums;

use std::time::Duration;

use rusm_protocol::Unit;
use rusm_runtime::Config;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cluster::{NODES_ARE_PROGRAMS, SCHEDULERS, lacks};

/// Time between two events.
const EVERY: Parameter = Parameter {
    name: "every",
    description: "Time between two events.",
    kind: Kind::Time { min: Duration::from_millis(10), max: Duration::from_hours(1), default: Duration::from_secs(1) },
};

/// Scenario with keyed processes on nodes that come and go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedFailover;

impl Scenario for KeyedFailover {
    fn card(&self) -> Card {
        Card {
            id: "keyed-failover",
            family: Family::Actors,
            label: "Keyed failover",
            description: "Calls to keyed processes on several nodes, of which one is drained or killed from time to time.",
            details: &[
                "One operation is an acknowledged call: it adds one to the sum of a key, and the reply is the sum. All keys \
                 are started before the clock.",
                "Latency is that of the call, from before it until its reply, including the time in which its key moves.",
                NODES_ARE_PROGRAMS,
                "With event=drain, a node hands the states of its keys to the others and leaves. With event=kill, it gets \
                 SIGKILL, and the states that it had in memory are gone. Then a new node joins.",
                "Each key has one caller, which knows its sum. A sum that is too small is a lost call, unless the last node \
                 of the key was killed; one that is too large is a call that was carried out twice.",
                "At the end, each key is called once more, as far as 15 s allow. A call that gets neither a reply nor an error within 10 s counts \
                 as unanswered.",
                "A good result: no call lost, carried out twice, or unanswered, and with event=drain none failed. Goal: a \
                 node with 100,000 keys is drained in 30 s (nodes=1 keys=200k).",
            ],
            ops_label: "calls/s",
            latency_label: Some("call"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "nodes",
                    description: "Other nodes. The node of this program has keys as well.",
                    kind: Kind::Count { min: 1, max: 16, default: 2 },
                },
                Parameter {
                    name: "keys",
                    description: "Keys, each of which has a process.",
                    kind: Kind::Count { min: 1, max: 2_000_000, default: 1_000 },
                },
                Parameter {
                    name: "callers",
                    description: "Processes that call, each its own keys in turn.",
                    kind: Kind::Count { min: 1, max: 1_000, default: 8 },
                },
                Parameter {
                    name: "event",
                    description: "Event that the other nodes have in turn.",
                    kind: Kind::Choice { words: &["drain", "kill", "none"] },
                },
                EVERY,
                SCHEDULERS,
            ],
            source_file: file!(),
            timed: "call",
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
