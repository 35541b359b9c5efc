//! A server: its listeners, what all its processes share, and its end.
//!
//! ```text
//!   Server ──▶ supervisor ──▶ one acceptor on each scheduler, with a socket of its own (SO_REUSEPORT)
//!                                └─ connection ──▶ requests
//! ```

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;
use rusm_runtime::embed;
use rusm_runtime::observe::{HttpServer, LiveRequest, ServerReport};
use rusm_runtime::{Context, ExitReason, Handle, Pid, SpawnError};
use rusm_text::escaped;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::connection::io::Place;
use crate::connection::stall::limit_unsent;
use crate::connection::{self, OpenConnection};
use crate::drain::Phase;
use crate::limits::memory::MemoryBudget;
use crate::limits::rate::{RateLimit, RateLimiter};
use crate::limits::{Limit, Limits, TIME_MAX};
use crate::request::trace::SpanIds;
use crate::router::Router;
use crate::shared::Shared;
use crate::stats::ServerStats;
use crate::tls::{Tls, TlsError, TlsFiles};

/// Length of a listener's queue of connections that are not accepted yet.
const BACKLOG: i32 = 4096;
/// Part of the descriptors that clients leave to the node, for observers and files: an eighth, half of what guests leave.
const RESERVED_PARTS: u64 = 8;
/// Pause after an error that all further connections would meet, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Minimum time between two log lines about such failures: any client may cause them.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the end of a drain is checked.
const DRAIN_CHECK: Duration = Duration::from_millis(2);

/// Configuration of a server.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Limits, RateLimit, ServeConfig};
///
/// let config = ServeConfig {
///     name: Some("shop".to_owned()),
///     limits: Limits { body_bytes: 64 * 1024, ..Limits::default() },
///     access_log: true,
///     ..ServeConfig::listen(([0, 0, 0, 0], 8080))
/// };
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ServeConfig {
    /// Name that observers see. Default: the address.
    pub name: Option<String>,
    /// Address to listen on. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Certificate. Default: none; the server then speaks HTTP/1.1, and HTTP/2 with clients that start with it.
    pub tls: Option<TlsFiles>,
    /// Limits. Default: [`Limits::default`].
    pub limits: Limits,
    /// Limits of the rate of all requests together, or of each client address. Default: none.
    pub rate_limits: Vec<RateLimit>,
    /// Writes an event of the target `rusm::access` to the program's log for each request. Default: false.
    pub access_log: bool,
}

impl ServeConfig {
    /// Returns the default configuration for an address.
    pub fn listen(listen: impl Into<SocketAddr>) -> Self {
        let limits = Limits::default();
        Self { name: None, listen: listen.into(), tls: None, limits, rate_limits: Vec::new(), access_log: false }
    }
}

/// Reason why a server was not started.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The runtime accepts no more processes.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// A running server. When it is dropped, it stops at once.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_serve as serve; }
/// use std::time::Duration;
///
/// use rusm::{Config, Runtime};
/// use rusm::serve::{Request, Router, ServeConfig, Server};
///
/// let runtime = Runtime::start(Config::default())?;
/// let router = Router::new().route("GET /", async |_: Request| "hello\n")?;
/// let server = Server::start(&runtime, ServeConfig::listen(([127, 0, 0, 1], 0)), router)?;
/// assert_ne!(server.local_addr().port(), 0);
/// // Answers what has begun, and ends.
/// assert!(server.drain(Duration::from_secs(5)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    acceptors: Vec<Pid>,
}

impl Server {
    /// Starts a server, which accepts connections when this function returns.
    ///
    /// # Errors
    /// [`ServeError`] if the address or the certificate cannot be used.
    pub fn start(runtime: &Handle, config: ServeConfig, router: Router) -> Result<Self, ServeError> {
        let schedulers = runtime.config().schedulers;
        let listen = |address| listeners(address, schedulers).map_err(|source| ServeError::Listen { address, source });
        let (listeners, local) = listen(config.listen)?;
        let tls = config.tls.map(Tls::load).transpose()?;
        let (phase, receiver) = watch::channel(Phase::Serving);
        let name = config.name.unwrap_or_else(|| local.to_string());
        let shared = Arc::new(Shared {
            name: name.into(),
            runtime: runtime.clone(),
            stats: Arc::new(ServerStats::new(router.routes())),
            in_flight: Arc::new(Semaphore::new(config.limits.in_flight as usize)),
            handshakes: MemoryBudget::new(config.limits.bodies_bytes),
            clients: config.limits.client_accounts(),
            connections: Arc::new(Semaphore::new(config.limits.connections as usize)),
            rates: config.rate_limits.into_iter().map(RateLimiter::new).collect(),
            has_access_log: config.access_log,
            spans: SpanIds::default(),
            limits: config.limits.with_bounded_times(),
            tls,
            local,
            router: RwLock::new((0, Arc::new(router))),
            router_version: AtomicU64::new(0),
            phase: receiver,
            drains: AtomicBool::new(false),
            was_cut: AtomicBool::new(false),
        });
        let observed: Weak<Shared> = Arc::downgrade(&shared);
        embed::show_server(runtime, observed);
        let mut server = Self { shared, phase, acceptors: Vec::new() };
        for (scheduler, listener) in listeners.into_iter().enumerate() {
            let shared = Arc::clone(&server.shared);
            let pid = runtime.spawn_pinned(scheduler, move |context| accept(shared, context, listener))?;
            server.acceptors.push(pid);
        }
        Ok(server)
    }

