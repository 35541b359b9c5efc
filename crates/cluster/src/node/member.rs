//! [`Node`]: this node of a cluster.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rusm_runtime::Handle;
use rusm_runtime::embed::remote::{
    Address as ProcessAddress, AttachError, Frame, LinkFigures, Network, NetworkReport, Refused, attach,
};
use rustc_hash::FxHashMap;
use thiserror::Error;

use super::connection::{Connection, start_sender};
use super::environment::{Environment, VERSION, runtime_identity};
use super::log_budget::LogBudget;
use super::names::Names;
use super::status::PeerStatus;
use crate::identity::{BootId, Epoch, Identity, NodeName};
use crate::link::{Link, LinkError, LinkEvents, LinkStatus};
use crate::names::{NamesConfig, Registry};
use crate::session::{Config, LinkChange, Session};
use crate::wire::{Kind, Packet};

/// Maximum number of peers that a node knows, with those that have gone. Each has a thread.
const PEERS_MAX: usize = 256;
/// Part of all mailboxes, as a divisor, that messages of one node may have beyond their room. The runtime allows four
/// such nodes.
const HELD_SHARE: u64 = 8;
/// Minimum of this part, in bytes.
const HELD_BYTES_MIN: u64 = 1 << 20;
/// Time within which a peer has to say something. After it, it makes room for another one.
const SILENT_MAX: Duration = Duration::from_secs(10);

/// Error returned when a node cannot join.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The runtime is a node already.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The link cannot start.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// A node of a cluster. Dropping it closes its connections, without waiting for what is on the way.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_cluster as cluster; }
/// use std::sync::Arc;
///
/// use rusm::cluster::node::Node;
/// use rusm::cluster::{BootId, Config, MemoryNetwork, NodeName};
/// use rusm::Runtime;
///
/// // Two nodes in one program, for tests. A `NetworkLink` joins nodes of different programs and machines.
/// let network = MemoryNetwork::new();
/// let start = |name: &str, boot| {
///     let runtime = Runtime::start(rusm::Config::default())?;
///     let link = Arc::new(network.join(NodeName::new(name)?));
///     let node = Node::start(&runtime, link, BootId(boot), Config::default())?;
///     Ok::<_, Box<dyn std::error::Error>>((runtime, node))
/// };
/// let ((north, _a), (south, _b)) = (start("north", 1)?, start("south", 2)?);
/// while north.nodes().is_empty() {
///     std::thread::yield_now();
/// }
/// assert!(north.node_named("south").is_some());
/// # drop((north, south));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Node {
    shared: Arc<Shared>,
}

/// State that the runtime and the link share.
struct Shared {
    environment: Arc<Environment>,
    identity: Identity,
    config: Config,
    connections: RwLock<HashMap<NodeName, Arc<Connection>>>,
    /// Number of the first session with a peer: later than those with peers that were forgotten.
    first_epoch: AtomicU64,
    /// Lines about peers beyond the limit.
    log: Mutex<LogBudget>,
    /// Connections by the index of the life that is connected, or was.
    by_node: RwLock<FxHashMap<u32, Arc<Connection>>>,
    /// True once the node has left: it joins no others any more.
    is_leaving: AtomicBool,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("identity", &self.shared.identity).finish_non_exhaustive()
    }
}

impl Node {
    /// Makes a runtime a node, which joins all others that the link sees. `boot` is a random number for this start.
    ///
    /// # Errors
    /// [`NodeError`] if the runtime is a node already, or the link cannot start.
    pub fn start(runtime: &Handle, link: Arc<dyn Link>, boot: BootId, config: Config) -> Result<Self, NodeError> {
        let names = NamesConfig::new(config.patience(), None, config.started_at_ns / 1_000_000);
        Self::start_with_names(runtime, link, boot, config, names)
    }

