//! A connection: one process from its first byte to its last.
//!
//! ```text
//!   accepted ──▶ TLS ──▶ which version? ──▶ hyper ──▶ requests, each with a process of its own: see `dispatch`
//!                └ limits in time ┘         └ ends when idle, drained, or given up by its client
//! ```

mod answer;
mod dispatch;
mod framing;
mod handling;
pub(crate) mod io;
pub(crate) mod reply;
pub(crate) mod rest;
pub(crate) mod stall;
mod state;
mod tracked;
pub(crate) mod wait;

use std::error::Error as _;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rusm_runtime::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::connection::dispatch::{ProcessExecutor, RequestService};
use crate::connection::io::{Activity, Io, Place, Socket};
use crate::connection::wait::LazyTimer;
use crate::limits::Limit;
use crate::request::Connection;
use crate::shared::Shared;
use crate::stats::ServerStats;
use crate::tls::Tls;

/// First bytes of a plain connection of HTTP/2.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Time without a request after which a connection gives its buffers back.
const IDLE_AFTER: Duration = Duration::from_millis(200);
/// Time after which a client that takes nothing of its responses is disconnected while their memory is short.
pub(crate) const TAKE_WITHIN: Duration = Duration::from_secs(1);
/// Memory of a handshake of TLS: the longest message that is collected.
const HANDSHAKE_BYTES: usize = 64 * 1024;
/// Time for a client to read the last response.
const LINGER: Duration = Duration::from_secs(1);
const HEAD_TIMEOUT_RESPONSE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Counts a connection as long as it exists.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    stats: Arc<ServerStats>,
}

impl OpenConnection {
    pub(crate) fn new(stats: &Arc<ServerStats>) -> Self {
        stats.connections.fetch_add(1, Relaxed);
        stats.connections_total.fetch_add(1, Relaxed);
        Self { stats: Arc::clone(stats) }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.stats.connections.fetch_sub(1, Relaxed);
    }
}

/// Serves a connection until it ends. Called in the connection's own process.
///
/// While the connection is idle, the future is small: hyper and its buffers exist only around requests.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    context: Context,
    (stream, place): (TcpStream, Place),
    (peer, local): (SocketAddr, SocketAddr),
) {
    let Some((socket, prefix, is_h2)) = Box::pin(opened(&shared, stream)).await else { return };
    let is_tls = shared.tls.is_some();
    let connection = Arc::new(Connection { peer, local, is_tls, pid: context.pid() });
    let activity = Arc::new(Activity::new(is_h2, shared.clients.of(peer.ip())));
    let timeout = shared.limits.write_timeout;
    let counters = (Arc::clone(&shared.stats), Arc::clone(&activity));
    let mut io = Io::new(socket, prefix, counters, timeout, is_h2, Some(place));
    let context = (!is_h2).then(|| Arc::new(context));
    let service = || {
        let (connection, activity) = (Arc::clone(&connection), Arc::clone(&activity));
        RequestService::new(Arc::clone(&shared), context.clone(), connection, activity)
    };
    if is_h2 {
        return Box::pin(serve_h2(&shared, io, service(), &activity)).await;
    }
    while let Some(idle) = Box::pin(serve_h1(&shared, io, service(), &activity)).await {
        io = idle;
        if !Box::pin(next_request(&shared, &mut io, &activity)).await {
            return Box::pin(linger(&shared, io)).await;
        }
    }
}

/// Returns the socket, its first bytes, and true for HTTP/2; `None` if the connection has ended.
async fn opened(shared: &Shared, stream: TcpStream) -> Option<(Socket, Bytes, bool)> {
    let mut drain = shared.drain_signal();
    tokio::select! {
        opened = timeout(shared.limits.head_timeout, open(shared, stream)) => opened.unwrap_or_else(|_| {
            shared.stats.hit(Limit::HeadTimeout);
            None
        }),
        () = drain.idle_end() => None,
    }
}

/// Waits for the next request of an idle connection. Returns false if the connection should end.
async fn next_request(shared: &Shared, io: &mut Io, activity: &Activity) -> bool {
    let Some((deadline, limit)) = activity.deadline(&shared.limits) else { return true };
    let mut drain = shared.drain_signal();
    tokio::select! {
        biased;
        () = io.readable() => return true,
        () = drain.idle_end() => {}
        () = sleep_until(deadline) => shared.stats.hit(limit),
    }
    false
}

/// Returns the socket, its first bytes, and true for HTTP/2; `None` if the client has gone.
async fn open(shared: &Shared, mut stream: TcpStream) -> Option<(Socket, Bytes, bool)> {
    if let Some(tls) = &shared.tls {
        return accept_tls(shared, tls, stream).await;
    }
    let mut first = [0; H2_PREFACE.len()];
    let mut len = 0;
    // Wait without a buffer first: most connections say all of this in one packet.
    while len < first.len() && H2_PREFACE.starts_with(&first[..len]) {
        match stream.read(&mut first[len..]).await {
            Ok(0) | Err(_) => return None,
            Ok(bytes) => len += bytes,
        }
    }
    shared.stats.add_in(len);
    Some((Socket::Plain(stream), Bytes::copy_from_slice(&first[..len]), first[..len] == *H2_PREFACE))
}

