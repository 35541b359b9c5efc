//! Observers of other nodes: `rusm-top b@a` watches node `b` through node `a`.
//!
//! ```text
//!   observer ─▶ socket b@a.sock ─▶ writer, reader on a ══ session of the nodes ══ writer, reader on b ─▶ socket of b
//! ```
//!
//! Node `a` has a socket for each node that it is connected to. The bytes are not read, so each view of the observer works
//! as if it were attached to `b`. A connection is two processes on each node. A reader sends a few pieces that the other node
//! has not written yet, and then waits.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use rusm_console::connect_on_behalf;
use rusm_runtime::remote::{Decoder, Encoder, Exports, NodeDown, NodeUp, Portable};
use rusm_runtime::{Context, Down, ExitReason, Handle, Message, Pid, Request, SpawnError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::private_socket;

/// Name under which nodes start the far end of a connection.
const FAR_END: &str = "rusm/observe/2";
/// Name of the message that a piece was written.
const WRITTEN: &str = "rusm/observe/written";
/// Length of a piece of a stream, in bytes.
const PIECE: usize = 32 << 10;
/// Number of pieces that the other node may not have written yet.
const PIECES_MAX: usize = 4;
/// Time within which the far end has to answer.
const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// Time within which a socket has to take a piece: a client that does not read must not keep its place.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// Pause after each accepted observer: at most 200 a second come in, as at the socket of a node.
const ACCEPT_EVERY: Duration = Duration::from_millis(5);
/// Pause after an observer could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Maximum number of observers of one other node.
const OBSERVERS_MAX: usize = 32;

/// The place of an observer among those of one other node.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(observers: &Arc<AtomicUsize>) -> Option<Self> {
        let taken = Self(Arc::clone(observers));
        (observers.fetch_add(1, Ordering::Relaxed) < OBSERVERS_MAX).then_some(taken)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Question to the far end of a connection.
#[derive(Debug)]
struct Open {
    /// The process that takes its bytes.
    near: Pid,
    /// The client, for audit lines.
    client: String,
}

impl Portable for Open {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.near.encode(to);
        self.client.encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(Self { near: Pid::decode(from)?, client: String::decode(from)? })
    }
}

/// Notice that a piece was written to the socket of the other side.
#[derive(Debug)]
struct Written;

impl Portable for Written {
    fn encode(&self, _: &mut Encoder<'_>) {}

    fn decode(_: &mut Decoder<'_>) -> Option<Self> {
        Some(Self)
    }
}

/// The observers' socket of this node, for other nodes. It is known after the runtime has started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed(Arc<OnceLock<PathBuf>>);

impl Observed {
    /// Adds what other nodes need to reach the socket.
    pub(crate) fn export(&self, exports: Exports) -> Exports {
        let observed = self.clone();
        exports
            .call::<Open, bool>(FAR_END)
            .message::<Written>(WRITTEN)
            .spawnable(FAR_END, move |ctx, _| far_end(ctx, observed.clone()))
    }