    /// Does the same, with settings of the names that are unique in the cluster.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_names(
        runtime: &Handle,
        link: Arc<dyn Link>,
        boot: BootId,
        mut config: Config,
        names: NamesConfig,
    ) -> Result<Self, NodeError> {
        let room = runtime.config().mailbox_total_bytes / HELD_SHARE;
        config.held_bytes = config.held_bytes.min(room.max(HELD_BYTES_MIN));
        let identity = Identity { name: link.name().clone(), boot };
        let environment = Arc::new(Environment::new(link));
        let shared = Arc::new(Shared {
            environment: Arc::clone(&environment),
            identity,
            config,
            connections: RwLock::default(),
            first_epoch: AtomicU64::new(Epoch::FIRST.0),
            log: Mutex::default(),
            by_node: RwLock::default(),
            is_leaving: AtomicBool::new(false),
        });
        let network = Arc::clone(&shared) as Arc<dyn Network>;
        let remote = attach(runtime, runtime_identity(&shared.identity), network)?;
        let names = Names::new(shared.registry(names), runtime.clone(), shared.clock(), shared.name_sender());
        // The cells were created above, so they are empty.
        drop(environment.remote.set(remote));
        drop(environment.names.set(names));
        environment.link.start(Arc::new(Events(Arc::clone(&shared))))?;
        Ok(Self { shared })
    }

    /// Returns the name and the boot id of this node.
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// Returns the runtime of this node.
    pub fn runtime(&self) -> Handle {
        self.shared.environment.remote().runtime()
    }

    /// Returns the names that are unique in the cluster.
    pub fn names(&self) -> Names {
        self.shared.environment.names().clone()
    }

    /// Returns the figures of the connections to all peers that are known, in the order of their names. A peer that has gone
    /// is known for ten minutes.
    pub fn peers(&self) -> Vec<PeerStatus> {
        let mut peers: Vec<PeerStatus> = self.shared.connections.read().values().map(|peer| peer.status()).collect();
        peers.sort_by(|one, two| one.name.cmp(&two.name));
        peers
    }

    /// Starts no more processes for other nodes. Processes that run go on.
    pub fn drain(&self) {
        self.shared.environment.remote().drain();
        for connection in self.shared.connections.read().values() {
            connection.send_vitals(&self.shared.environment);
        }
    }

    /// Returns true after [`drain`](Self::drain).
    pub fn is_draining(&self) -> bool {
        self.shared.environment.remote().is_draining()
    }

    /// Returns a function that says whether a node, this one or another, starts no more processes for others.
    pub(super) fn drains(&self) -> impl Fn(&NodeName) -> bool + Send + 'static {
        let shared = Arc::downgrade(&self.shared);
        move |node| {
            let Some(shared) = shared.upgrade() else { return true };
            if *node == shared.identity.name {
                return shared.environment.remote().is_draining();
            }
            let connection = shared.connections.read().get(node).map(Arc::clone);
            connection.is_some_and(|connection| connection.vitals.lock().is_draining())
        }
    }

    /// Returns what the link is.
    pub fn link_status(&self) -> LinkStatus {
        self.shared.environment.link.status()
    }

    /// Leaves the cluster: everything that processes have sent arrives, then the connections are closed, at the latest
    /// after `deadline`. Returns true if everything was acknowledged in time. Blocks this thread.
    pub fn leave(&self, deadline: Duration) -> bool {
        let until = self.shared.environment.now() + deadline;
        self.shared.is_leaving.store(true, Ordering::Relaxed);
        let connections: Vec<_> = self.shared.connections.read().values().map(Arc::clone).collect();
        for connection in &connections {
            connection.with_session(&self.shared.environment, |session, now| session.leave(now, until));
        }
        let has_left = || connections.iter().all(|connection| connection.has_left());
        while !has_left() && self.shared.environment.now() < until {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        connections.iter().all(|connection| connection.has_left() && connection.has_acknowledged())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for connection in self.shared.connections.read().values() {
            connection.stop();
        }
        self.shared.environment.link.close(Duration::from_millis(500));
    }
}

impl Shared {
    fn registry(&self, config: NamesConfig) -> Registry {
        Registry::new(self.environment.now(), config, self.identity.clone())
    }

