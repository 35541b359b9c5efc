//! Nodes within one process: packets are handed from thread to thread. It can cut nodes off from each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::contract::{Link, LinkError, LinkEvents, LinkStatus};
use crate::identity::NodeName;
use crate::wire::Lane;

/// A network within this process.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_cluster as cluster; }
/// # use std::sync::Arc;
/// # use rusm::Runtime;
/// use rusm::cluster::node::Node;
/// use rusm::cluster::{BootId, Config, MemoryNetwork, NodeName};
///
/// let network = MemoryNetwork::new();
/// # let start = |name: &str, boot| {
/// #     let runtime = Runtime::start(rusm::Config::default())?;
/// #     let link = Arc::new(network.join(NodeName::new(name)?));
/// #     let node = Node::start(&runtime, link, BootId(boot), Config::default())?;
/// #     Ok::<_, Box<dyn std::error::Error>>((runtime, node))
/// # };
/// // Each node has a link of its own: `network.join(name)`.
/// let ((north, _a), (south, _b)) = (start("north", 1)?, start("south", 2)?);
/// while north.nodes().is_empty() {
///     std::thread::yield_now();
/// }
/// network.cut(&NodeName::new("north")?, &NodeName::new("south")?);
/// while !north.nodes().is_empty() {
///     std::thread::yield_now();
/// }
/// # drop(south);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryNetwork(Arc<Mutex<Nodes>>);

#[derive(Default)]
struct Nodes {
    started: BTreeMap<NodeName, Arc<dyn LinkEvents>>,
    /// Pairs of nodes, in order, that do not see each other.
    cut: BTreeSet<(NodeName, NodeName)>,
}

/// The link of one node to a [`MemoryNetwork`].
#[derive(Debug)]
pub struct MemoryLink {
    name: NodeName,
    network: MemoryNetwork,
}

impl MemoryNetwork {
    /// Creates a network without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the link of a node. The others see the node from [`Link::start`] on.
    pub fn join(&self, name: NodeName) -> MemoryLink {
        MemoryLink { name, network: self.clone() }
    }

    /// Cuts two nodes off from each other. Both are told.
    pub fn cut(&self, a: &NodeName, b: &NodeName) {
        let is_new = self.0.lock().cut.insert(ordered(a, b));
        if is_new {
            self.tell(a, b, false);
        }
    }

    /// Connects two nodes again. Both are told.
    pub fn heal(&self, a: &NodeName, b: &NodeName) {
        let was_cut = self.0.lock().cut.remove(&ordered(a, b));
        if was_cut {
            self.tell(a, b, true);
        }
    }

    /// Tells two nodes, if both have started, that they see each other or no longer do.
    fn tell(&self, a: &NodeName, b: &NodeName, is_up: bool) {
        let both = {
            let nodes = self.0.lock();
            nodes.started.get(a).cloned().zip(nodes.started.get(b).cloned())
        };
        for (events, peer) in both.into_iter().flat_map(|(of_a, of_b)| [(of_a, b), (of_b, a)]) {
            if is_up {
                events.up(peer.clone());
            } else {
                events.down(peer);
            }
        }
    }

    fn visible(&self, from: &NodeName) -> Vec<NodeName> {
        let nodes = self.0.lock();
        let others = nodes.started.keys().filter(|name| *name != from);
        others.filter(|name| !nodes.cut.contains(&ordered(from, name))).cloned().collect()
    }
}

impl fmt::Debug for MemoryNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.0.lock();
        f.debug_struct("MemoryNetwork").field("started", &nodes.started.keys()).field("cut", &nodes.cut).finish()
    }
}

impl Link for MemoryLink {
    fn name(&self) -> &NodeName {
        &self.name
    }

    fn start(&self, events: Arc<dyn LinkEvents>) -> Result<(), LinkError> {
        let is_taken = self.network.0.lock().started.insert(self.name.clone(), events).is_some();
        if is_taken {
            return Err(LinkError::Settings(format!("a node with the name {} has already started", self.name)));
        }
        for peer in self.network.visible(&self.name) {
            self.network.tell(&self.name, &peer, true);
        }
        Ok(())
    }

    fn send(&self, to: &NodeName, _lane: Lane, packet: Bytes) -> Result<(), LinkError> {
        let events = {
            let nodes = self.network.0.lock();
            let is_cut = !nodes.cut.is_empty() && nodes.cut.contains(&ordered(&self.name, to));
            nodes.started.get(to).filter(|_| !is_cut).cloned()
        };
        events.ok_or_else(|| LinkError::NotConnected(to.clone()))?.packet(&self.name, packet);
        Ok(())
    }

    fn peers(&self) -> Vec<NodeName> {
        self.network.visible(&self.name)
    }

    fn status(&self) -> LinkStatus {
        LinkStatus { kind: "memory".to_owned(), endpoints: Vec::new(), is_encrypted: false }
    }

    fn close(&self, _deadline: Duration) {
        let peers = self.network.visible(&self.name);
        let is_started = self.network.0.lock().started.contains_key(&self.name);
        for peer in peers.iter().filter(|_| is_started) {
            let events = self.network.0.lock().started.get(peer).cloned();
            events.inspect(|events| events.down(&self.name));
        }
        self.network.0.lock().started.remove(&self.name);
    }
}

impl Drop for MemoryLink {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

fn ordered(a: &NodeName, b: &NodeName) -> (NodeName, NodeName) {
    if a < b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);

    impl LinkEvents for Log {
        fn up(&self, peer: NodeName) {
            self.0.lock().push(format!("up {peer}"));
        }

        fn down(&self, peer: &NodeName) {
            self.0.lock().push(format!("down {peer}"));
        }

        fn packet(&self, from: &NodeName, packet: Bytes) {
            self.0.lock().push(format!("{from}: {}", String::from_utf8_lossy(&packet)));
        }
    }

    #[test]
    fn nodes_see_each_other_until_they_are_cut_off() {
        let network = MemoryNetwork::new();
        let names = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let links = names.clone().map(|name| network.join(name));
        let logs = [(), ()].map(|()| Arc::new(Log::default()));
        for (link, log) in links.iter().zip(&logs) {
            link.start(Arc::clone(log) as Arc<dyn LinkEvents>).unwrap();
        }

        links[0].send(&names[1], Lane::Stream, Bytes::from_static(b"1")).unwrap();
        network.cut(&names[0], &names[1]);
        let lost = links[0].send(&names[1], Lane::Stream, Bytes::from_static(b"2"));
        network.heal(&names[1], &names[0]);
        links[0].close(Duration::ZERO);

        assert_eq!(lost, Err(LinkError::NotConnected(names[1].clone())));
        assert_eq!(*logs[0].0.lock(), ["up b", "down b", "up b"]);
        assert_eq!(*logs[1].0.lock(), ["up a", "a: 1", "down a", "up a", "down a"]);
        assert!(links[1].peers().is_empty());
    }
}
