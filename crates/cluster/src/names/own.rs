//! A name that a process of this node owns, or asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::identity::{Address, NodeName};

/// A name of a process of this node.
#[derive(Debug)]
pub(super) struct OwnName {
    pub(super) process: Address,
    pub(super) epoch: u64,
    /// Epoch with which the process was the owner; 0 if it never was.
    pub(super) owned_epoch: u64,
    pub(super) state: OwnState,
    /// True if this node grants the name to its own process.
    pub(super) is_granted_here: bool,
    /// Nodes that have granted the name in their present session, and when the claim was sent.
    pub(super) granted: BTreeMap<NodeName, Duration>,
    /// Nodes that have refused it since the last attempt.
    pub(super) refused: BTreeSet<NodeName>,
    /// Nodes that have not answered a claim, and when it was sent.
    pub(super) claimed: BTreeMap<NodeName, Duration>,
    /// Time of the next attempt.
    pub(super) retry_at: Option<Duration>,
    /// Time at which the nodes that have not granted the name are asked again.
    pub(super) top_up_at: Duration,
    pub(super) attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnState {
    /// A registration, until this time.
    Claiming { until: Duration },
    /// The process may act as the owner.
    Owned,
    /// The process was the owner, until the majority was lost.
    Suspended,
}

impl OwnName {
    pub(super) fn new(process: Address, epoch: u64, until: Duration) -> Self {
        Self {
            process,
            epoch,
            owned_epoch: 0,
            state: OwnState::Claiming { until },
            is_granted_here: false,
            granted: BTreeMap::new(),
            refused: BTreeSet::new(),
            claimed: BTreeMap::new(),
            retry_at: None,
            top_up_at: Duration::ZERO,
            attempts: 0,
        }
    }

    /// Counts the grants that are certain now. `proof` is the time up to which a node is known to have been there.
    pub(super) fn grants(
        &self,
        now: Duration,
        patience: Duration,
        proof: impl Fn(&NodeName) -> Option<Duration>,
    ) -> usize {
        let is_certain = |(node, claimed): &(&NodeName, &Duration)| {
            let at = proof(node).map_or(**claimed, |at| at.max(**claimed));
            now < at + patience
        };
        usize::from(self.is_granted_here) + self.granted.iter().filter(is_certain).count()
    }
}