    fn clock(&self) -> impl Fn() -> Duration + Send + Sync + 'static {
        let environment = Arc::downgrade(&self.environment);
        move || environment.upgrade().map_or(Duration::MAX, |environment| environment.now())
    }

    /// Returns the function that sends a message to the registry of a peer.
    fn name_sender(self: &Arc<Self>) -> impl Fn(&NodeName, Bytes) + Send + Sync + 'static {
        let shared = Arc::downgrade(self);
        move |peer, payload| {
            let Some(shared) = shared.upgrade() else { return };
            let connection = shared.connections.read().get(peer).map(Arc::clone);
            if let Some(connection) = connection {
                connection.send_signal(shared.environment.now(), Kind::NAME, payload);
            }
        }
    }

    /// Returns the connection to a peer, and begins it if the peer is not known. `None` at the limit of peers.
    fn connection(self: &Arc<Self>, peer: &NodeName) -> Option<Arc<Connection>> {
        if let Some(connection) = self.connections.read().get(peer) {
            return Some(Arc::clone(connection));
        }
        let mut connections = self.connections.write();
        if let Some(connection) = connections.get(peer) {
            return Some(Arc::clone(connection));
        }
        if self.is_leaving.load(Ordering::Relaxed) {
            return None;
        }
        let now = self.environment.now();
        if connections.len() >= PEERS_MAX && !self.make_room(&mut connections, now) {
            if let Some(line) = self.log.lock().take(now) {
                let dropped = line.dropped;
                tracing::error!(%peer, dropped, "a node stays unconnected: {PEERS_MAX} nodes are known");
            }
            return None;
        }
        let session = Session::new(self.config.clone(), self.identity.clone(), peer.clone());
        let session = session.from_epoch(Epoch(self.first_epoch.load(Ordering::Acquire)));
        let connection = Arc::new(Connection::new(session, now));
        let shared = Arc::downgrade(self);
        let forget = move |connection: &Connection| {
            if let Some(shared) = shared.upgrade() {
                let mut connections = shared.connections.write();
                shared.forget(&mut connections, connection, |session| !session.is_linked());
            }
        };
        if let Err(error) = start_sender(&connection, &self.environment, forget) {
            if let Some(line) = self.log.lock().take(now) {
                let dropped = line.dropped;
                tracing::error!(%peer, %error, dropped, "the system has no thread for a peer: it stays unconnected");
            }
            return None;
        }
        connections.insert(peer.clone(), Arc::clone(&connection));
        Some(connection)
    }

    /// Forgets a peer that has gone, or else one that the link sees and that has said nothing.
    fn make_room(&self, connections: &mut HashMap<NodeName, Arc<Connection>>, now: Duration) -> bool {
        let is_silent = |connection: &Connection| {
            let session = connection.session.lock();
            let is_silent = session.stats().totals.packets_in == 0 && now >= connection.began_at + SILENT_MAX;
            (!session.is_linked() || is_silent).then(|| (session.is_linked(), connection.began_at))
        };
        let spare = connections.values().filter_map(|connection| Some((is_silent(connection)?, connection)));
        let oldest = spare.min_by_key(|(order, _)| *order).map(|(_, connection)| Arc::clone(connection));
        oldest.is_some_and(|connection| self.forget(connections, &connection, |session| !session.is_up()))
    }

    /// Ends the connection to a peer, if its session allows it.
    fn forget(
        &self,
        connections: &mut HashMap<NodeName, Arc<Connection>>,
        connection: &Connection,
        may_forget: impl FnOnce(&Session) -> bool,
    ) -> bool {
        let is_forgotten = connection.forget_if(|session| {
            // The numbers of sessions with one life of a peer only grow.
            self.first_epoch.fetch_max(session.epoch().next().0, Ordering::AcqRel);
            may_forget(session)
        });
        if is_forgotten {
            connections.remove(&connection.peer);
            self.by_node.write().retain(|_, known| !std::ptr::eq(Arc::as_ptr(known), connection));
        }
        is_forgotten
    }

    /// Returns the connection to a life of a peer, while that is the one that is connected.
    fn by_node(&self, node: u32) -> Option<Arc<Connection>> {
        let known = self.by_node.read().get(&node).filter(|connection| connection.is_to(node)).map(Arc::clone);
        let connection = known.or_else(|| {
            let connections = self.connections.read();
            let connection = connections.values().find(|connection| connection.is_to(node)).map(Arc::clone)?;
            drop(connections);
            self.by_node.write().insert(node, Arc::clone(&connection));
            Some(connection)
        });
        connection.filter(|connection| connection.is_to(node))
    }
}