    /// Sets the socket, once.
    pub(crate) fn set(&self, socket: &Path) {
        drop(self.0.set(socket.to_owned()));
    }
}

/// Starts the process that keeps a socket for each connected node.
pub(crate) fn start(runtime: &Handle, dir: &Path, name: &str) -> Result<Pid, SpawnError> {
    let (dir, name): (PathBuf, String) = (dir.to_owned(), name.to_owned());
    runtime.spawn(move |ctx: Context| async move {
        ctx.set_label("observers of other nodes");
        let mut listeners: HashMap<u32, Pid> = HashMap::new();
        for up in ctx.watch_nodes() {
            listen(&ctx, &dir, &name, &up, &mut listeners);
        }
        loop {
            match ctx.receive().await.downcast::<NodeUp>() {
                Ok(up) => listen(&ctx, &dir, &name, &up, &mut listeners),
                Err(other) => {
                    if let Ok(down) = other.downcast::<NodeDown>()
                        && let Some(listener) = listeners.remove(&down.node)
                    {
                        ctx.unlink(listener);
                        ctx.exit(listener, ExitReason::Shutdown);
                    }
                }
            }
        }
    })
}

/// Starts the process that listens for observers of a node.
fn listen(ctx: &Context, dir: &Path, own: &str, up: &NodeUp, listeners: &mut HashMap<u32, Pid>) {
    let (node, socket) = (Arc::clone(&up.identity.name), dir.join(format!("{}@{own}.sock", up.identity.name)));
    let started = ctx.spawn_link(move |ctx: Context| async move {
        ctx.set_label("listener for observers of another node");
        if let Err(error) = accept(&ctx, &node, socket).await {
            tracing::warn!(%node, %error, "observers cannot watch a node through this one");
            // Its link must not end the others.
            std::future::pending::<()>().await;
        }
    });
    match started {
        Ok(listener) => drop(listeners.insert(up.node, listener)),
        Err(error) => tracing::warn!(%error, "observers cannot watch a node through this one"),
    }
}

async fn accept(ctx: &Context, node: &Arc<str>, path: PathBuf) -> io::Result<()> {
    // The name of this node is locked, so a socket that is there is that of a predecessor.
    let (listener, file) = private_socket::bind(&path)?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    // Dropped before the listener.
    let _file = file;
    let observers = Arc::new(AtomicUsize::new(0));
    loop {
        ctx.sleep(ACCEPT_EVERY).await;
        let stream = match listener.accept().await {
            Ok((stream, _)) if private_socket::is_trusted(&stream) => stream,
            Ok(_) => {
                tracing::warn!("refused an observer of another user on the socket of another node");
                continue;
            }
            Err(error) => {
                // For example too many open files: there may be room later.
                tracing::debug!(%error, "an observer of another node was not accepted");
                ctx.sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let Some(place) = Place::take(&observers) else {
            let text = format!("{OBSERVERS_MAX} observers watch node {node} through this node already\n");
            let head =
                "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length:";
            // A client that does not take these few bytes at once does without.
            drop(stream.try_write(format!("{head} {}\r\n\r\n{text}", text.len()).as_bytes()));
            continue;
        };
        let node = Arc::clone(node);
        let client = match stream.peer_cred() {
            Ok(peer) => format!("user {} process {}", peer.uid(), peer.pid().unwrap_or_default()),
            Err(_) => "a client".to_owned(),
        };
        let near = move |ctx: Context| async move {
            let _place = place;
            // A node that does not answer must not keep the connection here.
            let far = timeout(2 * OPEN_WITHIN, open(&ctx, &node, client)).await.ok().flatten();
            if let Some(far) = far {
                carry(ctx, stream, far).await;
            } else {
                tracing::debug!(%node, "a node does not let observers watch it through this one");
            }
            ExitReason::Shutdown
        };
        if let Err(error) = ctx.runtime().spawn(near) {
            tracing::debug!(%error, "an observer of another node was refused");
        }
    }
}

/// Starts the far end on a node, and returns its process.
async fn open(ctx: &Context, node: &str, client: String) -> Option<Pid> {
    ctx.set_label("observer of another node");
    let (far, _) = ctx.spawn_monitor_on(node, FAR_END, Bytes::new()).await.ok()?;
    ctx.call::<Open, bool>(far, Open { near: ctx.pid(), client }, OPEN_WITHIN).await.ok()?.then_some(far)
}

/// The end of a connection on the node that is watched.
async fn far_end(ctx: Context, observed: Observed) -> ExitReason {
    ctx.set_label("observer through another node");
    // A node that is lost, or that never asks, must not leave this process here.
    let is_open = |message: &Message| message.is::<Request<Open, bool>>();
    let asked = ctx.receive_match_timeout(OPEN_WITHIN, is_open).await;
    let Some(Ok(request)) = asked.map(Message::downcast::<Request<Open, bool>>) else { return ExitReason::Shutdown };
    let Request { request: Open { near, client }, reply } = request;
    ctx.monitor(near);
    let node = ctx.runtime().node_of(near).map_or_else(|| "unknown".to_owned(), |node| node.name.to_string());
    let client = format!("{client} on node {node}");
    let stream = match observed.0.get() {
        Some(socket) => connect_on_behalf(socket, &client, &near.to_string()).await.ok(),
        None => None,
    };
    reply.send(&ctx, stream.is_some());
    if let Some(stream) = stream {
        carry(ctx, stream, near).await;
    }
    // Not normal, so that it ends the reader, which is linked.
    ExitReason::Shutdown
}

/// Carries bytes between a socket and a process of another node, until one of them ends.
async fn carry(ctx: Context, stream: UnixStream, other: Pid) {
    let (from, to) = stream.into_split();
    let room = Arc::new(Semaphore::new(PIECES_MAX));
    let room_of_reader = Arc::clone(&room);
    let reader = ctx.spawn_link(move |ctx: Context| read(ctx, from, other, room_of_reader));
    if reader.is_ok() {
        write(&ctx, to, other, &room).await;
    }
}

/// Sends what the socket says to the other node, while that has room. Its end ends the writer, to which it is linked.
async fn read(ctx: Context, mut from: OwnedReadHalf, other: Pid, room: Arc<Semaphore>) -> ExitReason {
    let mut piece = vec![0; PIECE];
    while let Ok(place) = room.acquire().await {
        place.forget();
        let Ok(length @ 1..) = from.read(&mut piece).await else { break };
        ctx.send(other, Bytes::copy_from_slice(&piece[..length])).await;
    }
    ExitReason::Shutdown
}

/// Writes what the other node sends, and makes room for the reader when the other node has written a piece.
async fn write(ctx: &Context, mut to: OwnedWriteHalf, other: Pid, room: &Semaphore) {
    loop {
        match ctx.receive().await.downcast::<Bytes>() {
            Ok(piece) => {
                let Ok(Ok(())) = timeout(WRITE_WITHIN, to.write_all(&piece)).await else { return };
                ctx.send(other, Written).await;
            }
            Err(message) if message.is::<Written>() => room.add_permits(1),
            Err(message) if message.is::<Down>() => return,
            Err(_) => {}
        }
    }
}
