//! Environment that all connections of a node share: its link, its clock, and its runtime.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rusm_runtime::embed::remote::{Identity as RuntimeIdentity, Remote};
use rusm_runtime::observe::{self, NodeVitals};

use super::names::Names;
use crate::identity::Identity;
use crate::link::Link;

/// Version of rusm, which all of its crates have.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) struct Environment {
    pub(super) link: Arc<dyn Link>,
    started: Instant,
    /// The runtime. It is set before the link starts.
    pub(super) remote: OnceLock<Remote>,
    /// Names of the cluster. They are set before the link starts.
    pub(super) names: OnceLock<Names>,
    /// Time at which an observer last looked, in nanoseconds of [`Self::now`]; 0 for never.
    watched_ns: AtomicU64,
}

impl Environment {
    pub(super) fn new(link: Arc<dyn Link>) -> Self {
        let (remote, names) = (OnceLock::new(), OnceLock::new());
        Self { link, started: Instant::now(), remote, names, watched_ns: AtomicU64::new(0) }
    }

    /// Notes that an observer looks at the cluster now.
    pub(super) fn note_look(&self) {
        self.watched_ns.store(self.now().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns the time at which an observer last looked.
    pub(super) fn watched(&self) -> Option<Duration> {
        let watched_ns = self.watched_ns.load(Ordering::Relaxed);
        (watched_ns > 0).then(|| Duration::from_nanos(watched_ns))
    }

    /// Returns what this node says about itself to others.
    pub(super) fn vitals(&self) -> NodeVitals {
        observe::vitals(&self.remote().runtime(), VERSION)
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
