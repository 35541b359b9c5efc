//! State that all processes of a server share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use rusm_runtime::Handle;
use tokio::sync::{Semaphore, watch};

use crate::drain::{DrainSignal, Phase};
use crate::limits::Limits;
use crate::limits::client::ClientAccounts;
use crate::limits::memory::MemoryBudget;
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
    /// Memory for handshakes of TLS.
    pub(crate) handshakes: MemoryBudget,
    /// Memory for bodies and for responses on their way, by client.
    pub(crate) clients: ClientAccounts,
    /// Limits of the rate of all requests.
    pub(crate) rates: Vec<RateLimiter>,
    /// True if requests are written to the access log.
    pub(crate) has_access_log: bool,
    pub(crate) spans: SpanIds,
    pub(crate) tls: Option<Tls>,
    pub(crate) local: SocketAddr,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) router: RwLock<(u64, Arc<Router>)>,
    /// Version of `router`, which connections read for each request.
    pub(crate) router_version: AtomicU64,
    pub(crate) phase: watch::Receiver<Phase>,
    /// True when `phase` says so: each request reads it, and reading `phase` takes a lock.
    pub(crate) drains: AtomicBool,
    /// True if the end of the drain cut a connection or a socket.
    pub(crate) was_cut: AtomicBool,
}

impl Shared {
    /// Returns the routes with their version.
    pub(crate) fn router(&self) -> (u64, Arc<Router>) {
        self.router.read().clone()
    }

    pub(crate) fn router_version(&self) -> u64 {
        self.router_version.load(Ordering::Acquire)
    }

    pub(crate) fn set_router(&self, router: Router) {
        let mut current = self.router.write();
        let version = current.0 + 1;
        let before = std::mem::replace(&mut *current, (version, Arc::new(router)));
        drop(current);
        self.router_version.store(version, Ordering::Release);
        drop(before);
    }

    /// Takes a permit of those in flight, if there is one and no request waits for it.
    pub(crate) fn try_begin_flight(&self) -> bool {
        self.in_flight.try_acquire().map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drains.load(Ordering::Relaxed)
    }

    pub(crate) fn drain_signal(&self) -> DrainSignal {
        DrainSignal(self.phase.clone())
    }
}
