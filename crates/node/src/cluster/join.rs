//! A node that joins others.

use std::path::Path;
use std::sync::Arc;

use rusm_cluster::node::Node;
use rusm_cluster::{BootId, Config, NetworkLink, NetworkSettings, NodeName, certificates};
use rusm_runtime::Handle;

use super::control::Control;
use crate::failure::{Failure, system};
use crate::settings::cluster::ClusterSettings;

/// A node that has joined others, until it is dropped.
#[derive(Debug)]
pub(crate) struct Joined {
    _control: Control,
}

/// Joins other nodes under a name. `dir` is the folder of the sockets.
pub(crate) fn join(runtime: &Handle, name: &str, dir: &Path, settings: &ClusterSettings) -> Result<Joined, Failure> {
    let name: NodeName = name.parse().map_err(|error| Failure::Usage(format!("node name {name:?}: {error}")))?;
    let mut boot = [0; 16];
    getrandom::fill(&mut boot).map_err(|error| Failure::Usage(format!("the system has no random numbers: {error}")))?;
    let network = NetworkSettings {
        listen: settings.listen,
        join: settings.join.clone(),
        certificates: settings.certificates.as_ref().map(|dir| certificates::files(dir, &settings.name, &name)),
        ..NetworkSettings::loopback(name.clone(), settings.listen.port())
    };
    let refused = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let link = Arc::new(NetworkLink::open(network).map_err(|error| refused(&error))?);
    let node = Node::start(runtime, link, BootId(u128::from_le_bytes(boot)), Config::default());
    let node = Arc::new(node.map_err(|error| refused(&error))?);
    let control = Control::listen(dir, Arc::clone(&node)).map_err(system("listen for cluster commands"))?;
    tracing::info!(%name, listen = %settings.listen, join = ?settings.join, "node has joined the cluster");
    Ok(Joined { _control: control })
}
