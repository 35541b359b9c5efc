//! What all connections of a node share: its link, its clock, and its runtime.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rusm_runtime::embed::remote::{Identity as RuntimeIdentity, Remote};

use super::names::Names;
use crate::identity::Identity;
use crate::link::Link;

pub(super) struct Environment {
    pub(super) link: Arc<dyn Link>,
    started: Instant,
    /// The runtime. It is set before the link starts.
    pub(super) remote: OnceLock<Remote>,
    /// Names of the cluster. They are set before the link starts.
    pub(super) names: OnceLock<Names>,
}

impl Environment {
    pub(super) fn new(link: Arc<dyn Link>) -> Self {
        Self { link, started: Instant::now(), remote: OnceLock::new(), names: OnceLock::new() }
    }

    /// Returns the time since the node started.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn names(&self) -> &Names {
        self.names.get().expect("the link starts after the names are set")
    }

    pub(super) fn remote(&self) -> &Remote {
        self.remote.get().expect("the link starts after the runtime is attached")
    }
}

/// Returns the identity of a life of a node, as the runtime knows it.
pub(super) fn runtime_identity(identity: &Identity) -> RuntimeIdentity {
    RuntimeIdentity { name: identity.name.as_str().into(), boot_id: identity.boot.0 }
}
