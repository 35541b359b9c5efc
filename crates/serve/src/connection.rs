//! A connection: one process from its first byte to its last.
//!
//! ```text
//!   accepted ──▶ TLS ──▶ which version? ──▶ hyper ──▶ requests, each with a process of its own: see `dispatch`
//!                └ limits in time ┘         └ ends when idle, drained, or given up by its client
//! ```

mod dispatch;
mod io;
pub(crate) mod rest;
mod tracked;
pub(crate) mod wait;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rusm_runtime::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connection::dispatch::{ProcessExecutor, RequestService};
use crate::connection::io::{Activity, Io, Socket};
use crate::connection::wait::LazyTimer;
use crate::drain::DrainSignal;
use crate::limits::Limit;
use crate::request::Connection;
use crate::shared::Shared;
use crate::stats::ServerStats;

/// First bytes of a plain connection of HTTP/2.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Time for a client to read the last response.
const LINGER: Duration = Duration::from_secs(1);
const HEAD_TIMEOUT_RESPONSE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Counts a connection as long as it exists.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    stats: Arc<ServerStats>,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl OpenConnection {
    pub(crate) fn new(stats: &Arc<ServerStats>, permit: tokio::sync::OwnedSemaphorePermit) -> Self {
        stats.connections.fetch_add(1, Relaxed);
        stats.connections_total.fetch_add(1, Relaxed);
        Self { stats: Arc::clone(stats), _permit: permit }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.stats.connections.fetch_sub(1, Relaxed);
    }
}

/// Serves a connection until it ends. Called in the connection's own process.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    context: Context,
    stream: TcpStream,
    addresses: (SocketAddr, SocketAddr),
) {
    let mut drain = shared.drain_signal();
    let (peer, local) = addresses;
    let is_tls = shared.tls.is_some();
    let connection = Connection { peer, local, is_tls, pid: context.pid() };
    let served = serve_socket(&shared, context, stream, connection, drain.clone());
    tokio::select! {
        () = served => {}
        () = drain.deadline() => {}
    }
}

async fn serve_socket(
    shared: &Arc<Shared>,
    context: Context,
    stream: TcpStream,
    connection: Connection,
    mut drain: DrainSignal,
) {
    let limits = &shared.limits;
    let opened = timeout(limits.head_timeout, open(shared, stream));
    let opened = tokio::select! {
        opened = opened => opened,
        () = drain.idle_end() => return,
    };
    let (socket, prefix, is_h2) = match opened {
        Ok(Some(opened)) => opened,
        Ok(None) => return,
        Err(_) => {
            shared.stats.hit(Limit::HeadTimeout);
            return;
        }
    };
    let activity = Arc::new(Activity::new());
    let io = Io::new(socket, prefix, Arc::clone(&shared.stats), Arc::clone(&activity), limits.write_timeout);
    let context = (!is_h2).then_some(context);
    let service = RequestService::new(Arc::clone(shared), context, connection, Arc::clone(&activity));
    // On the heap: until here, an idle connection needs much less.
    if is_h2 {
        Box::pin(serve_h2(shared, io, service, &activity, drain)).await;
    } else {
        Box::pin(serve_h1(shared, io, service, &activity, drain)).await;
    }
}

/// Returns the socket, its first bytes, and true for HTTP/2; `None` if the client has gone.
async fn open(shared: &Shared, mut stream: TcpStream) -> Option<(Socket, Bytes, bool)> {
    if let Some(tls) = &shared.tls {
        return match tls.acceptor().accept(stream).await {
            Ok(stream) => {
                let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                Some((Socket::Tls(Box::new(stream)), Bytes::new(), is_h2))
            }
            Err(error) => {
                shared.stats.tls_failures.fetch_add(1, Relaxed);
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
        };
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
    shared.stats.bytes_in.fetch_add(len as u64, Relaxed);
    Some((Socket::Plain(stream), Bytes::copy_from_slice(&first[..len]), first[..len] == *H2_PREFACE))
}

async fn serve_h1(shared: &Shared, io: Io, service: RequestService, activity: &Activity, drain: DrainSignal) {
    let limits = &shared.limits;
    // Of a whole head with its separators; each part of it is checked afterwards.
    let head_bytes_max = (limits.target_bytes + limits.head_bytes + 4 * limits.head_fields + 64).max(8192);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .half_close(false)
        .max_headers(limits.head_fields)
        .max_header_size(head_bytes_max)
        .max_buf_size(head_bytes_max)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = connection.with_upgrades();
    let ended = watched(shared, activity, drain, |task, is_ending| {
        let mut connection = Pin::new(&mut connection);
        if is_ending {
            connection.as_mut().graceful_shutdown();
        }
        connection.poll(task)
    });
    let ended = ended.await;
    let io = connection.into_parts().map(|parts| parts.io.into_inner());
    match ended {
        Ended::Served(Ok(())) => {}
        Ended::Served(Err(error)) => {
            if error.is_parse_too_large() {
                shared.stats.hit(Limit::HeadBytes);
            }
            tracing::debug!(%error, "a connection ended");
        }
        Ended::Limit(limit) => {
            shared.stats.hit(limit);
            if limit == Limit::HeadTimeout
                && let Some(mut io) = io
            {
                // Fails if the client has gone; that is of no consequence.
                drop(timeout(LINGER, io.write_all(HEAD_TIMEOUT_RESPONSE)).await);
                linger(io).await;
            }
            return;
        }
    }
    // Without an upgrade, the stream is still there.
    if let Some(io) = io {
        linger(io).await;
    }
}

/// Closes a stream so that its client receives the last response: what it still sends is read for a while. Otherwise
/// the operating system would answer those bytes with a reset, and the client would lose the response.
async fn linger(mut io: Io) {
    let read = async {
        if io.shutdown().await.is_err() {
            return;
        }
        let mut buffer = [0; 1024];
        while let Ok(1..) = io.read(&mut buffer).await {}
    };
    drop(timeout(LINGER, read).await);
}

async fn serve_h2(shared: &Shared, io: Io, service: RequestService, activity: &Activity, drain: DrainSignal) {
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
    let ended = watched(shared, activity, drain, |task, is_ending| {
        if is_ending {
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(task)
    });
    match ended.await {
        Ended::Served(Ok(())) => {}
        Ended::Served(Err(error)) => {
            shared.stats.hit(Limit::Http2);
            tracing::debug!(%error, "a connection ended");
        }
        Ended::Limit(limit) => shared.stats.hit(limit),
    }
}

/// Why a connection is no longer served.
enum Ended {
    Served(hyper::Result<()>),
    Limit(Limit),
}

/// Polls a connection until it ends, exceeds a limit in time, or the server drains.
async fn watched(
    shared: &Shared,
    activity: &Activity,
    mut drain: DrainSignal,
    mut poll: impl FnMut(&mut std::task::Context<'_>, bool) -> Poll<hyper::Result<()>>,
) -> Ended {
    let limits = &shared.limits;
    let mut idle_end = pin!(drain.idle_end());
    let mut is_ending = false;
    let mut timer = LazyTimer::default();
    poll_fn(|task| {
        let begins_to_end = !is_ending && idle_end.as_mut().poll(task).is_ready();
        is_ending |= begins_to_end;
        if let Poll::Ready(ended) = poll(task, begins_to_end) {
            return Poll::Ready(Ended::Served(ended));
        }
        match activity.deadline(limits.head_timeout, limits.idle_timeout) {
            Some((deadline, limit)) => timer.poll(deadline, task).map(|()| Ended::Limit(limit)),
            None => Poll::Pending,
        }
    })
    .await
}
