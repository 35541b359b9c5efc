//! State that all processes of a server share.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::RwLock;
use rusm_runtime::Handle;
use tokio::sync::{Semaphore, watch};

use crate::drain::{DrainSignal, Phase};
use crate::limits::Limits;
use crate::limits::rate::RateLimiter;
use crate::request::trace::SpanIds;
use crate::router::Router;
use crate::stats::ServerStats;
use crate::tls::Tls;

/// State that all processes of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) runtime: Handle,
    pub(crate) limits: Limits,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) in_flight: Arc<Semaphore>,
    /// Limits of the rate of all requests.
    pub(crate) rates: Vec<RateLimiter>,
    /// True if requests are written to the access log.
    pub(crate) has_access_log: bool,
    pub(crate) spans: SpanIds,
    pub(crate) tls: Option<Tls>,
    pub(crate) local: SocketAddr,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) router: RwLock<Arc<Router>>,
    pub(crate) phase: watch::Receiver<Phase>,
}

impl Shared {
    pub(crate) fn router(&self) -> Arc<Router> {
        Arc::clone(&self.router.read())
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.phase.borrow().is_draining()
    }

    pub(crate) fn drain_signal(&self) -> DrainSignal {
        DrainSignal(self.phase.clone())
    }
}
