//! Scenarios of several nodes, each of which is a program of its own on this machine.
//!
//! ```text
//!   this program: a runtime for the run, node `bench` ══ tcp on loopback ══ the same program again: nodes `n1`, `n2`, …
//! ```
//!
//! The runtime that observers watch takes no part: a runtime joins others once, and these nodes end with the run. All of
//! it needs the feature `cluster`.

pub(crate) mod distributed_fanout;
pub(crate) mod keyed_failover;
#[cfg(feature = "cluster")]
pub(crate) mod member;
#[cfg(feature = "cluster")]
mod peers;
#[cfg(feature = "cluster")]
mod secret;
#[cfg(feature = "cluster")]
pub(crate) mod served;
#[cfg(feature = "cluster")]
mod transport;

use crate::parameter::{Kind, Parameter};

/// Message of a program that is built without the feature.
const NOT_BUILT: &str = "this rusm is built without the cluster: build it with \
                                    `cargo build --release -p rusm-node --features cluster`";

/// Returns what this program lacks to start nodes.
pub(crate) fn lacks() -> Option<String> {
    (!cfg!(feature = "cluster")).then(|| NOT_BUILT.to_owned())
}

/// Returns the run of a scenario that this program cannot start.
#[cfg(not(feature = "cluster"))]
pub(crate) fn not_built<'a>() -> crate::scenario::ScenarioRun<'a> {
    Box::pin(std::future::ready(Err(crate::run::error::RunError::Lacks(NOT_BUILT.to_owned()))))
}

/// Sentence of the cards about the nodes of a run.
pub(crate) const NODES_ARE_PROGRAMS: &str = "Each node is a program of its own on this machine, started by the run and ended with it. Processor time is that of \
     the node in this program. The node that observers watch takes no part.";

/// Scheduler threads of each node.
pub(crate) const SCHEDULERS: Parameter = Parameter {
    name: "schedulers",
    description: "Scheduler threads of each node.",
    kind: Kind::Count { min: 1, max: 64, default: 1 },
};
