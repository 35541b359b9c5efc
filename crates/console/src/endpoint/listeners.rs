//! Accepts connections on both listeners, performs the handshake, and starts a session for each observer.
//!
//! ```text
//!   accept ──▶ pending handshakes (64 each, 5 s) ──▶ client slot (32) ──▶ session
//!                        ├──▶ /healthz, /readyz, /metrics, a refusal: answered and closed
//!                        └──▶ no free slot: 503
//! ```
//!
//! Pending handshakes have slots of their own, and when all are taken the oldest one is closed. Slow connections
//! therefore keep no observer out, and probes are answered regardless of the number of attached observers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rusm_protocol::{CLIENT_MESSAGE_MAX_BYTES, Role};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role as WsRole, WebSocketConfig};

use crate::endpoint::handshake::{self, HandshakeOutcome, Transport};
use crate::endpoint::on_behalf::client_of;
use crate::metrics;
use crate::rate_limit::{Throttled, TokenBucket};
use crate::session::Session;
use crate::session::peer::Peer;
use crate::view::node::{ClientSlot, Node};

/// Bytes that the kernel buffers for a client that does not read.
const SEND_BUFFER_BYTES: usize = 128 * 1024;
/// Bytes of one message that the session buffers for such a client.
const WRITE_BUFFER_MAX_BYTES: usize = 512 * 1024;
/// Time for which a refused connection may read the answer.
const RESPONSE_READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Accepts observers on the Unix socket.
pub(crate) async fn accept_unix(node: &Rc<Node>, listener: UnixListener) {
    let ours = rustix::process::getuid().as_raw();
    let mut handshakes = PendingHandshakes::new(node);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match stream.peer_cred() {
                Ok(peer) if peer.uid() == ours || peer.uid() == 0 => {
                    let name = client_of(&stream).unwrap_or_else(|| match peer.pid() {
                        Some(pid) => format!("user {} process {pid}", peer.uid()),
                        None => format!("user {}", peer.uid()),
                    });
                    handshakes.start_handshake(stream, Transport::Unix, name).await;
                }
                _ => tracing::warn!("refused an observer of another user on the Unix socket"),
            },
            Err(error) => pause(&error).await,
        }
    }
}

/// Accepts observers and probes on the TCP port.
pub(crate) async fn accept_tcp(node: &Rc<Node>, listener: TcpListener, transport: Transport) {
    let mut handshakes = PendingHandshakes::new(node);
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                tune(&stream);
                handshakes.start_handshake(stream, transport.clone(), from.to_string()).await;
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// Sends small messages immediately and limits the kernel's buffer. A socket without these options still works.
fn tune(stream: &TcpStream) {
    let tuned = stream.set_nodelay(true).and_then(|()| {
        rustix::net::sockopt::set_socket_send_buffer_size(stream, SEND_BUFFER_BYTES).map_err(Into::into)
    });
    if let Err(error) = tuned {
        tracing::debug!(%error, "cannot tune a socket");
    }
}

/// Waits after a failed accept instead of spinning: most likely the file descriptors are exhausted.
async fn pause(error: &std::io::Error) {
    tracing::warn!(%error, "cannot accept an observer");
    sleep(Duration::from_millis(100)).await;
}

/// Pending handshakes of one listener.
struct PendingHandshakes {
    node: Rc<Node>,
    slots: Rc<RefCell<HandshakeSlots>>,
    arrivals: TokenBucket,
}

/// Pending handshakes, the oldest first. Dropping a sender closes the connection.
#[derive(Default)]
struct HandshakeSlots {
    all: VecDeque<(u64, oneshot::Sender<()>)>,
    issued: u64,
}

/// A slot for a pending handshake; freed when dropped.
struct HandshakeSlot {
    slots: Rc<RefCell<HandshakeSlots>>,
    number: u64,
}

impl HandshakeSlot {
    /// Takes a slot; if all are taken, evicts the oldest handshake.
    fn take(slots: &Rc<RefCell<HandshakeSlots>>, limit: u32) -> (Self, oneshot::Receiver<()>) {
        let (keep_open, evicted) = oneshot::channel();
        let mut all = slots.borrow_mut();
        all.issued += 1;
        let number = all.issued;
        all.all.push_back((number, keep_open));
        if all.all.len() > limit as usize {
            all.all.pop_front();
        }
        (Self { slots: Rc::clone(slots), number }, evicted)
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.slots.borrow_mut().all.retain(|(number, _)| *number != self.number);
    }
}

impl PendingHandshakes {
    fn new(node: &Rc<Node>) -> Self {
        let arrivals = TokenBucket::new(node.limits.connections_per_sec, Instant::now());
        Self { node: Rc::clone(node), slots: Rc::default(), arrivals }
    }

    /// Starts the handshake of a new connection; waits first if connections arrive too fast.
    async fn start_handshake<S: AsyncRead + AsyncWrite + Unpin + 'static>(
        &mut self,
        stream: S,
        transport: Transport,
        name: String,
    ) {
        while !self.arrivals.take(Instant::now()) {
            sleep(self.arrivals.wait(1.0, Instant::now())).await;
        }
        let node = Rc::clone(&self.node);
        let (slot, evicted) = HandshakeSlot::take(&self.slots, node.limits.handshakes);
        tokio::task::spawn_local(async move {
            let admitted = tokio::select! {
                admitted = timeout(node.limits.handshake, admit(&node, stream, &transport, name)) => admitted,
                _ = evicted => return tracing::debug!("disconnected: too many handshakes are pending"),
            };
            drop(slot);
            match admitted {
                Ok(Some((session, client_slot))) => {
                    let end = session.run().await;
                    tracing::debug!(why = end.why(), "an observer disconnected");
                    drop(client_slot);
                    node.clear_rates_if_idle().await;
                }
                Ok(None) => {}
                Err(_) => tracing::debug!("disconnected: the handshake took too long"),
            }
        });
    }
}

