//! Instances that wait for their next use. They end when another guest needs their place.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// A set of waiting instances.
pub(crate) trait IdleInstances: Send + Sync {
    /// Drops one of them; returns false if the set is empty.
    fn release_one(&self) -> bool;
}

/// All sets of an engine.
#[derive(Default)]
pub(crate) struct IdleRegistry(Mutex<Vec<Weak<dyn IdleInstances>>>);

impl IdleRegistry {
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "used by the http feature only"))]
    pub(crate) fn add(&self, set: Weak<dyn IdleInstances>) {
        let mut sets = self.0.lock();
        sets.retain(|set| set.strong_count() > 0);
        sets.push(set);
    }

    /// Drops a waiting instance of any set; returns false if all sets are empty.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "used by the http feature only"))]
    pub(crate) fn release_one(&self) -> bool {
        let sets: Vec<Arc<dyn IdleInstances>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        sets.iter().any(|set| set.release_one())
    }
}
