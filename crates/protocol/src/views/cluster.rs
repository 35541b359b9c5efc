//! The cluster on the wire: the node that is watched, the other nodes, and the names that are unique in the cluster.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// A client's view of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Range of other nodes, in the order of their names.
    #[serde(default)]
    pub window: ViewWindow,
    /// Range of unique names, in their order.
    #[serde(default)]
    pub names: ViewWindow,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_cluster_hz")]
    pub hz: f64,
}

const fn default_cluster_hz() -> f64 {
    2.0
}

impl Default for ClusterView {
    fn default() -> Self {
        Self { id: 0, window: ViewWindow::default(), names: ViewWindow::default(), hz: default_cluster_hz() }
    }
}

/// State of the cluster, as the node sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cluster {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this window, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// The node itself; absent if it has joined no cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnNode>,
    /// Number of other nodes that were ever connected or seen.
    pub total: u64,
    /// Number of other nodes before the first one of this window.
    pub offset: u64,
    /// Other nodes of the window.
    pub nodes: Vec<ClusterNode>,
    /// Number of unique names that the node knows.
    pub names_total: u64,
    /// Number of names before the first one of this window.
    pub names_offset: u64,
    /// Names of the window.
    pub names: Vec<NameInfo>,
}

/// The node that is watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnNode {
    /// Name of the node.
    pub name: String,
    /// Number that differs at each start of the node, as hexadecimal digits.
    pub boot: String,
    /// Kind of the link, for example `zenoh quic`.
    pub link: String,
    /// Addresses at which it listens, up to eight.
    pub endpoints: Vec<String>,
    /// True if packets are encrypted and both sides show certificates.
    pub is_encrypted: bool,
    /// Number of nodes that it sees, including itself.
    pub nodes_seen: u64,
    /// Number of nodes of the cluster, of which more than half are a majority.
    pub nodes_total: u64,
    /// Figures of the node itself.
    pub vitals: VitalsInfo,
}

/// Another node. Totals count all of its connections and only increase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterNode {
    /// Name of the node.
    pub name: String,
    /// Number of its last known start, as hexadecimal digits; empty if it was never connected.
    pub boot: String,
    /// Node part of the pids of its processes; 0 while it is not connected.
    pub node: u32,
    /// `up`, `connecting`, `down`, `leaving` or `left`.
    pub state: String,
    /// Time since it is connected, or since the connection ended, in milliseconds; absent if it was never connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Version of the wire that both nodes speak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire_version: Option<u16>,
    /// Smoothed round trip, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<u64>,
    /// Clock of the other node minus the clock of this one, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offset_ns: Option<i64>,
    /// Number of frames that are sent and not acknowledged.
    pub in_doubt_frames: u64,
    /// Their length, in bytes.
    pub in_doubt_bytes: u64,
    /// Maximum number of frames in doubt: the credit of the connection.
    pub window_frames: u64,
    /// Maximum number of bytes in doubt.
    pub window_bytes: u64,
    /// Number of its processes that have used up their credit while a sender waits.
    pub stalled_targets: u64,
    /// Number of processes here with a full mailbox, for which it has no credit.
    pub slow_receivers: u64,
    /// Number of messages and signals sent to it.
    pub messages_out_total: u64,
    /// Number of messages and signals received from it.
    pub messages_in_total: u64,
    /// Messages and signals sent per second.
    pub messages_out_per_sec: f64,
    /// Messages and signals received per second.
    pub messages_in_per_sec: f64,
    /// Bytes sent to it.
    pub bytes_out_total: u64,
    /// Bytes received from it.
    pub bytes_in_total: u64,
    /// Bytes sent per second.
    pub bytes_out_per_sec: f64,
    /// Bytes received per second.
    pub bytes_in_per_sec: f64,
    /// Number of messages dropped because their bytes were not valid for their type.
    pub undecodable_total: u64,
    /// Number of messages to it that it has dropped for the same reason.
    pub undecodable_there_total: u64,
    /// Number of links between processes of the two nodes.
    pub links: u64,
    /// Number of monitors and open calls of processes here.
    pub monitors: u64,
    /// Number of monitors that its processes have here.
    pub monitored_by: u64,
    /// Number of connections that came up.
    pub connections_total: u64,
    /// Number of connections that ended.
    pub losses_total: u64,
    /// Why the last one ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_loss: Option<String>,
    /// What the node last said about itself; it stays after the end of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vitals: Option<VitalsInfo>,
}

/// Figures of a node, as it says them itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VitalsInfo {
    /// Time since the node said so, in milliseconds.
    pub age_ms: u64,
    /// Version of the program.
    pub version: String,
    /// Process id in the operating system.
    pub os_pid: u32,
    /// Time since it started, in milliseconds.
    pub uptime_ms: u64,
    /// Number of live processes.
    pub processes: u64,
    /// Number of schedulers.
    pub schedulers: u32,
    /// Share of the time in which its schedulers were busy, in percent; absent without two reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_pct: Option<f64>,
    /// Messages received per second by its processes; absent without two reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_sec: Option<f64>,
    /// Number of processes that ended abnormally.
    pub crashed_total: u64,
    /// Resident memory, in bytes.
    pub memory_bytes: u64,
    /// True if it starts no more processes for others.
    pub is_draining: bool,
}

/// A name that is unique in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NameInfo {
    /// The name.
    pub name: String,
    /// Node of the owner.
    pub node: String,
    /// The owning process; absent if its node is not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// Fencing epoch, which grows with each owner.
    pub epoch: u64,
    /// `owned`, `claiming` or `suspended`.
    pub state: String,
}
