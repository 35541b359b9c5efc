//! Consumers and listeners of topics of a guest.

use std::collections::BTreeMap;

use rusm_runtime::topic::{Consumer, Lease, Subscriber};

/// Consumers and listeners of a guest.
#[derive(Default)]
pub(crate) struct TopicHandles {
    pub(crate) consumers: BTreeMap<u64, Consumer>,
    pub(crate) listeners: BTreeMap<u64, Subscriber>,
    /// Leases that did not fit into a batch, by consumer: each is the next message of its consumer.
    pub(crate) held: BTreeMap<u64, Lease>,
    pub(crate) last: u64,
    /// Key of the last message given to a core module.
    pub(crate) key: String,
}
