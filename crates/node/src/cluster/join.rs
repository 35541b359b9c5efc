//! A node that joins others.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusm_cluster::link::{LinkError, secret_file};
use rusm_cluster::node::{Node, NodeError};
use rusm_cluster::{BootId, Config, NetworkLink, NetworkSettings, NodeName, certificates};
use rusm_runtime::Handle;
use rusm_text::escaped;

use super::control::{Control, socket};
use super::observers;
use crate::failure::{Failure, system};
use crate::settings::cluster::ClusterSettings;

/// Time after which a node that is connected to no other says so.
const ALONE_AFTER: Duration = Duration::from_secs(5);

/// Time between two checks of the certificates.
const CERTIFICATES_EVERY: Duration = Duration::from_hours(24);

/// A node that has joined others, until it is dropped.
#[derive(Debug)]
pub(crate) struct Joined {
    _control: Control,
    /// Ends the thread that warns.
    _watch: SyncSender<()>,
}

/// Joins other nodes under a name. `dir` is the folder of the sockets.
pub(crate) fn join(runtime: &Handle, name: &str, dir: &Path, settings: &ClusterSettings) -> Result<Joined, Failure> {
    let name = node_name(name)?;
    let mut boot = [0; 16];
    getrandom::fill(&mut boot).map_err(|error| Failure::Usage(format!("the system has no random numbers: {error}")))?;
    let network = network_settings(name.clone(), settings);
    // Nodes without certificates share a secret of their user.
    let secret = match settings.certificates {
        Some(_) => None,
        None => Some(secret_file(dir).map_err(system("make the secret of the cluster"))?),
    };
    let network = NetworkSettings { secret, started_at_ms: time_of_day().as_millis() as u64, ..network };
    let link = Arc::new(NetworkLink::open(network).map_err(|error| refused(&error))?);
    let addresses = link.addresses();
    // The clock of the node starts now: opening the link has taken some time.
    let config = Config { started_at_ns: time_of_day().as_nanos() as u64, ..Config::default() };
    let node = Node::start(runtime, link, BootId(u128::from_le_bytes(boot)), config);
    let node = Arc::new(node.map_err(|error| match error {
        NodeError::Link(error) => refused(&error),
        NodeError::Attach(error) => Failure::Usage(error.to_string()),
    })?);
    let commands = socket(dir, name.as_str());
    let control = Control::listen(dir, Arc::clone(&node))
        .map_err(system(format!("listen for cluster commands at {}", escaped(commands.display()))))?;
    observers::start(runtime, dir, name.as_str()).map_err(|error| Failure::Usage(error.to_string()))?;
    let seeds = settings.join.join(", ");
    tracing::info!(%name, address = addresses.join(", "), join = %seeds, "node is part of a cluster");
    let checked = network_settings(name, settings);
    let watch = watch(Arc::downgrade(&node), seeds, checked).map_err(system("start a thread"))?;
    Ok(Joined { _control: control, _watch: watch })
}

/// Checks the settings of a node that joins others, with its certificates, as a start would.
pub(crate) fn check(name: &str, settings: &ClusterSettings) -> Result<(), Failure> {
    let network = network_settings(node_name(name)?, settings);
    network.check().and_then(|()| network.check_certificates()).map_err(|error| refused(&error))
}

fn node_name(name: &str) -> Result<NodeName, Failure> {
    name.parse().map_err(|error| Failure::Usage(format!("node name {name:?}: {error}")))
}

fn network_settings(name: NodeName, settings: &ClusterSettings) -> NetworkSettings {
    NetworkSettings {
        listen: settings.listen,
        join: settings.join.clone(),
        certificates: settings.certificates.as_ref().map(|dir| certificates::files(dir, &settings.name, &name)),
        ..NetworkSettings::loopback(name, settings.listen.port())
    }
}

#[expect(clippy::disallowed_methods, reason = "other nodes compare their clocks with this one")]
fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn refused(error: &LinkError) -> Failure {
    let why = match error {
        LinkError::Files { .. } => return Failure::Limit(error.to_string()),
        LinkError::Listen { endpoint, reason } => {
            format!("cannot listen for other nodes at {endpoint}: {reason}: choose an address with --cluster-listen")
        }
        LinkError::NameTaken(name) => format!("a node named {name} is in the cluster already: choose another --name"),
        other => other.to_string(),
    };
    Failure::Usage(why)
}

/// Says once if none of the nodes to join was reached in time, and every day if the certificates expire: after their end, a
/// lost connection does not come back. The thread ends when the result is dropped.
fn watch(node: Weak<Node>, seeds: String, settings: NetworkSettings) -> std::io::Result<SyncSender<()>> {
    let (stop, stopped) = sync_channel(0);
    let wait = move || {
        let is_over = |time| stopped.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
        if is_over(ALONE_AFTER) {
            return;
        }
        if !seeds.is_empty() && node.upgrade().is_some_and(|node| node.peers().is_empty()) {
            tracing::warn!(
                join = %seeds,
                "no other node was reached yet: is one running there, and does it belong to the same cluster? With certificates, these \
                 are of one cluster; without, the nodes have one user and one folder of sockets"
            );
        }
        while !is_over(CERTIFICATES_EVERY) {
            if let Err(error) = settings.check_certificates() {
                tracing::warn!("other nodes refuse new connections: {error}");
            }
        }
    };
    Builder::new().name("rusm-cluster".to_owned()).spawn(wait)?;
    Ok(stop)
}
