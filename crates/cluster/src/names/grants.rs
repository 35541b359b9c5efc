//! The names that this node has granted: each to one process at a time.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::identity::Identity;

/// Grants of this node.
#[derive(Debug)]
pub(super) struct Grants {
    by_name: FxHashMap<Arc<str>, Grant>,
    /// The largest epoch of a grant that has ended.
    floor: u64,
}

#[derive(Debug)]
struct Grant {
    holder: Identity,
    epoch: u64,
    expires_at: Option<Duration>,
}

/// Why a name is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is granted to another process.
    Taken,
    /// The epoch of the claim does not exceed an earlier one.
    Old { last: u64 },
    /// This node has started too recently: an earlier life of it may have granted the name.
    NotYet,
}

impl Grants {
    pub(super) fn new(floor: u64) -> Self {
        Self { by_name: FxHashMap::default(), floor }
    }

    /// Returns an epoch that exceeds all that this node has granted for a name.
    pub(super) fn next_epoch(&self, name: &str) -> u64 {
        self.by_name.get(name).map_or(self.floor, |grant| grant.epoch.max(self.floor)) + 1
    }

    /// Grants a name, or says why not.
    pub(super) fn claim(&mut self, now: Duration, from: &Identity, name: &Arc<str>, epoch: u64) -> Result<(), Refusal> {
        let is_over = |grant: &Grant| {
            let is_earlier_life = grant.holder.name == from.name && grant.holder.boot != from.boot;
            is_earlier_life || grant.expires_at.is_some_and(|at| at <= now)
        };
        if self.by_name.get(name).is_some_and(is_over) {
            self.end(name);
        }
        match self.by_name.get_mut(name) {
            Some(grant) if grant.holder != *from => Err(Refusal::Taken),
            Some(grant) if epoch < grant.epoch => Err(Refusal::Old { last: grant.epoch }),
            Some(grant) => {
                (grant.epoch, grant.expires_at) = (epoch, None);
                Ok(())
            }
            None if epoch <= self.floor => Err(Refusal::Old { last: self.floor }),
            None => {
                let grant = Grant { holder: from.clone(), epoch, expires_at: None };
                self.by_name.insert(Arc::clone(name), grant);
                Ok(())
            }
        }
    }

    /// Ends a grant that its holder gives up.
    pub(super) fn release(&mut self, from: &Identity, name: &str, epoch: u64) {
        if self.by_name.get(name).is_some_and(|grant| grant.holder == *from && grant.epoch <= epoch) {
            self.end(name);
        }
    }

    /// Lets the grants of a lost node expire, unless it claims them again.
    pub(super) fn lose(&mut self, node: &Identity, expires_at: Duration) {
        for grant in self.by_name.values_mut().filter(|grant| grant.holder == *node) {
            grant.expires_at.get_or_insert(expires_at);
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(grant) = self.by_name.remove(name) {
            self.floor = self.floor.max(grant.epoch);
        }
    }
}
