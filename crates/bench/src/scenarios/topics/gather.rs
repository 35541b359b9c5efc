//! Publishers that batch messages: parameters shared by several topic scenarios.

use std::time::Duration;

use rusm_runtime::topic::PublisherConfig;

use crate::parameter::{Kind, Parameter, Params};

/// Number of messages in a batch.
pub(crate) const GATHER: Parameter = Parameter {
    name: "gather",
    description: "Messages that a publisher batches before it publishes them together; 0 publishes each alone.",
    kind: Kind::Count { min: 0, max: 10_000, default: 0 },
};

/// Maximum time that a message waits for others.
pub(crate) const DELAY: Parameter = Parameter {
    name: "delay",
    description: "Longest wait of a batched message; it is sent at once while a subscriber has nothing to read.",
    kind: Kind::Time { min: Duration::ZERO, max: Duration::from_mins(1), default: Duration::from_millis(10) },
};

/// Maximum number of messages in flight.
pub(crate) const OUTSTANDING: Parameter = Parameter {
    name: "outstanding",
    description: "Largest number of messages that a batching publisher may have in flight.",
    kind: Kind::Count { min: 1, max: 1_000_000, default: 1_000 },
};

/// Returns the batching configuration from the parameters; `None` if publishers do not batch.
pub(crate) fn gather(params: &Params) -> Option<PublisherConfig> {
    let batch_messages = params.number("gather") as usize;
    (batch_messages > 0).then(|| PublisherConfig {
        batch_messages,
        batch_delay: params.time("delay"),
        outstanding_messages: params.number("outstanding") as usize,
        outstanding_bytes: 1 << 30,
        ..PublisherConfig::default()
    })
}
