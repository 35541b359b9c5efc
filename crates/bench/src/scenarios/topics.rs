//! Scenarios of topics, and what they share: `gather`, `load` and `payload`. `rival` is tokio's broadcast channel, for
//! comparison.

pub(crate) mod gather;
pub(crate) mod load;
pub(crate) mod payload;
pub(crate) mod pubsub_fanout;
pub(crate) mod rival;
pub(crate) mod topic_churn;
pub(crate) mod topic_durable;
pub(crate) mod topic_fanout;
pub(crate) mod topic_firehose;
pub(crate) mod topic_herd;
pub(crate) mod topic_micro;
pub(crate) mod topic_mix;
pub(crate) mod topic_saturation;
pub(crate) mod topic_soak;
pub(crate) mod topic_throughput;
