//! The names that this node has granted: each to one node at a time.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::counts::Counts;
use crate::identity::Identity;
use crate::wire::WireError;

/// Grants of this node.
#[derive(Debug)]
pub(super) struct Grants {
    by_name: FxHashMap<Arc<str>, Grant>,
    counts: Counts,
    /// Time at which the next grant of a lost node may expire.
    expires_at: Option<Duration>,
    /// No epoch up to this one is newly granted: an ended grant, or one of an earlier life of this node, had it.
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
    /// It is granted to another node, or to another life of this one.
    Taken,
    /// The epoch of the claim does not exceed an earlier one.
    Old { last: u64 },
    /// The node cannot grant it now: it has started too recently, and an earlier life of it may have granted the name; or
    /// the epoch of the claim is beyond those that it grants.
    NotYet,
}

/// Why a claim is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClaimError {
    /// The claim is refused.
    Refused(Refusal),
    /// The node has too many names: it breaks the protocol.
    TooMany(WireError),
}

impl Grants {
    pub(super) fn new(floor: u64) -> Self {
        Self { by_name: FxHashMap::default(), counts: Counts::default(), expires_at: None, floor }
    }

    /// Returns an epoch that exceeds all that this node has granted for a name.
    pub(super) fn next_epoch(&self, name: &str) -> u64 {
        self.by_name.get(name).map_or(self.floor, |grant| grant.epoch.max(self.floor)) + 1
    }

    /// Grants a name, or says why not.
    pub(super) fn claim(
        &mut self,
        now: Duration,
        from: &Identity,
        name: &Arc<str>,
        epoch: u64,
    ) -> Result<(), ClaimError> {
        if self.by_name.get(name).is_some_and(|grant| grant.expires_at.is_some_and(|at| at <= now)) {
            self.end(name);
        }
        match self.by_name.get_mut(name) {
            // An earlier life of the node has its grants until they expire, like a lost node: it may still run.
            Some(grant) if grant.holder != *from => Err(ClaimError::Refused(Refusal::Taken)),
            Some(grant) if epoch < grant.epoch => Err(ClaimError::Refused(Refusal::Old { last: grant.epoch })),
            Some(grant) => {
                (grant.epoch, grant.expires_at) = (epoch, None);
                Ok(())
            }
            None if epoch <= self.floor => Err(ClaimError::Refused(Refusal::Old { last: self.floor })),
            None => {
                self.counts.add(from).map_err(ClaimError::TooMany)?;
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
            self.expires_at.get_or_insert(expires_at);
        }
    }

    /// Ends the grants of lost nodes that have expired.
    pub(super) fn on_tick(&mut self, now: Duration) {
        if self.expires_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        let is_over = |grant: &Grant| grant.expires_at.is_some_and(|at| at <= now);
        let over = self.by_name.iter().filter(|(_, grant)| is_over(grant));
        for name in over.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
            self.end(&name);
        }
        self.expires_at = self.by_name.values().filter_map(|grant| grant.expires_at).min();
    }

    fn end(&mut self, name: &str) {
        if let Some(grant) = self.by_name.remove(name) {
            self.floor = self.floor.max(grant.epoch);
            self.counts.remove(&grant.holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{BootId, NodeName};

    fn node(boot: u128) -> Identity {
        Identity { name: NodeName::new("a").unwrap(), boot: BootId(boot) }
    }

    #[test]
    fn the_grants_of_a_lost_node_are_removed_when_they_expire_and_their_epochs_count() {
        let second = Duration::from_secs(1);
        let mut grants = Grants::new(0);
        for number in 0..10 {
            grants.claim(second, &node(1), &format!("name {number}").into(), 7).unwrap();
        }
        grants.lose(&node(1), 5 * second);

        grants.on_tick(4 * second);
        assert_eq!(grants.by_name.len(), 10);
        grants.claim(4 * second, &node(1), &"name 0".into(), 7).unwrap();
        grants.on_tick(5 * second);
        assert_eq!((grants.by_name.len(), grants.next_epoch("name 1")), (1, 8));
        assert_eq!(grants.counts.of(&node(1)), 1);
    }

    #[test]
    fn a_node_is_granted_so_many_names_and_no_more() {
        let mut grants = Grants::new(0);
        let mut claim = |number: usize| grants.claim(Duration::ZERO, &node(1), &number.to_string().into(), 1);

        for number in 0..crate::names::NAMES_OF_NODE_MAX {
            claim(number).unwrap();
        }
        assert_eq!(claim(0), Ok(()), "it has this name");
        assert!(matches!(claim(99_999), Err(ClaimError::TooMany(_))));
    }
}
