//! The owners that other nodes have announced.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::counts::Counts;
use super::event::Owner;
use crate::identity::Identity;
use crate::wire::WireError;

/// Owners of names on other nodes.
#[derive(Debug, Default)]
pub(super) struct Directory {
    by_name: FxHashMap<Arc<str>, Owner>,
    counts: Counts,
}

impl Directory {
    pub(super) fn owner(&self, name: &str) -> Option<&Owner> {
        self.by_name.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Owner)> {
        self.by_name.iter()
    }

    /// Notes an owner. One with a smaller epoch is an earlier one.
    ///
    /// # Errors
    /// [`WireError`] if the node owns too many names.
    pub(super) fn announce(&mut self, name: Arc<str>, owner: Owner) -> Result<(), WireError> {
        let known = self.by_name.get(&name);
        if known.is_some_and(|known| known.epoch > owner.epoch) {
            return Ok(());
        }
        if known.is_none_or(|known| known.node != owner.node) {
            self.counts.add(&owner.node)?;
        }
        let node = owner.node.clone();
        if let Some(earlier) = self.by_name.insert(name, owner).filter(|earlier| earlier.node != node) {
            self.counts.remove(&earlier.node);
        }
        Ok(())
    }

    /// Notes that a process no longer owns a name.
    pub(super) fn withdraw(&mut self, name: &str, node: &Identity, epoch: u64) {
        if self.by_name.get(name).is_some_and(|known| known.node == *node && known.epoch <= epoch) {
            self.by_name.remove(name);
            self.counts.remove(node);
        }
    }

    /// Removes the owners on a node that was lost.
    pub(super) fn lose(&mut self, node: &Identity) {
        self.by_name.retain(|_, owner| owner.node != *node);
        self.counts.lose(node);
    }
}
