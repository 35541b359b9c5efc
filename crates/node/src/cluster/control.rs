//! The socket at which a node answers `rusm cluster status`, `drain` and `leave`: a line, and an answer in JSON.

use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rusm_cluster::node::{Node, PeerStatus};
use rusm_console::OwnedFile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use serde_json::{Value, json};

use super::private_socket::{self, read_line};

/// Time that a client has to send its line, and again to read the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a leave may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a command, in bytes.
const COMMAND_MAX: usize = 64;
/// Pause after a client could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Maximum number of clients at a time. Further ones wait.
const CLIENTS_MAX: usize = 16;

/// Returns the socket of a node.
pub(crate) fn socket(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.cluster"))
}

/// Threads that answer commands, until it is dropped.
#[derive(Debug)]
pub(crate) struct Control {
    socket: Option<OwnedFile>,
    listener: Arc<UnixListener>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens in the folder of sockets, which only this user can access.
    pub(crate) fn listen(dir: &Path, node: Arc<Node>) -> io::Result<Self> {
        // The observers' socket of the same name is taken, so no other node uses this one.
        let (listener, socket) = private_socket::bind(&socket(dir, node.identity().name.as_str()))?;
        let listener = Arc::new(listener);
        let is_over = Arc::new(AtomicBool::new(false));
        let (accepting, no_more) = (Arc::clone(&listener), Arc::clone(&is_over));
        let serve = move || {
            let mut clients = Clients { node, threads: Vec::new() };
            loop {
                let accepted = match accepting.accept() {
                    // Clients that were waiting when the listener was shut down.
                    _ if no_more.load(Relaxed) => return,
                    Ok((client, _)) if private_socket::is_trusted(&client) => clients.serve(client),
                    Ok(_) => Err(io::ErrorKind::PermissionDenied.into()),
                    // The listener was shut down.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                    Err(error) => {
                        // For example too many open files: do not try again at once.
                        std::thread::park_timeout(ACCEPT_AGAIN);
                        Err(error)
                    }
                };
                if let Err(error) = accepted {
                    tracing::debug!(%error, "a client of the cluster socket is gone");
                }
                while clients.threads.len() >= CLIENTS_MAX && !no_more.load(Relaxed) {
                    std::thread::park_timeout(ACCEPT_AGAIN);
                    clients.forget_finished();
                }
            }
        };
        let thread = Builder::new().name("rusm-cluster".to_owned()).spawn(serve)?;
        Ok(Self { socket: Some(socket), listener, is_over, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // Wakes the thread, also if the socket has lost its name.
        shutdown(&*self.listener, Shutdown::Both).ok();
        drop(self.socket.take());
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

/// Clients that are being served, each by a thread: one that says nothing delays no other.
struct Clients {
    node: Arc<Node>,
    threads: Vec<(UnixStream, JoinHandle<()>)>,
}

impl Clients {
    fn serve(&mut self, client: UnixStream) -> io::Result<()> {
        self.forget_finished();
        let (node, handle, mut client) = (Arc::clone(&self.node), client.try_clone()?, client);
        let body = move || {
            if let Err(error) = answer(&mut client, &node) {
                tracing::debug!(%error, "a client of the cluster socket is gone");
            }
            // The handle keeps the socket open.
            shutdown(&client, Shutdown::Both).ok();
        };
        let thread = Builder::new().name("rusm-cluster".to_owned()).spawn(body)?;
        self.threads.push((handle, thread));
        Ok(())
    }

    fn forget_finished(&mut self) {
        self.threads.retain(|(_, thread)| !thread.is_finished());
    }
}

impl Drop for Clients {
    /// Waits for the commands that are being carried out, and for no client.
    fn drop(&mut self) {
        for (client, _) in &self.threads {
            shutdown(client, Shutdown::Read).ok();
        }
        for (_, thread) in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Writes the answer. A client that reads it in small pieces has no more time than any other.
fn write_answer(client: &mut UnixStream, answer: &str) -> io::Result<()> {
    let until = Instant::now() + CLIENT_TIMEOUT;
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_write_timeout(Some(left))?;
        let written = client.write(rest)?;
        rest = &rest[written..];
    }
    Ok(())
}

/// Returns true if the client has closed its socket, and not only its own direction.
fn is_gone(client: &UnixStream) -> io::Result<bool> {
    let mut state = [PollFd::new(client, PollFlags::empty())];
    poll(&mut state, Some(&Timespec::default()))?;
    Ok(state[0].revents().contains(PollFlags::HUP))
}

fn answer(client: &mut UnixStream, node: &Node) -> io::Result<()> {
    let command = read_line(client, COMMAND_MAX, Instant::now() + CLIENT_TIMEOUT)?;
    if is_gone(client)? {
        // Its user was told that it has failed.
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    let answer = match &*command {
        "status" => status(node),
        "drain" => {
            node.drain();
            json!({ "draining": true })
        }
        "leave" => json!({ "acknowledged": node.leave(LEAVE_TIMEOUT) }),
        other => json!({ "error": format!("unknown command {other:?}") }),
    };
    write_answer(client, &format!("{answer}\n"))
}

fn status(node: &Node) -> Value {
    let link = node.link_status();
    json!({
        "name": node.identity().name.as_str(),
        "boot": node.identity().boot.to_string(),
        "link": link.kind,
        "endpoints": link.endpoints,
        "encrypted": link.is_encrypted,
        "draining": node.is_draining(),
        "peers": node.peers().iter().map(peer).collect::<Vec<_>>(),
    })
}

fn peer(peer: &PeerStatus) -> Value {
    let (stats, totals) = (&peer.stats, &peer.stats.totals);
    json!({
        "name": peer.name.as_str(),
        "node": peer.node,
        "boot": peer.boot.map(|boot| boot.to_string()),
        "state": stats.state.word(),
        "rtt_ns": stats.round_trip.map(|rtt| rtt.as_nanos() as u64),
        "clock_offset_ns": stats.clock_offset_ns,
        "in_doubt_frames": stats.in_doubt_frames,
        "in_doubt_bytes": stats.in_doubt_bytes,
        "window_frames": stats.window_frames,
        "messages_out": totals.messages_out,
        "messages_in": totals.messages_in,
        "bytes_out": totals.bytes_out,
        "bytes_in": totals.bytes_in,
        "downs": totals.downs,
        "last_down": totals.last_down.map(|reason| reason.to_string()),
    })
}
