//! One client's view of the cluster: what the node knows about itself, the other nodes, and unique names.
//!
//! ```text
//!   report of the network, reports of the runtime ──▶ compared with the last look ──▶ rates, a window of nodes, of names
//! ```
//!
//! A look makes the node ask the others for their figures for some seconds. Without a client nothing is asked or read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusm_protocol::{Cluster, ClusterView, ServerMessage};

use crate::encode::cluster as encode;
use crate::encode::cluster::{Earlier, Known, Totals};
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::observe::{self, NodeVitals};

/// Maximum number of names that a client can page through.
const NAMES_MAX: u64 = 10_000;
/// Minimum age of the look that rates are computed from.
const BASELINE_EVERY: Duration = Duration::from_secs(1);

/// A client's view of the cluster.
pub(crate) struct ClusterSource {
    view: ClusterView,
    /// Earlier looks, the older first.
    baselines: [Option<Baseline>; 2],
}

/// Totals at an earlier look.
struct Baseline {
    at: Instant,
    nodes: Vec<(Arc<str>, Totals)>,
    own: NodeVitals,
}

impl ClusterSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: ClusterView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_rows(view.names)?;
        check_hz(view.hz)?;
        Ok(Self { view, baselines: [None, None] })
    }

    /// Takes the baselines of the client's previous view, so that its rates go on.
    pub(crate) fn continuing(mut self, before: &mut Self) -> Self {
        self.baselines = std::mem::take(&mut before.baselines);
        self
    }
}

impl ViewSource for ClusterSource {
    type Data = Cluster;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn read(&mut self, node: &Node) -> Cluster {
        let runtime = &node.runtime;
        let names_max = (self.view.names.offset + u64::from(self.view.names.len)).min(NAMES_MAX) as usize;
        let Some((identity, report)) = observe::network(runtime, names_max) else { return Cluster::default() };
        let now = Instant::now();
        let own = observe::vitals(runtime, &report.version);
        let before = self.baselines.iter().flatten().next();
        let earlier = before.map(|before| Earlier { elapsed: now - before.at, nodes: &before.nodes, own: &before.own });
        let known = Known { identity: &identity, report: &report, lives: &observe::peers(runtime), own: &own };
        let found = encode::cluster(&self.view, &known, earlier.as_ref());
        if self.baselines[1].as_ref().is_none_or(|newer| now - newer.at >= BASELINE_EVERY) {
            let nodes = report.peers.iter().map(|peer| (Arc::clone(&peer.name), encode::totals(peer))).collect();
            self.baselines.rotate_left(1);
            self.baselines[1] = Some(Baseline { at: now, nodes, own });
        }
        found
    }

    fn message(&self, found: Cluster, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Cluster(Box::new(Cluster { id: self.view.id, seq, at_ms, cost_us, ..found }))
    }
}