/// Performs the handshake of TLS. It holds memory only from the first byte of the client on, and for a second at most while
/// handshakes have taken half of theirs.
async fn accept_tls(shared: &Shared, tls: &Tls, stream: TcpStream) -> Option<(Socket, Bytes, bool)> {
    if stream.peek(&mut [0]).await.ok()? == 0 {
        return None;
    }
    let _share = shared.handshakes.take(HANDSHAKE_BYTES).await?;
    let mut accepted = pin!(tls.acceptor().accept(stream));
    loop {
        match timeout(TAKE_WITHIN, &mut accepted).await {
            Ok(Ok(stream)) => {
                let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                return Some((Socket::Tls(Box::new(stream)), Bytes::new(), is_h2));
            }
            Ok(Err(error)) => {
                shared.stats.tls_failures.fetch_add(1, Relaxed);
                tracing::debug!(%error, "a TLS handshake failed");
                return None;
            }
            Err(_) if shared.handshakes.is_short() => {
                shared.stats.hit(Limit::BodiesBytes);
                return None;
            }
            Err(_) => {}
        }
    }
}

/// Serves requests. Returns the stream if the connection is idle, and `None` if it has ended.
async fn serve_h1(shared: &Shared, io: Io, service: RequestService, activity: &Activity) -> Option<Io> {
    let limits = &shared.limits;
    // Of a whole head with its separators; each part of it is checked afterwards.
    let head_bytes_max = (limits.target_bytes + limits.head_bytes + 4 * limits.head_fields + 64).max(8192);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        // Otherwise hyper reads during a request to notice that the client leaves, for which it needs another buffer.
        .half_close(io.notices_end())
        .max_headers(limits.head_fields)
        .max_header_size(head_bytes_max)
        .max_buf_size(head_bytes_max)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = connection.with_upgrades();
    let ended = watched(shared, activity, false, |task, is_ending| {
        let mut connection = Pin::new(&mut connection);
        if is_ending {
            connection.as_mut().graceful_shutdown();
        }
        connection.poll(task)
    });
    let ended = ended.await;
    // Without an upgrade, the stream is still there.
    let parts = connection.into_parts()?;
    let mut io = parts.io.into_inner();
    match ended {
        Ended::Idle => {
            io.unread(parts.read_buf);
            return Some(io);
        }
        Ended::Served(Ok(())) => {}
        Ended::Served(Err(error)) => {
            if error.is_parse_too_large() {
                // The buffer keeps a head that could not be parsed.
                let is_long = parts.read_buf.len() >= head_bytes_max;
                shared.stats.hit(if is_long { Limit::HeadBytes } else { Limit::HeadFields });
            }
            tracing::debug!(%error, "a connection ended");
        }
        Ended::Cut => {
            shared.was_cut.store(true, Relaxed);
            return None;
        }
        Ended::Gone | Ended::Stalled | Ended::Settled => return None,
        Ended::Limit(limit) => {
            shared.stats.hit(limit);
            if limit != Limit::HeadTimeout {
                return None;
            }
            // Fails if the client has gone; that is of no consequence.
            drop(timeout(LINGER, io.write_all(HEAD_TIMEOUT_RESPONSE)).await);
        }
    }
    // In a box of its own, because the buffers of hyper are gone by then.
    Box::pin(linger(shared, io)).await;
    None
}

/// Closes a stream so that its client receives the last response: what it still sends is read for a while. Otherwise
/// the operating system would answer those bytes with a reset, and the client would lose the response.
async fn linger(shared: &Shared, mut io: Io) {
    let end = Instant::now() + LINGER;
    let end = shared.phase.borrow().deadline().map_or(end, |deadline| deadline.min(end));
    let read = async {
        if io.shutdown().await.is_err() {
            return;
        }
        let mut buffer = [0; 1024];
        while let Ok(1..) = io.read(&mut buffer).await {}
    };
    drop(timeout_at(end, read).await);
}

async fn serve_h2(shared: &Shared, io: Io, service: RequestService, activity: &Activity) {
    let limits = &shared.limits;
    let executor = ProcessExecutor::new(&shared.runtime);
    let mut connection = pin!(
        http2::Builder::new(executor)
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.h2_streams)
            .max_pending_accept_reset_streams(limits.h2_resets)
            .max_local_error_reset_streams(limits.h2_resets)
            .max_header_list_size((limits.target_bytes + limits.head_bytes) as u32)
            .keep_alive_interval(limits.ws_ping)
            .keep_alive_timeout(limits.ws_ping)
            .serve_connection(TokioIo::new(io), service)
    );
    let ended = watched(shared, activity, true, |task, is_ending| {
        if is_ending {
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(task)
    });
    match ended.await {
        Ended::Served(Err(error)) => {
            if is_refusal(&error) {
                shared.stats.hit(Limit::Http2);
            }
            tracing::debug!(%error, "a connection ended");
        }
        Ended::Cut => shared.was_cut.store(true, Relaxed),
        Ended::Served(Ok(())) | Ended::Limit(_) | Ended::Idle | Ended::Gone | Ended::Stalled | Ended::Settled => {}
    }
}

