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

use std::fmt::Display;
use std::ops::Deref;

use rusm_runtime::topic::Topic;

use crate::run::error::RunError;

/// A topic of a run, which is closed with the run, also if that is killed: then its name is free for the next run.
#[derive(Debug)]
pub(crate) struct RunTopic(Topic);

impl RunTopic {
    /// Takes over a topic that was just created.
    ///
    /// # Errors
    /// [`RunError::Lacks`] if it could not be created.
    pub(crate) fn new(created: Result<Topic, impl Display>) -> Result<Self, RunError> {
        created.map(Self).map_err(|error| RunError::Lacks(format!("{error}: stop the run that uses it")))
    }
}

impl Deref for RunTopic {
    type Target = Topic;

    fn deref(&self) -> &Topic {
        &self.0
    }
}

impl Drop for RunTopic {
    fn drop(&mut self) {
        self.0.close();
    }
}
