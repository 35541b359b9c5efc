//! Exclusive use of a name in a store.

use std::sync::Arc;

use super::core::Core;
use super::store::Store;

/// Exclusive right to the data kept under a name; dropping it releases the name.
pub(crate) struct Claim {
    core: Arc<Core>,
    name: Box<str>,
}

impl Store {
    /// Claims a name; returns `None` if it is claimed already.
    pub(crate) fn claim(&self, name: &str) -> Option<Claim> {
        let core = Arc::clone(&self.0.core);
        let is_new = core.claims.lock().insert(name.into());
        is_new.then(|| Claim { core, name: name.into() })
    }

    /// Returns true if a name is claimed.
    pub(crate) fn is_claimed(&self, name: &str) -> bool {
        self.0.core.claims.lock().contains(name)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.core.claims.lock().remove(&self.name);
    }
}
