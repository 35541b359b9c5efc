//! Children that a core module adds for its next supervisor.

use crate::bindings::rusm::runtime::supervisor::ChildSpec;

/// Children of the supervisor that a guest is about to start, and the bytes of their texts.
#[derive(Default)]
pub(crate) struct PendingChildren {
    pub(crate) children: Vec<ChildSpec>,
    pub(crate) bytes: usize,
}