/// Returns true if HTTP/2 ended a connection because its client broke a rule; false if the client has gone.
fn is_refusal(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| !cause.is_io() && !cause.is_remote())
}

/// Why a connection is no longer served.
enum Ended {
    Served(hyper::Result<()>),
    Limit(Limit),
    /// The last request was answered a while ago.
    Idle,
    /// The client has gone before its response.
    Gone,
    /// The drain is over.
    Cut,
    /// The client took nothing of its responses while their memory was short.
    Stalled,
    /// Not an end: the last request may have ended in the meantime.
    Settled,
}

/// Polls a connection until it ends, exceeds a limit in time, or the server drains. A connection of HTTP/1.1 also ends
/// after a while without a request. A connection of HTTP/2 that exceeds a limit gets GOAWAY first, so that a request on its
/// way at that moment is answered, or sent again by its client.
async fn watched(
    shared: &Shared,
    activity: &Activity,
    is_h2: bool,
    mut poll: impl FnMut(&mut std::task::Context<'_>, bool) -> Poll<hyper::Result<()>>,
) -> Ended {
    let mut drain = shared.drain_signal();
    let mut idle_end = pin!(drain.idle_end());
    let mut cut: Option<Instant> = None;
    let mut timer = LazyTimer::default();
    let mut is_leaving = false;
    let mut looked: Option<Instant> = None;
    poll_fn(|task| {
        let mut begins_to_end = cut.is_none() && idle_end.as_mut().poll(task).is_ready();
        if begins_to_end {
            // Without a deadline the server was dropped.
            cut = Some(shared.phase.borrow().deadline().unwrap_or_else(Instant::now));
        }
        loop {
            if let Poll::Ready(ended) = poll(task, begins_to_end) {
                return Poll::Ready(Ended::Served(ended));
            }
            if activity.is_client_gone() {
                return Poll::Ready(Ended::Gone);
            }
            let linger = if is_leaving { LINGER } else { Duration::ZERO };
            let limit = activity.deadline(&shared.limits).map(|(at, limit)| (at + linger, Ended::Limit(limit)));
            let may_rest = !is_h2 && cut.is_none();
            let idle = activity.idle_since().filter(|_| may_rest).map(|since| (since + IDLE_AFTER, Ended::Idle));
            // Nothing wakes this process when that of the request ends its part.
            let settled = activity.is_settling().then(|| (Instant::now() + IDLE_AFTER, Ended::Settled));
            let cut = cut.map(|at| (at, Ended::Cut));
            looked = activity.may_hold().then(|| looked.unwrap_or_else(Instant::now));
            let stalled = looked.map(|looked| (looked + TAKE_WITHIN, Ended::Stalled));
            let Some((at, ended)) =
                [limit, idle, settled, cut, stalled].into_iter().flatten().min_by_key(|(at, _)| *at)
            else {
                return Poll::Pending;
            };
            ready!(timer.poll(at, task));
            match ended {
                Ended::Stalled if !is_stalled(shared, activity) => {
                    looked = Some(Instant::now());
                    continue;
                }
                Ended::Settled => continue,
                Ended::Limit(limit) if is_h2 && !is_leaving => shared.stats.hit(limit),
                ended => return Poll::Ready(ended),
            }
            (is_leaving, begins_to_end) = (true, true);
        }
    })
    .await
}

/// Returns true for a client that takes nothing of its responses while their memory is short.
fn is_stalled(shared: &Shared, activity: &Activity) -> bool {
    let has_waited = activity.held_since().is_some_and(|since| since.elapsed() >= TAKE_WITHIN);
    let is_stalled = has_waited && activity.client().is_short();
    if is_stalled {
        shared.stats.hit(Limit::ResponsesBytes);
    }
    is_stalled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<A, B, C, D, F: Future>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// The memory of an idle connection is the future of its process, and what that has on the heap.
    #[test]
    fn the_future_of_an_idle_connection_is_small() {
        assert!(bytes_of(serve) <= 768, "{} bytes", bytes_of(serve));
        assert!(size_of::<Io>() <= 128, "{} bytes", size_of::<Io>());
        // One for each connection with requests.
        assert!(size_of::<state::ConnectionState>() <= 128, "{} bytes", size_of::<state::ConnectionState>());
        assert!(size_of::<answer::Answer>() <= 96, "{} bytes", size_of::<answer::Answer>());
    }
}
