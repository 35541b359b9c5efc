//! The number of names of each node, which limits the names that one node makes another one keep.

use rustc_hash::FxHashMap;

use super::event::NAMES_OF_NODE_MAX;
use crate::identity::Identity;
use crate::wire::WireError;

/// Numbers of names by the life of a node.
#[derive(Debug, Default)]
pub(super) struct Counts(FxHashMap<Identity, usize>);

impl Counts {
    /// Counts one more name.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] if the node has too many.
    pub(super) fn add(&mut self, node: &Identity) -> Result<(), WireError> {
        let count = self.0.get(node).copied().unwrap_or(0) + 1;
        if count > NAMES_OF_NODE_MAX {
            let field = "the number of names of a node";
            return Err(WireError::TooLarge { field, value: count, limit: NAMES_OF_NODE_MAX });
        }
        self.0.insert(node.clone(), count);
        Ok(())
    }

    /// Returns the number of names of a node.
    #[cfg(test)]
    pub(super) fn of(&self, node: &Identity) -> usize {
        self.0.get(node).copied().unwrap_or(0)
    }

    /// Counts one name less.
    pub(super) fn remove(&mut self, node: &Identity) {
        if let Some(count) = self.0.get_mut(node) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(node);
            }
        }
    }

    /// Forgets a node after its last name is gone.
    pub(super) fn lose(&mut self, node: &Identity) {
        self.0.remove(node);
    }
}