impl Network for Shared {
    fn send(&self, node: u32, frame: Frame) -> Result<(), Refused> {
        match self.by_node(node) {
            Some(connection) => connection.send(&self.environment, frame),
            None => Err(Refused::NoConnection(frame)),
        }
    }

    fn wait_for_room(&self, node: u32, to: ProcessAddress, bytes: usize, sender: &Waker) -> bool {
        self.by_node(node).is_some_and(|connection| connection.wait_for_room(to, bytes, sender))
    }

    fn release(&self, node: u32, to: ProcessAddress, frames: u32, bytes: u64) {
        if let Some(connection) = self.by_node(node) {
            connection.release(self.environment.now(), to, frames, bytes);
        }
    }

    fn payload_bytes_max(&self) -> usize {
        self.config.message_bytes
    }

    fn figures(&self, node: u32) -> LinkFigures {
        self.by_node.read().get(&node).map_or_else(LinkFigures::default, |connection| connection.figures())
    }

    fn report(&self, names_max: usize) -> NetworkReport {
        let environment = &self.environment;
        environment.note_look();
        let now = environment.now();
        let connections: Vec<_> = self.connections.read().values().map(Arc::clone).collect();
        let mut peers: Vec<_> = connections.iter().map(|connection| connection.report(now)).collect();
        peers.sort_by(|one, two| one.name.cmp(&two.name));
        let (names, names_total, (nodes_seen, nodes_total)) = environment.names().report(names_max);
        let LinkStatus { kind, endpoints, is_encrypted } = environment.link.status();
        NetworkReport {
            link: kind,
            endpoints,
            is_encrypted,
            version: VERSION.to_owned(),
            nodes_seen,
            nodes_total,
            peers,
            names,
            names_total,
        }
    }
}

/// Reports of the link.
struct Events(Arc<Shared>);

impl LinkEvents for Events {
    fn up(&self, peer: NodeName) {
        if peer == self.0.identity.name {
            return;
        }
        while let Some(connection) = self.0.connection(&peer) {
            connection.with_session(&self.0.environment, |session, now| session.on_link(now, LinkChange::Up));
            // Otherwise the peer was forgotten at this moment, and is a new one.
            if !connection.is_forgotten() {
                return;
            }
        }
    }

    fn down(&self, peer: &NodeName) {
        let connection = self.0.connections.read().get(peer).map(Arc::clone);
        if let Some(connection) = connection {
            connection.with_session(&self.0.environment, |session, now| session.on_link(now, LinkChange::Down));
        }
    }

    fn name_taken(&self) {
        let shared = &self.0;
        tracing::error!(
            name = %shared.identity.name,
            "another node has the name of this one and had it first: this node has left the cluster until that one is gone; \
             start one of them again under another name"
        );
        let connections: Vec<_> = shared.connections.read().values().map(Arc::clone).collect();
        for connection in connections {
            connection.with_session(&shared.environment, |session, now| session.leave(now, now));
            // A session that has left stays closed: if this node comes back, it has new ones.
            shared.forget(&mut shared.connections.write(), &connection, |_| true);
        }
    }

    fn packet(&self, from: &NodeName, packet: Bytes) {
        let known = |from: &NodeName| self.0.connections.read().get(from).map(Arc::clone);
        let connection = known(from).or_else(|| {
            // One that was silent for too long, or for which there was no room.
            let is_seen = Packet::is_hello(&packet) && self.0.environment.link.peers().contains(from);
            is_seen.then(|| self.up(from.clone()))?;
            known(from)
        });
        if let Some(connection) = connection {
            connection.with_session(&self.0.environment, |session, now| session.on_packet(now, packet));
        }
    }
}
