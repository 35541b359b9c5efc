//! HTTP servers of a runtime, as observers see them: figures of listeners, routes and limits, and the live requests.
//!
//! ```text
//!   server ── shown when it starts ──▶ Servers ──▶ observers, which request reports and live requests
//! ```
//!
//! The core knows nothing else about servers. A server is listed for as long as it exists. A report is created on
//! request, and costs nothing otherwise.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::observe::inspect::histogram::DelayCounts;
use crate::process::pid::Pid;

/// A server that observers can inspect.
pub trait HttpServer: Send + Sync {
    /// Returns the figures of the server, without live requests. Must never wait for requests in flight.
    fn report(&self) -> ServerReport;

    /// Calls `visit` with each request and each socket that is handled now, in no order. Must never wait for them.
    fn for_each_live(&self, visit: &mut dyn FnMut(LiveRequest));
}

/// Figures of a server. Counters that end in `_total` never decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its address.
    pub listen: SocketAddr,
    /// True if its connections are encrypted.
    pub is_tls: bool,
    /// True from the start of its drain on.
    pub is_draining: bool,
    /// Number of open connections, without those that became sockets.
    pub connections: u64,
    /// Number of accepted connections.
    pub connections_total: u64,
    /// Number of failed TLS handshakes.
    pub tls_failures_total: u64,
    /// Number of bytes received, without encryption.
    pub bytes_in_total: u64,
    /// Number of bytes sent, without encryption.
    pub bytes_out_total: u64,
    /// Number of requests in flight, up to the head of an endless response.
    pub in_flight: u64,
    /// Number of requests that may be in flight.
    pub in_flight_max: u64,
    /// Number of requests that wait for one in flight to end.
    pub waiting: u64,
    /// Number of open WebSocket connections.
    pub websockets: u64,
    /// Number of open streams of events.
    pub event_streams: u64,
    /// All limits, with their bounds.
    pub limits: Vec<LimitReport>,
    /// Its routes, and last the requests that led to none of them.
    pub routes: Vec<RouteReport>,
    /// The requests and sockets that have lasted longest, as far as they were requested.
    pub live: Vec<LiveRequest>,
    /// Number of all requests and sockets that are handled now.
    pub live_total: u64,
}

/// A limit of a server, and how often clients have hit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReport {
    /// Name of the limit, as in the settings.
    pub name: &'static str,
    /// The bound; absent for a limit with several of them.
    pub bound: Option<LimitBound>,
    /// Status of the response; absent if the connection is closed or waits instead.
    pub status: Option<u16>,
    /// Number of times that the limit was hit.
    pub hits_total: u64,
}

/// Bound of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitBound {
    /// A number.
    Count(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A time.
    Time(Duration),
}

/// Figures of a route. Counters that end in `_total` never decrease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteReport {
    /// The route, as it was written.
    pub label: Arc<str>,
    /// Number of requests that are handled now.
    pub in_flight: u64,
    /// Number of responses by the first digit of their status.
    pub responses: [u64; 6],
    /// Number of requests that ended by a crash of their process; their clients got 500.
    pub crashed_total: u64,
    /// Number of requests that were cancelled by their client before the response.
    pub cancelled_total: u64,
    /// Number of requests that a rate limit has refused.
    pub limited_total: u64,
    /// Number of bytes received for its requests. For HTTP/2, only bodies count.
    pub bytes_in_total: u64,
    /// Number of bytes sent for its requests. For HTTP/2, only bodies count.
    pub bytes_out_total: u64,
    /// Time from the head of a request to the head of its response.
    pub latency: DelayCounts,
}

/// Kind of a live request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LiveKind {
    /// A request without a complete response.
    Request,
    /// A WebSocket.
    WebSocket,
    /// A stream of events.
    Events,
}

impl LiveKind {
    /// Returns the name of the kind in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::WebSocket => "websocket",
            Self::Events => "events",
        }
    }
}

/// A request or a socket that is handled now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRequest {
    /// Process that handles it.
    pub pid: Pid,
    /// Its kind.
    pub kind: LiveKind,
    /// True if its response has begun.
    pub is_answered: bool,
    /// Its method.
    pub method: Cow<'static, str>,
    /// Its route.
    pub route: Arc<str>,
    /// The path of its target.
    pub path: Arc<str>,
    /// Address of its client.
    pub peer: SocketAddr,
    /// Time since its head arrived.
    pub age: Duration,
    /// Number of bytes received for it.
    pub bytes_in: u64,
    /// Number of bytes sent for it.
    pub bytes_out: u64,
}

/// The servers of a runtime.
#[derive(Default)]
pub(crate) struct Servers(Mutex<Vec<Weak<dyn HttpServer>>>);

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").finish_non_exhaustive()
    }
}

impl Servers {
    /// Shows a server to observers, and removes those that no longer exist.
    pub(crate) fn show(&self, server: Weak<dyn HttpServer>) {
        let mut servers = self.0.lock();
        servers.retain(|known| known.strong_count() > 0);
        servers.push(server);
    }

    /// Returns the servers that still exist.
    pub(super) fn all(&self) -> Vec<Arc<dyn HttpServer>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
