//! The owners that other nodes have announced.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::event::Owner;
use crate::identity::Identity;

/// Owners of names on other nodes.
#[derive(Debug, Default)]
pub(super) struct Directory(FxHashMap<Arc<str>, Owner>);

impl Directory {
    pub(super) fn owner(&self, name: &str) -> Option<&Owner> {
        self.0.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Owner)> {
        self.0.iter()
    }

    /// Notes an owner. One with a smaller epoch is an earlier one.
    pub(super) fn announce(&mut self, name: Arc<str>, owner: Owner) {
        let is_earlier = self.0.get(&name).is_some_and(|known| known.epoch > owner.epoch);
        if !is_earlier {
            self.0.insert(name, owner);
        }
    }

    /// Notes that a process no longer owns a name.
    pub(super) fn withdraw(&mut self, name: &str, node: &Identity, epoch: u64) {
        if self.0.get(name).is_some_and(|known| known.node == *node && known.epoch <= epoch) {
            self.0.remove(name);
        }
    }

    /// Removes the owners on a node that was lost.
    pub(super) fn lose(&mut self, node: &Identity) {
        self.0.retain(|_, owner| owner.node != *node);
    }
}
