//! The socket at which a node answers `rusm cluster status`, `drain` and `leave`: a line, and an answer in JSON.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rusm_cluster::node::{Node, PeerStatus};
use serde_json::{Value, json};

/// Time that a client has to send its line and to read the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a leave may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a command, in bytes.
const COMMAND_MAX: u64 = 64;

/// Returns the socket of a node.
pub(crate) fn socket(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.cluster"))
}

/// A thread that answers commands, until it is dropped.
#[derive(Debug)]
pub(crate) struct Control {
    socket: PathBuf,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens in the folder of sockets, which only this user can access.
    pub(crate) fn listen(dir: &Path, node: Arc<Node>) -> io::Result<Self> {
        let socket = socket(dir, node.identity().name.as_str());
        // The observers' socket of the same name is taken, so no other node uses this one.
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        let stopped = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stopped);
        let serve = move || {
            for client in listener.incoming() {
                if is_stopped.load(Ordering::Acquire) {
                    return;
                }
                if let Err(error) = client.and_then(|client| answer(&client, &node)) {
                    tracing::debug!(%error, "a client of the cluster socket is gone");
                }
            }
        };
        let thread = Builder::new().name("rusm-cluster".to_owned()).spawn(serve)?;
        Ok(Self { socket, stopped, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // Wakes the thread. If that fails, it has ended.
        drop(UnixStream::connect(&self.socket));
        drop(fs::remove_file(&self.socket));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn answer(client: &UnixStream, node: &Node) -> io::Result<()> {
    client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut command = String::new();
    BufReader::new(client.take(COMMAND_MAX)).read_line(&mut command)?;
    let answer = match command.trim() {
        "status" => status(node),
        "drain" => {
            node.drain();
            json!({ "draining": true })
        }
        "leave" => json!({ "acknowledged": node.leave(LEAVE_TIMEOUT) }),
        other => json!({ "error": format!("unknown command {other:?}") }),
    };
    writeln!(&mut &*client, "{answer}")
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