    /// Returns the address that the server listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local
    }

    /// Replaces the routes. Requests that are handled already keep their handler.
    pub fn set_router(&self, router: Router) {
        self.shared.stats.replace_routes(&router);
        self.shared.set_router(router);
    }

    /// Reads the certificate again. Connections that exist keep theirs, and on an error all do.
    ///
    /// # Errors
    /// [`TlsError`] if the files cannot be used.
    pub fn reload_certificate(&self) -> Result<(), TlsError> {
        self.shared.tls.as_ref().map_or(Ok(()), Tls::reload)
    }

    /// Returns the figures of the server, with at most `live_max` live requests and sockets.
    pub fn report(&self, live_max: usize) -> ServerReport {
        let (live, live_total) = self.shared.stats.live(live_max);
        ServerReport { live, live_total, ..self.shared.report() }
    }

    /// Returns the limits that clients have hit, with their counts.
    pub fn limits_hit(&self) -> Vec<(Limit, u64)> {
        self.shared.stats.limits.totals()
    }

    /// Ends the server: it stops accepting, lets requests end, closes sockets with 1001 and event streams, spread over
    /// the drain, and returns when nothing is left, at the latest after `drain`. Returns true if nothing was cut.
    pub fn drain(self, drain: Duration) -> bool {
        self.wait_drained(drain)
    }

    /// Like [`drain`](Self::drain), for a server that others use too.
    pub fn wait_drained(&self, drain: Duration) -> bool {
        self.begin_drain(drain);
        let end = std::time::Instant::now() + drain.min(TIME_MAX);
        while !self.is_drained() && std::time::Instant::now() < end {
            std::thread::park_timeout(DRAIN_CHECK);
        }
        self.has_drained_whole()
    }

    /// Like [`drain`](Self::drain), without blocking: for a process, or a task of tokio.
    pub async fn drain_async(self, drain: Duration) -> bool {
        self.begin_drain(drain);
        let end = std::time::Instant::now() + drain.min(TIME_MAX);
        while !self.is_drained() && std::time::Instant::now() < end {
            tokio::time::sleep(DRAIN_CHECK).await;
        }
        self.has_drained_whole()
    }

    /// Returns true if nothing is left, and nothing was cut.
    fn has_drained_whole(&self) -> bool {
        self.is_drained() && !self.shared.was_cut.load(Relaxed)
    }

    fn is_drained(&self) -> bool {
        let stats = &self.shared.stats;
        stats.connections.load(Relaxed) == 0
            && stats.websockets.load(Relaxed) == 0
            && self.acceptors.iter().all(|&pid| !self.shared.runtime.is_alive(pid))
    }

    /// Starts the drain, and returns at once.
    pub fn begin_drain(&self, drain: Duration) {
        let drain = drain.min(TIME_MAX);
        self.shared.drains.store(true, Relaxed);
        self.phase.send_if_modified(|phase| {
            let is_serving = !phase.is_draining();
            if is_serving {
                *phase = Phase::draining(drain);
            }
            is_serving
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.begin_drain(Duration::ZERO);
        for &pid in &self.acceptors {
            self.shared.runtime.exit(pid, ExitReason::Shutdown);
        }
    }
}

impl HttpServer for Shared {
    fn report(&self) -> ServerReport {
        let stats = &self.stats;
        let permits = |all: u32, free: &Semaphore| u64::from(all).saturating_sub(free.available_permits() as u64);
        let (bytes_in_total, bytes_out_total) = stats.bytes();
        ServerReport {
            name: Arc::clone(&self.name),
            listen: self.local,
            is_tls: self.tls.is_some(),
            is_draining: self.is_draining(),
            connections: stats.connections.load(Relaxed),
            connections_total: stats.connections_total.load(Relaxed),
            tls_failures_total: stats.tls_failures.load(Relaxed),
            bytes_in_total,
            bytes_out_total,
            in_flight: permits(self.limits.in_flight, &self.in_flight),
            in_flight_max: self.limits.in_flight.into(),
            waiting: stats.waiting.load(Relaxed),
            websockets: stats.websockets.load(Relaxed),
            event_streams: stats.event_streams.load(Relaxed),
            limits: stats.limits.reports(&self.limits),
            routes: stats.routes(),
            live: Vec::new(),
            live_total: stats.live_total(),
        }
    }

    fn for_each_live(&self, visit: &mut dyn FnMut(LiveRequest)) {
        self.stats.for_each_live(&mut |record| {
            if let Some(live) = record.live() {
                visit(live);
            }
        });
    }
}

/// Opens listening sockets that share an address, for example one for each scheduler: the kernel spreads connections over
/// them. Port 0 selects a free port; the address in use is returned with the sockets, which do not block.
///
/// # Errors
/// The error of the operating system, for example if another program listens on this address.
pub fn listeners(address: SocketAddr, count: usize) -> io::Result<(Vec<StdTcpListener>, SocketAddr)> {
    // Without SO_REUSEPORT, to find out whether another program listens there.
    if address.port() != 0 {
        drop(listener(address, false)?);
    }
    let first = listener(address, true)?;
    let local = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(listener(local, true)?);
    }
    Ok((listeners, local))
}

