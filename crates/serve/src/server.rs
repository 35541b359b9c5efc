//! A server: its listeners, what all its processes share, and its end.
//!
//! ```text
//!   Server ──▶ supervisor ──▶ one acceptor on each scheduler, with a socket of its own (SO_REUSEPORT)
//!                                └─ connection ──▶ requests
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::RwLock;
use rusm_runtime::{Context, ExitReason, Handle, Pid, SpawnError};
use rusm_text::escaped;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::connection::{self, OpenConnection};
use crate::drain::Phase;
use crate::limits::{Limit, Limits};
use crate::router::Router;
use crate::shared::Shared;
use crate::stats::{Live, RouteReport, ServerStats};
use crate::tls::{Tls, TlsError, TlsFiles};

/// Length of a listener's queue of connections that are not accepted yet.
const BACKLOG: i32 = 4096;
/// Pause after an error that all further connections would meet, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Interval at which the end of a drain is checked.
const DRAIN_CHECK: Duration = Duration::from_millis(2);

/// Configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeConfig {
    /// Name that observers see. Default: the address.
    pub name: Option<String>,
    /// Address to listen on. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Certificate. Default: none; the server then speaks HTTP/1.1, and HTTP/2 with clients that start with it.
    pub tls: Option<TlsFiles>,
    /// Limits. Default: [`Limits::default`].
    pub limits: Limits,
}

impl ServeConfig {
    /// Returns the default configuration for an address.
    pub fn listen(listen: impl Into<SocketAddr>) -> Self {
        Self { name: None, listen: listen.into(), tls: None, limits: Limits::default() }
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
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    acceptors: Vec<Pid>,
}

/// Figures of a server. Counters that end in `_total` never decrease.
#[derive(Clone, Debug)]
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
    /// Number of requests that wait for one in flight to end.
    pub waiting: u64,
    /// Number of open WebSocket connections.
    pub websockets: u64,
    /// Number of open streams of events.
    pub event_streams: u64,
    /// Limits that clients have hit, with their counts.
    pub limits_hit: Vec<(Limit, u64)>,
    /// Its routes.
    pub routes: Vec<RouteReport>,
    /// The requests and sockets that have lasted longest.
    pub live: Vec<Live>,
    /// Number of all requests and sockets that are handled now.
    pub live_total: u64,
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
            stats: Arc::new(ServerStats::new(router.stats())),
            in_flight: Arc::new(Semaphore::new(config.limits.in_flight as usize)),
            connections: Arc::new(Semaphore::new(config.limits.connections as usize)),
            limits: config.limits,
            tls,
            local,
            router: RwLock::new(Arc::new(router)),
            phase: receiver,
        });
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
        self.shared.stats.set_routes(router.stats());
        *self.shared.router.write() = Arc::new(router);
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
        self.shared.report(live_max)
    }

    /// Ends the server: it stops accepting, lets requests end, closes sockets with 1001 and event streams, spread over
    /// the drain, and returns when nothing is left, at the latest after `drain`. Returns true if nothing was cut.
    pub fn drain(self, drain: Duration) -> bool {
        self.begin_drain(drain);
        let stats = &self.shared.stats;
        let is_done = || {
            stats.connections.load(Relaxed) == 0
                && stats.websockets.load(Relaxed) == 0
                && self.acceptors.iter().all(|&pid| !self.shared.runtime.is_alive(pid))
        };
        let end = std::time::Instant::now() + drain;
        while !is_done() && std::time::Instant::now() < end {
            std::thread::park_timeout(DRAIN_CHECK);
        }
        is_done()
    }

    /// Starts the drain, and returns at once.
    pub fn begin_drain(&self, drain: Duration) {
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

impl Shared {
    fn report(&self, live_max: usize) -> ServerReport {
        let stats = &self.stats;
        let (live, live_total) = stats.live(live_max);
        ServerReport {
            name: Arc::clone(&self.name),
            listen: self.local,
            is_tls: self.tls.is_some(),
            is_draining: self.phase.borrow().is_draining(),
            connections: stats.connections.load(Relaxed),
            connections_total: stats.connections_total.load(Relaxed),
            tls_failures_total: stats.tls_failures.load(Relaxed),
            bytes_in_total: stats.bytes_in.load(Relaxed),
            bytes_out_total: stats.bytes_out.load(Relaxed),
            waiting: stats.waiting.load(Relaxed),
            websockets: stats.websockets.load(Relaxed),
            event_streams: stats.event_streams.load(Relaxed),
            limits_hit: stats.limits.totals(),
            routes: stats.routes(),
            live,
            live_total,
        }
    }
}

/// Opens one socket for each scheduler, all on the same address.
fn listeners(address: SocketAddr, count: usize) -> io::Result<(Vec<StdTcpListener>, SocketAddr)> {
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
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(StdTcpListener::from(socket))
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
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            _ = drain.started() => return ExitReason::Normal,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_client(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, server = %shared.name, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
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
        let open = OpenConnection::new(&shared.stats, permit);
        let local = stream.local_addr().unwrap_or(shared.local);
        let (shared, label) = (Arc::clone(&shared), Arc::clone(&label));
        let spawned = context.try_spawn(|context| async move {
            let _open = open;
            context.set_label(label);
            connection::serve(shared, context, stream, (peer, local)).await;
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
