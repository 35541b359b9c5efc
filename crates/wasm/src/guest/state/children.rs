//! Children that a core module adds for its next supervisor.

use crate::bindings::rusm::runtime::supervisor::ChildSpec;

/// Children of the supervisor that a guest is about to start, and the bytes of their texts.
#[derive(Default)]
pub(crate) struct PendingChildren {
    pub(crate) children: Vec<ChildSpec>,
    pub(crate) bytes: usize,
}

/// Bytes of a child beside its texts.
const CHILD_BYTES: usize = 1_300;

impl PendingChildren {
    /// Returns the memory that they take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        memory_of(self.children.len(), self.bytes)
    }
}

/// Returns the memory of this number of children with texts of this length.
pub(crate) const fn memory_of(children: usize, texts_bytes: usize) -> u64 {
    (children * CHILD_BYTES + texts_bytes) as u64
}
