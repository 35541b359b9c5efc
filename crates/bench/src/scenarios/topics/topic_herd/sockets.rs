//! A herd of WebSocket clients and their server, with one process per connection, over loopback.
//!
//! ```text
//!   client ── connect, message, close ──▶ acceptor ──▶ connection ── publish ──▶ topic
//!      └── has left, or the error ──▶ driver of the herd
//! ```
//!
//! A client has left when the server has answered its close and closed the connection, so a herd that has left holds no
//! descriptors.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use rusm_runtime::topic::Message;
use rusm_runtime::{Context, ExitReason, Pid};
use rustix::process::{Resource, getrlimit};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::{accept_async, client_async};

use crate::run::error::RunError;

/// Descriptors per connection: both ends are in this process.
const ENDS: u64 = 2;
/// Descriptors for other files that are opened meanwhile.
const SPARE: u64 = 64;
/// Maximum number of connections that the kernel queues for accept; its own limit applies too.
const BACKLOG: i32 = 65_535;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Listener of the server, and the state of its clients.
pub(super) struct Sockets {
    listener: TcpListener,
    address: SocketAddr,
    /// Name of the topic that the server publishes to.
    topic: &'static str,
    reports: Arc<ClientReports>,
}

/// State reported by the clients.
#[derive(Default)]
struct ClientReports {
    /// Number of clients that have left.
    left: AtomicU64,
    /// Error of the first client that failed.
    failure: OnceLock<String>,
    changed: Notify,
}

impl Sockets {
    /// Opens the listener, if there are enough descriptors for a herd.
    pub(super) fn open(topic: &'static str, herd: u64) -> Result<Self, RunError> {
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
        check_room(herd, open, getrlimit(Resource::Nofile).current)?;
        let listen = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            rustix::net::listen(&listener, BACKLOG)?;
            listener.set_nonblocking(true)?;
            Ok::<_, std::io::Error>((listener.local_addr()?, listener))
        };
        let (address, listener) =
            listen().map_err(|error| RunError::Lacks(format!("cannot listen on {}: {error}", Ipv4Addr::LOCALHOST)))?;
        Ok(Self { listener, address, topic, reports: Arc::default() })
    }

    /// Starts the server; it is linked to this process and ends with it.
    pub(super) fn serve(&self, ctx: &Context) -> Result<Pid, Failure> {
        let (listener, topic) = (self.listener.try_clone()?, self.topic);
        Ok(ctx.spawn_link(move |ctx| accept(ctx, listener, topic))?)
    }

    /// Stops the server.
    pub(super) fn stop(ctx: &Context, server: Pid) {
        ctx.unlink(server);
        ctx.exit(server, ExitReason::Killed);
    }

    /// Starts a client that publishes a payload.
    pub(super) fn start(&self, ctx: &Context, payload: Vec<u8>) {
        let (address, reports) = (self.address, Arc::clone(&self.reports));
        ctx.spawn(move |_| async move {
            match client(address, payload.into()).await {
                Ok(()) => {
                    reports.left.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => drop(reports.failure.set(format!("a WebSocket client: {error}"))),
            }
            reports.changed.notify_one();
        });
    }

    /// Waits until `count` clients in total have left; returns the error of the first client that failed.
    pub(super) async fn left(&self, count: u64) -> Result<(), String> {
        loop {
            if let Some(why) = self.reports.failure.get() {
                return Err(why.clone());
            }
            if self.reports.left.load(Ordering::Relaxed) >= count {
                return Ok(());
            }
            self.reports.changed.notified().await;
        }
    }
}

/// Returns an error if there are too few descriptors for both ends of each connection.
fn check_room(herd: u64, open: u64, limit: Option<u64>) -> Result<(), RunError> {
    let needed = ENDS * herd + open + SPARE;
    match limit {
        Some(limit) if limit < needed => Err(RunError::Lacks(format!(
            "{herd} WebSocket clients take {needed} file descriptors, and this process may have {limit}: raise that with \
             ulimit -n {needed}, or make the herd smaller"
        ))),
        _ => Ok(()),
    }
}

async fn accept(ctx: Context, listener: TcpListener, topic: &'static str) -> std::io::Result<()> {
    ctx.set_label("acceptor");
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        ctx.spawn(move |ctx| connection(ctx, stream, topic));
    }
}

/// Publishes the client's messages. On an error, the connection ends without a close, which the client reports.
async fn connection(ctx: Context, stream: TcpStream, topic: &str) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let topic = ctx.topics().find(topic)?;
    let mut socket = accept_async(stream).await?;
    while let Some(frame) = socket.next().await {
        if let Frame::Binary(payload) = frame? {
            topic.publish(Message::new(payload)).await?;
        }
    }
    Ok(())
}

/// Connects, publishes one message, and ends when the server has closed the connection.
async fn client(address: SocketAddr, payload: Bytes) -> Result<(), Failure> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = client_async(format!("ws://{address}/"), stream).await?;
    socket.send(Frame::Binary(payload)).await?;
    socket.close(None).await?;
    while let Some(frame) = socket.next().await {
        frame?;
    }
    // Both sides have closed, so skip TIME_WAIT: in this state the kernel keeps each port for a minute, and they would
    // run out.
    socket.get_ref().set_zero_linger()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_herd_without_descriptors_is_refused_with_the_numbers() {
        let refused = check_room(1_000, 20, Some(1_024)).unwrap_err().to_string();

        assert!(refused.contains("1000 WebSocket clients take 2084 file descriptors"), "{refused}");
        assert!(refused.contains("may have 1024: raise that with ulimit -n 2084"), "{refused}");
        assert!(check_room(1_000, 20, Some(2_084)).is_ok() && check_room(1_000, 20, None).is_ok());
    }
}
