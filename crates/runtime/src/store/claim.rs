//! What somebody keeps in a store for itself alone.

use std::sync::Arc;

use super::Store;
use super::core::Core;

/// The right to use what is kept under a name; it ends with its drop.
pub(crate) struct Claim {
    core: Arc<Core>,
    name: Box<str>,
}

impl Store {
    /// Claims a name, unless somebody has it.
    pub(crate) fn claim(&self, name: &str) -> Option<Claim> {
        let core = Arc::clone(&self.0.core);
        let is_new = core.claims.lock().insert(name.into());
        is_new.then(|| Claim { core, name: name.into() })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.core.claims.lock().remove(&self.name);
    }
}
