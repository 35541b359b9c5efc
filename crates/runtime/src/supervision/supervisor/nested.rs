//! A supervisor inside of a child specification, dropped without recursion.
//!
//! ```text
//!   spec ──▶ Supervisor ──▶ specs ──▶ Supervisor ──▶ …      drop: a stack on the heap instead of the native one
//! ```
//!
//! Supervisors may be nested tens of thousands deep. The usual drop glue would take several native frames for each
//! level of the chain, and overflow the stack of the thread.

use std::fmt;
use std::sync::Arc;

use super::child_spec::{ChildSpec, Start};
use super::spec::Supervisor;

/// A shared supervisor. The last owner takes it apart level by level.
#[derive(Clone)]
pub(super) struct Nested(Option<Arc<Supervisor>>);

impl Nested {
    pub(super) fn new(supervisor: Supervisor) -> Self {
        Self(Some(Arc::new(supervisor)))
    }

    /// Returns a copy of the supervisor; the children of both share their nested supervisors.
    pub(super) fn supervisor(&self) -> Supervisor {
        self.0.as_deref().cloned().expect("taken only on drop")
    }

    /// Takes the supervisor out if this is its last owner.
    fn take(&mut self) -> Option<Supervisor> {
        self.0.take().and_then(Arc::into_inner)
    }
}

impl fmt::Debug for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nested(..)")
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        let mut left: Vec<Supervisor> = self.take().into_iter().collect();
        while let Some(mut supervisor) = left.pop() {
            supervisor.children.extend(supervisor.template.take().and_then(Arc::into_inner));
            for ChildSpec { start, .. } in &mut supervisor.children {
                if let Start::Supervisor(nested) = start {
                    left.extend(nested.take());
                }
            }
        }
    }
}
