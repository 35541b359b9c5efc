//! The runtimes of this program by number, so that a reply dropped on any thread finds its caller.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::runtime::shared::RuntimeShared;

static RUNTIMES: RwLock<Vec<(u32, Weak<RuntimeShared>)>> = RwLock::new(Vec::new());

/// Adds a runtime, and forgets those that are gone.
pub(crate) fn add(shared: &Arc<RuntimeShared>) {
    let mut runtimes = RUNTIMES.write();
    runtimes.retain(|(_, runtime)| runtime.strong_count() > 0);
    runtimes.push((shared.number, Arc::downgrade(shared)));
}

/// Returns the runtime with a number, while it exists.
pub(crate) fn find(number: u32) -> Option<Arc<RuntimeShared>> {
    let runtimes = RUNTIMES.read();
    runtimes.iter().find(|(known, _)| *known == number).and_then(|(_, runtime)| runtime.upgrade())
}
