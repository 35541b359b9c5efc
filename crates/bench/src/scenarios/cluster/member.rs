//! A node on loopback: a runtime that joins others.

use std::path::PathBuf;
use std::sync::Arc;

use rusm_cluster::node::{Keyed, Node};
use rusm_cluster::{BootId, Config, NetworkLink, NetworkSettings, NodeName};
use rusm_runtime::remote::Exports;
use rusm_runtime::{Config as RuntimeConfig, Runtime};

use super::distributed_fanout::load;
use super::keyed_failover::sums::{self, Controlled};

/// Name, size and place of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    /// Name, unique within the run.
    pub name: String,
    /// Addresses of nodes to join.
    pub join: Vec<String>,
    /// Number of scheduler threads.
    pub schedulers: usize,
    /// Serves the keys of a run.
    pub serves_keys: bool,
    /// File with the secret that all nodes of the run share.
    pub secret: PathBuf,
}

/// A node with its runtime. Dropping it waits until both have ended, so it needs a thread without a reactor.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its keys, if it serves those of a run.
    pub(crate) keyed: Option<Keyed>,
    pub(crate) node: Arc<Node>,
    /// Address at which it listens.
    pub(crate) address: String,
    controlled: Controlled,
    /// Ends after the connections.
    pub(crate) runtime: Runtime,
}

impl Member {
    /// Starts a node on a free port of loopback. `boot` differs at each start of a node with this name.
    pub(crate) fn start(settings: &MemberSettings, boot: u128) -> Result<Self, String> {
        let controlled = Controlled::default();
        let exports = controlled.export(load::export(Exports::default()));
        let runtime = RuntimeConfig { schedulers: settings.schedulers, exports, ..RuntimeConfig::default() };
        let runtime = Runtime::start(runtime).map_err(|error| error.to_string())?;
        let link = Arc::new(open(settings)?);
        let address = link.addresses().into_iter().next().ok_or("the node does not say its address")?;
        let node = Node::start(&runtime, link, BootId(boot), Config::default()).map_err(|error| error.to_string())?;
        let node = Arc::new(node);
        let keyed = settings.serves_keys.then(|| sums::serve(&node)).transpose().map_err(|error| error.to_string())?;
        if let Some(keyed) = &keyed {
            controlled.set(&node, keyed);
        }
        Ok(Self { keyed, node, address, controlled, runtime })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.controlled.clear();
    }
}

/// Opens the link of a node on a free port of loopback.
pub(crate) fn open(settings: &MemberSettings) -> Result<NetworkLink, String> {
    let name: NodeName = settings.name.parse().map_err(|error| format!("node name {:?}: {error}", settings.name))?;
    let (join, secret) = (settings.join.clone(), Some(settings.secret.clone()));
    let network = NetworkSettings { join, secret, ..NetworkSettings::loopback(name, 0) };
    NetworkLink::open(network).map_err(|error| error.to_string())
}
