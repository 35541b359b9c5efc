//! State of a cluster as one node sees it, for observers.

use std::sync::Arc;
use std::time::Duration;

/// State of a network: its link, the other nodes, and the names that are unique in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkReport {
    /// Kind of the link, for example `zenoh quic`.
    pub link: String,
    /// Addresses at which this node listens.
    pub endpoints: Vec<String>,
    /// True if packets are encrypted and both sides showed certificates.
    pub is_encrypted: bool,
    /// Version of rusm.
    pub version: String,
    /// Number of nodes that this one sees, including itself.
    pub nodes_seen: usize,
    /// Number of nodes of the cluster, of which more than half are a majority.
    pub nodes_total: usize,
    /// Other nodes, in the order of their names. Nodes that are lost stay in the list.
    pub peers: Vec<NetworkPeer>,
    /// Unique names with their owners, as many as were asked for, in the order of the names.
    pub names: Vec<ClusterName>,
    /// Number of unique names that this node knows.
    pub names_total: usize,
}

/// Another node, as the network sees it. Totals count all of its lives and only increase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkPeer {
    /// Name of the node.
    pub name: Arc<str>,
    /// Boot id of its last known life.
    pub boot_id: Option<u128>,
    /// Node part of the pids of its processes; 0 while it is not connected.
    pub node: u32,
    /// State of the connection: `up`, `connecting`, `down`, `leaving` or `left`.
    pub state: &'static str,
    /// Time since the connection came up, or since it ended; `None` if it never came up.
    pub since: Option<Duration>,
    /// Version of the wire that both nodes speak.
    pub wire_version: Option<u16>,
    /// Smoothed round trip, in nanoseconds.
    pub rtt_ns: Option<u64>,
    /// Clock of the other node minus the clock of this one, in nanoseconds.
    pub clock_offset_ns: Option<i64>,
    /// Number of frames that are sent and not acknowledged.
    pub in_doubt_frames: u64,
    /// Their length, in bytes.
    pub in_doubt_bytes: u64,
    /// Maximum number of frames in doubt.
    pub window_frames: u64,
    /// Maximum number of bytes in doubt.
    pub window_bytes: u64,
    /// Number of processes of the other node that have used up their credit while a sender waits.
    pub stalled_targets: u64,
    /// Number of messages and signals sent.
    pub messages_out: u64,
    /// Number of messages and signals received.
    pub messages_in: u64,
    /// Bytes given to the link.
    pub bytes_out: u64,
    /// Bytes taken from the link.
    pub bytes_in: u64,
    /// Number of connections that came up.
    pub ups: u64,
    /// Number of connections that ended.
    pub downs: u64,
    /// Why the last one ended.
    pub last_down: Option<String>,
    /// Latest description that the node has sent of itself.
    pub vitals: Option<SeenVitals>,
}

/// Description of a node, sent by itself to other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeVitals {
    /// Version of the program.
    pub version: String,
    /// Process id in the operating system.
    pub os_pid: u32,
    /// Time since its runtime started, in milliseconds.
    pub uptime_ms: u64,
    /// Number of live processes.
    pub processes: u64,
    /// Number of schedulers.
    pub schedulers: u32,
    /// Time that all schedulers were not asleep, in nanoseconds. Only increases.
    pub busy_ns: u64,
    /// Number of messages received by processes. Only increases.
    pub messages: u64,
    /// Number of processes that ended abnormally. Only increases.
    pub crashed: u64,
    /// Resident memory of the program, in bytes.
    pub memory_bytes: u64,
    /// True if the node starts no more processes for others.
    pub is_draining: bool,
}

/// The last vitals of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenVitals {
    /// Time since they arrived.
    pub age: Duration,
    /// The vitals.
    pub vitals: NodeVitals,
    /// Share of the time in which its schedulers were busy, between the last two vitals; 0 to 1.
    pub busy: Option<f64>,
    /// Messages received per second by its processes, between the last two vitals.
    pub messages_per_sec: Option<f64>,
}

/// A name that is unique in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterName {
    /// The name.
    pub name: Arc<str>,
    /// Node of the owner.
    pub node: Arc<str>,
    /// The owning process, as this node addresses it; `None` if its node is not connected.
    pub pid: Option<crate::process::pid::Pid>,
    /// Fencing epoch.
    pub epoch: u64,
    /// `owned`, `claiming` or `suspended`.
    pub state: &'static str,
}