/// Performs the handshake of a connection; one that does not become an observer gets an answer.
async fn admit<'a, S: AsyncRead + AsyncWrite + Unpin>(
    node: &'a Rc<Node>,
    mut stream: S,
    transport: &Transport,
    name: String,
) -> Option<(Session<Throttled<S>>, ClientSlot<'a>)> {
    let (head, rest) = match handshake::read_head(&mut stream).await {
        Ok(read) => read,
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            let status = "431 Request Header Fields Too Large";
            respond(stream, status, "text/plain", "the request head may have at most 8 KiB\n").await;
            return None;
        }
        Err(_) => return None,
    };
    match handshake::check_request(&head, transport) {
        HandshakeOutcome::Upgrade { role, response } => {
            let Some(client_slot) = node.admit() else {
                let why = format!("the limit of {} attached observers is reached\n", node.limits.clients);
                respond(stream, "503 Service Unavailable", "text/plain", &why).await;
                return None;
            };
            stream.write_all(response.as_bytes()).await.ok()?;
            let role = if node.read_only { Role::Observe } else { role };
            return Some((session(node, stream, rest, Peer { name, role }).await, client_slot));
        }
        HandshakeOutcome::Health => respond(stream, "200 OK", "text/plain", "ok\n").await,
        HandshakeOutcome::Ready if node.readiness.is_ready() => {
            respond(stream, "200 OK", "text/plain", "ready\n").await;
        }
        HandshakeOutcome::Ready => respond(stream, "503 Service Unavailable", "text/plain", "not ready\n").await,
        HandshakeOutcome::Metrics => {
            respond(stream, "200 OK", metrics::CONTENT_TYPE, &node.metrics()).await;
        }
        HandshakeOutcome::Refuse { status, why } => respond(stream, status, "text/plain", &format!("{why}\n")).await,
    }
    None
}

async fn session<S: AsyncRead + AsyncWrite + Unpin>(
    node: &Rc<Node>,
    stream: S,
    rest: Vec<u8>,
    peer: Peer,
) -> Session<Throttled<S>> {
    let config = WebSocketConfig::default()
        .read_buffer_size(8 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER_MAX_BYTES)
        .max_message_size(Some(CLIENT_MESSAGE_MAX_BYTES))
        .max_frame_size(Some(CLIENT_MESSAGE_MAX_BYTES));
    let stream = Throttled::new(stream, node.limits.bytes_per_sec);
    let socket = WebSocketStream::from_partially_read(stream, rest, WsRole::Server, Some(config)).await;
    Session::new(Rc::clone(node), socket, peer)
}

/// Answers a plain request and closes the connection.
async fn respond<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, status: &str, content_type: &str, body: &str) {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let sent = async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection before the client has read the answer.
        let mut unread = [0; 4096];
        while stream.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    // A client that does not wait for the answer does not receive it.
    drop(timeout(RESPONSE_READ_TIMEOUT, sent).await);
}