fn listener(address: SocketAddr, is_shared: bool) -> io::Result<StdTcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if is_shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    limit_unsent(&socket);
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(StdTcpListener::from(socket))
}

/// Logs that connections cannot be accepted, at most once in a while.
#[derive(Default)]
struct FailureLog {
    failures: u64,
    last: Option<Instant>,
}

impl FailureLog {
    fn write(&mut self, server: &str, error: &dyn fmt::Display) {
        self.failures += 1;
        if self.last.is_none_or(|at| at.elapsed() >= ACCEPT_LOG_INTERVAL) {
            tracing::warn!(%error, failures = self.failures, %server, "cannot accept connections");
            *self = Self { failures: 0, last: Some(Instant::now()) };
        }
    }
}

/// Accepts connections until the server drains, and then those that wait already.
async fn accept(shared: Arc<Shared>, context: Context, listener: StdTcpListener) -> ExitReason {
    context.set_label(format!("acceptor {}", escaped(&shared.name)));
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return ExitReason::other(format_args!("cannot accept connections: {error}")),
    };
    let label: Arc<str> = format!("connection {}", escaped(&shared.name)).into();
    let mut drain = shared.drain_signal();
    let mut failures = FailureLog::default();
    // Only after a connection with a high descriptor is it worth while to look for a free one.
    let mut is_near_limit = false;
    loop {
        if is_near_limit && !embed::descriptors::has_room(RESERVED_PARTS) {
            failures.write(&shared.name, &"nearly all file descriptors are taken: raise the limit (ulimit -n)");
            tokio::select! {
                () = tokio::time::sleep(ACCEPT_PAUSE) => continue,
                _ = drain.started() => return ExitReason::Normal,
            }
        }
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            _ = drain.started() => return ExitReason::Normal,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_client(&error) => continue,
            Err(error) => {
                failures.write(&shared.name, &error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        is_near_limit = stream.as_raw_fd().cast_unsigned() >= embed::descriptors::unreserved(RESERVED_PARTS);
        let mut permit = Arc::clone(&shared.connections).try_acquire_owned().ok();
        if permit.is_none() {
            shared.stats.hit(Limit::Connections);
            permit = tokio::select! {
                permit = Arc::clone(&shared.connections).acquire_owned() => permit.ok(),
                _ = drain.started() => None,
            };
        }
        let Some(permit) = permit else { return ExitReason::Normal };
        // Responses are written in one piece; a delay would only help those that are not.
        drop(stream.set_nodelay(true));
        let (open, place) = (OpenConnection::new(&shared.stats), Place::of(permit));
        let local = stream.local_addr().unwrap_or(shared.local);
        let (shared, label) = (Arc::clone(&shared), Arc::clone(&label));
        let spawned = context.try_spawn(|context| async move {
            let _open = open;
            context.set_label(label);
            connection::serve(shared, context, (stream, place), (peer, local)).await;
        });
        if spawned.is_err() {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// Returns true if the next connection may be accepted without the same error.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
