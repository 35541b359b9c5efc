//! Other nodes: the state of each connection, and what binds processes over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::observe::{schedulers, totals};
use crate::runtime::handle::Handle;
pub use crate::runtime::remote::network::LinkFigures;
pub use crate::runtime::remote::peers::Identity as RemoteIdentity;
use crate::runtime::remote::peers::Peer;
pub use crate::runtime::remote::peers::Phase;
pub use crate::runtime::remote::report::{ClusterName, NetworkPeer, NetworkReport, NodeVitals, SeenVitals};

/// State and figures of one life of another node. Totals count all of its connections and only increase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// Node part of the pids of its processes.
    pub node: u32,
    /// Name of the node.
    pub name: Arc<str>,
    /// Number that differs at each start of the node.
    pub boot_id: u128,
    /// State of the connection.
    pub phase: Phase,
    /// Number of links between processes of the two nodes.
    pub links: usize,
    /// Number of monitors and open calls of processes of this node.
    pub monitors: usize,
    /// Number of monitors that processes of the other node have here.
    pub monitored_by: usize,
    /// Number of processes of this node with a full mailbox, for which the node has no credit.
    pub slow_receivers: usize,
    /// Number of messages and signals sent.
    pub frames_sent: u64,
    /// Number of messages and signals received.
    pub frames_received: u64,
    /// Bytes of their contents sent.
    pub payload_bytes_sent: u64,
    /// Bytes of their contents received.
    pub payload_bytes_received: u64,
    /// Number of messages dropped because their bytes were not valid for their type.
    pub undecodable: u64,
    /// Number of messages of this node that the other one has dropped for the same reason.
    pub undecodable_there: u64,
    /// Number of connections that were established.
    pub connections: u64,
    /// Number of connections that were lost.
    pub losses: u64,
    /// Figures of the network.
    pub figures: LinkFigures,
}

/// Returns all lives of other nodes that a runtime knows, the oldest first.
pub fn peers(runtime: &Handle) -> Vec<PeerReport> {
    let peers = &runtime.shared.peers;
    let Some(attached) = peers.attached.get() else { return Vec::new() };
    let report = |peer: &Arc<Peer>| {
        let phase = peer.link.read().phase;
        let (links, monitors, monitored_by) = {
            let bonds = peer.bonds.lock();
            (bonds.links.len(), bonds.monitors.len(), bonds.inbound.len())
        };
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &peer.counters;
        PeerReport {
            node: peer.index,
            name: Arc::clone(&peer.identity.name),
            boot_id: peer.identity.boot_id,
            phase,
            links,
            monitors,
            monitored_by,
            slow_receivers: peer.withheld.lock().values().filter(|withheld| withheld.frames > 0).count(),
            frames_sent: read(&counters.frames_sent),
            frames_received: read(&counters.frames_received),
            payload_bytes_sent: read(&counters.payload_bytes_sent),
            payload_bytes_received: read(&counters.payload_bytes_received),
            undecodable: read(&counters.undecodable),
            undecodable_there: read(&counters.undecodable_there),
            connections: read(&counters.connections),
            losses: read(&counters.losses),
            figures: attached.network.figures(peer.index),
        }
    };
    peers.all().iter().map(report).collect()
}

/// Returns the state of the cluster that a runtime is a node of, with the name and the boot id of the node and at most
/// `names_max` unique names; `None` if it is not attached to a network.
pub fn network(runtime: &Handle, names_max: usize) -> Option<(RemoteIdentity, NetworkReport)> {
    let attached = runtime.shared.peers.attached.get()?;
    let report = attached.network.report(names_max);
    Some((attached.identity.clone(), report))
}

/// Returns what a node says about itself to others. The version and the memory are those of the program.
pub fn vitals(runtime: &Handle, version: &str) -> NodeVitals {
    let (totals, schedulers) = (totals::totals(runtime), schedulers::schedulers(runtime));
    NodeVitals {
        version: version.to_owned(),
        os_pid: std::process::id(),
        uptime_ms: totals::uptime(runtime).as_millis() as u64,
        processes: totals.live,
        schedulers: schedulers.len() as u32,
        busy_ns: schedulers.iter().map(|scheduler| scheduler.busy_ns).sum(),
        messages: totals.messages,
        crashed: totals.crashed,
        memory_bytes: resident_memory(),
        is_draining: runtime.shared.peers.draining.load(Ordering::Relaxed),
    }
}

/// Returns the resident memory of this program, in bytes; 0 if the system does not say it.
fn resident_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
