//! The link over the network: zenoh in peer mode.
//!
//! ```text
//!   rusm/v1/node/NAME/LIFE   liveliness token of a node: up and down, and that a name is taken
//!   rusm/v1/sees/NAME/LIFE   liveliness token of the node NAME for each node that it has a connection to
//!   rusm/v1/d/TO/FROM        stream packets     one publisher for each peer and lane, which blocks when its queue is full
//!   rusm/v1/c/TO/FROM        control packets    real-time priority
//! ```
//!
//! zenoh alone loses quietly: towards a slow receiver it closes the link, and a publisher then succeeds without
//! sending. The session above keeps its queue from filling up, and notices every loss. zenoh is called from threads
//! without a tokio runtime only: on a current-thread runtime it panics or blocks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::{Sample, SampleKind};
use zenoh_runtime::ZRuntime;

use super::contract::{Link, LinkError, LinkEvents, LinkStatus};
use super::life::LinkLife;
use super::redial::Redial;
use super::settings::NetworkSettings;
use super::sightings::{Sightings, Step};
use super::transport::Transport;
use crate::identity::NodeName;
use crate::wire::Lane;
use crate::wire::limits::PACKET_BYTES_MAX;

/// Time for which a node that joins others looks for one with its name, before it becomes visible.
const SETTLE: Duration = Duration::from_millis(300);
/// Pause before a node that has left, because another one had its name, comes back.
const RETURN_AFTER: Duration = Duration::from_secs(1);
/// Time between two looks for nodes to dial.
const REDIAL_EVERY: Duration = Duration::from_millis(500);

/// The link of a node over the network.
///
/// ```no_run
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_cluster as cluster; }
/// use std::sync::Arc;
///
/// use rusm::cluster::node::Node;
/// use rusm::cluster::{BootId, Config, NetworkLink, NetworkSettings, NodeName};
/// use rusm::Runtime;
///
/// let runtime = Runtime::start(rusm::Config::default())?;
/// let settings = NetworkSettings {
///     join: vec!["127.0.0.1:7001".to_owned()], // one reachable node is enough
///     ..NetworkSettings::loopback(NodeName::new("south")?, 7002)
/// };
/// let link = NetworkLink::open(settings)?;
/// # let boot = 7; // a random number for this start
/// println!("listens at {:?}", link.addresses());
/// let node = Node::start(&runtime, Arc::new(link), BootId(boot), Config::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NetworkLink {
    settings: NetworkSettings,
    transport: Arc<Transport>,
    publishers: Mutex<BTreeMap<(NodeName, Way), Arc<Publisher<'static>>>>,
    presence: OnceLock<Arc<Presence>>,
}

/// The presence of this node in the cluster: its declarations, and the nodes that it sees.
struct Presence {
    name: NodeName,
    life: LinkLife,
    transport: Arc<Transport>,
    events: Arc<dyn LinkEvents>,
    sightings: Sightings,
    redial: Redial,
    opened: Instant,
    declared: Mutex<Declared>,
    /// A thread waits to declare them again.
    is_returning: AtomicBool,
}

/// Declarations of a node while its link is open.
#[derive(Default)]
struct Declared {
    /// Tokens of all nodes: also while this node has left.
    tokens: Vec<Subscriber<()>>,
    packets: Vec<Subscriber<()>>,
    token: Option<LivelinessToken>,
    /// Tokens for the nodes that this one has a connection to.
    sees: BTreeMap<LinkLife, LivelinessToken>,
    is_closed: bool,
}

/// Number of file descriptors that the transport needs to start: it panics without them.
const FILES_NEEDED: u64 = 32;

/// Checks that enough file descriptors are free. Where the system does not list the open ones, the limit must do.
fn check_files() -> Result<(), LinkError> {
    let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current else { return Ok(()) };
    let open = std::fs::read_dir("/dev/fd").map_or(0, |open| open.count() as u64);
    let free = limit.saturating_sub(open);
    if free < FILES_NEEDED { Err(LinkError::Files { free, needed: FILES_NEEDED }) } else { Ok(()) }
}

impl NetworkLink {
    /// Opens the link: listens, and connects to the nodes to join in the background. It succeeds although none of them
    /// is reachable yet.
    ///
    /// # Errors
    /// [`LinkError::Settings`] if the settings are not valid, [`LinkError::Listen`] if the address cannot be used,
    /// [`LinkError::Files`] if the program may open too few files.
    pub fn open(settings: NetworkSettings) -> Result<Self, LinkError> {
        let text = settings.to_json5()?;
        let config = zenoh::Config::from_json5(&text).map_err(|error| LinkError::Settings(error.to_string()))?;
        settings.check_certificates()?;
        let endpoint = settings.listen.to_string();
        check_listen(&settings)?;
        check_files()?;
        // Start all threads of the transport now. It starts some with its first connection, and panics if strangers have
        // taken all descriptors by then: no node could join again.
        for threads in [ZRuntime::Application, ZRuntime::Acceptor, ZRuntime::TX, ZRuntime::RX, ZRuntime::Net] {
            drop(threads.spawn(async {}));
        }
        let protocol = settings.protocol();
        let opened = on_plain_thread(move || Transport::open(config, protocol))?;
        let transport = opened.map_err(|error| LinkError::Listen { endpoint, reason: error.to_string() })?;
        let publishers = Mutex::default();
        Ok(Self { settings, transport: Arc::new(transport), publishers, presence: OnceLock::new() })
    }

    /// Returns the addresses at which this node listens, as `HOST:PORT`.
    pub fn addresses(&self) -> Vec<String> {
        self.transport.addresses()
    }

    /// Looks for a node of the same name first, and then joins.
    fn join(&self, events: &Arc<dyn LinkEvents>) -> Result<(), LinkError> {
        let name = self.settings.name.clone();
        let addresses = self.addresses().iter().filter_map(|address| address.parse().ok()).collect();
        let life = LinkLife::new(self.settings.started_at_ms, self.transport.session.zid().to_string(), addresses);
        let presence = Arc::new(Presence {
            sightings: Sightings::new(name.clone(), life.clone(), Arc::clone(events)),
            redial: Redial::new(life.clone()),
            name: name.clone(),
            life,
            transport: Arc::clone(&self.transport),
            events: Arc::clone(events),
            opened: Instant::now(),
            declared: Mutex::default(),
            is_returning: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&presence);
        let on_token = move |sample: Sample| {
            if let (Some((name, life)), Some(presence)) = (name_and_life(&sample), weak.upgrade()) {
                presence.on_token(name, life, sample.kind() == SampleKind::Put);
            }
        };
        let weak = Arc::downgrade(&presence);
        let on_told = move |sample: Sample| {
            if let (Some((by, life)), Some(presence)) = (name_and_life(&sample), weak.upgrade()) {
                let is_present = sample.kind() == SampleKind::Put;
                presence.redial.on_told(by, &life, is_present, presence.opened.elapsed());
            }
        };
        let liveliness = self.transport.session.liveliness();
        let tokens = liveliness.declare_subscriber("rusm/v1/node/*/*").history(true).callback(on_token).wait();
        let told = liveliness.declare_subscriber("rusm/v1/sees/*/*").history(true).callback(on_told).wait();
        let mut declared = presence.declared.lock();
        declared.tokens = vec![tokens.map_err(failed)?, told.map_err(failed)?];
        let settle = if self.settings.join.is_empty() { Duration::ZERO } else { SETTLE };
        if !presence.sightings.name_is_free(settle) {
            return Err(LinkError::NameTaken(name));
        }
        presence.declare(&mut declared)?;
        drop(declared);
        Presence::begin_to_redial(&presence);
        // A link starts once.
        drop(self.presence.set(presence));
        Ok(())
    }

    fn put(&self, to: &NodeName, way: Way, packet: Bytes) -> Result<(), LinkError> {
        let sent = self.publisher(to, way)?.put(packet).wait();
        sent.map_err(|error| LinkError::Transport(error.to_string()))
    }

    fn publisher(&self, to: &NodeName, way: Way) -> Result<Arc<Publisher<'static>>, LinkError> {
        let mut publishers = self.publishers.lock();
        if let Some(publisher) = publishers.get(&(to.clone(), way)) {
            return Ok(Arc::clone(publisher));
        }
        let (letter, priority) = if way.is_control { ("c", Priority::RealTime) } else { ("d", Priority::Data) };
        let key = format!("rusm/v1/{letter}/{to}/{}", self.settings.name);
        let publisher = self.transport.session.declare_publisher(key).congestion_control(CongestionControl::Block);
        let publisher = publisher.priority(priority).express(way.is_express).wait();
        let publisher = Arc::new(publisher.map_err(|error| LinkError::Transport(error.to_string()))?);
        publishers.insert((to.clone(), way), Arc::clone(&publisher));
        Ok(publisher)
    }
}

/// The way of packets to a peer. The packets of one lane arrive in the order in which they were sent, whether express or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    is_control: bool,
    /// A packet does not wait for more to send with it.
    is_express: bool,
}

impl Way {
    fn new(lane: Lane, is_express: bool) -> Self {
        Self { is_control: lane == Lane::Control, is_express }
    }
}

impl Link for NetworkLink {
    fn name(&self) -> &NodeName {
        &self.settings.name
    }

    fn start(&self, events: Arc<dyn LinkEvents>) -> Result<(), LinkError> {
        let joined = thread::scope(|scope| {
            let thread = thread::Builder::new().name("rusm-link".to_owned());
            thread.spawn_scoped(scope, || self.join(&events)).ok().and_then(|thread| thread.join().ok())
        });
        joined.ok_or_else(|| LinkError::Transport("a thread of the link failed".to_owned()))?
    }

    fn send(&self, to: &NodeName, lane: Lane, packet: Bytes) -> Result<(), LinkError> {
        self.put(to, Way::new(lane, false), packet)
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn send_at_once(&self, to: &NodeName, lane: Lane, packet: Bytes) -> Result<(), LinkError> {
        self.put(to, Way::new(lane, true), packet)
    }

    fn peers(&self) -> Vec<NodeName> {
        self.presence.get().map(|presence| presence.sightings.peers()).unwrap_or_default()
    }

    fn forget(&self, peer: &NodeName) {
        self.publishers.lock().retain(|(name, _), _| name != peer);
    }

    fn status(&self) -> LinkStatus {
        LinkStatus {
            kind: format!("zenoh {}", self.settings.protocol()),
            endpoints: self.addresses(),
            is_encrypted: self.settings.certificates.is_some(),
        }
    }

    fn close(&self, deadline: Duration) {
        let presence = self.presence.get().map(Arc::clone);
        let publishers = std::mem::take(&mut *self.publishers.lock());
        let transport = Arc::clone(&self.transport);
        let (done, finished) = mpsc::sync_channel(1);
        // Towards a node that hangs, closing takes 10 s. It goes on without this thread.
        let closing = thread::Builder::new().name("rusm-link".to_owned()).spawn(move || {
            presence.inspect(|presence| presence.close());
            drop(publishers);
            transport.close();
            done.send(()).ok();
        });
        if closing.is_ok() {
            finished.recv_timeout(deadline).ok();
        }
    }
}

impl Presence {
    /// Notes the token of a node that has a connection to this one.
    fn on_token(self: Arc<Self>, name: NodeName, life: LinkLife, is_present: bool) {
        if name != self.name {
            self.redial.on_connection(&life, is_present, self.opened.elapsed());
        }
        match self.sightings.on_token(name, life, is_present) {
            Step::Stay => {}
            // Not on this thread, which belongs to what is dropped.
            Step::Leave => on_thread(move || self.leave()),
            Step::Return => self.begin_to_return(),
        }
    }

    /// Dials the nodes that this one should be connected to, until the link is closed.
    fn begin_to_redial(presence: &Arc<Self>) {
        let weak = Arc::downgrade(presence);
        on_thread(move || {
            while let Some(presence) = weak.upgrade() {
                if !presence.tell_others() {
                    return;
                }
                for life in presence.redial.due(presence.opened.elapsed()) {
                    presence.transport.dial(&life);
                }
                drop(presence);
                thread::park_timeout(REDIAL_EVERY);
            }
        });
    }

    /// Declares tokens for the nodes that this one has a connection to. Returns false if the link is closed.
    fn tell_others(&self) -> bool {
        let connected = self.redial.connected();
        let mut declared = self.declared.lock();
        if declared.is_closed {
            return false;
        }
        declared.sees.retain(|life, _| connected.contains(life));
        for life in connected {
            if let Entry::Vacant(vacant) = declared.sees.entry(life) {
                let token = format!("rusm/v1/sees/{}/{}", self.name, vacant.key().key());
                match self.transport.session.liveliness().declare_token(token).wait() {
                    Ok(token) => drop(vacant.insert(token)),
                    Err(error) => tracing::debug!(%error, "a node is not told to others"),
                }
            }
        }
        true
    }

    /// Declares subscribers, and the token last, so that a node that sees the token can send.
    fn declare(&self, declared: &mut Declared) -> Result<(), LinkError> {
        for lane in ["d", "c"] {
            let events = Arc::clone(&self.events);
            let key = format!("rusm/v1/{lane}/{}/*", self.name);
            let on_packet = move |sample: Sample| {
                let from = last_part(&sample);
                // A packet beyond the limit would be dropped by the session. Do not copy it.
                if let Some(from) = from.filter(|_| sample.payload().len() <= PACKET_BYTES_MAX) {
                    events.packet(&from, Bytes::copy_from_slice(&sample.payload().to_bytes()));
                }
            };
            let subscriber = self.transport.session.declare_subscriber(key).callback(on_packet).wait();
            declared.packets.push(subscriber.map_err(failed)?);
        }
        self.sightings.become_visible();
        let token = format!("rusm/v1/node/{}/{}", self.name, self.life.key());
        declared.token = Some(self.transport.session.liveliness().declare_token(token).wait().map_err(failed)?);
        Ok(())
    }

    /// Takes this node out of the cluster. It still sees the tokens of others.
    fn leave(&self) {
        let mut declared = self.declared.lock();
        // If this thread was late, it may be back already.
        if self.sightings.has_left() {
            declared.token = None;
            declared.packets.clear();
        }
    }

    /// Comes back after a pause, if no other node has the name then. A token that comes and goes makes it no faster.
    fn begin_to_return(self: Arc<Self>) {
        if self.is_returning.swap(true, Ordering::AcqRel) {
            return;
        }
        on_thread(move || {
            let until = Instant::now() + RETURN_AFTER;
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                thread::park_timeout(left);
            }
            self.is_returning.store(false, Ordering::Release);
            let mut declared = self.declared.lock();
            if declared.is_closed || !self.sightings.may_return() {
                return;
            }
            // The rest of the earlier declarations, unless it was taken already.
            declared.token = None;
            declared.packets.clear();
            match self.declare(&mut declared) {
                Ok(()) => {
                    tracing::info!(name = %self.name, "no other node has the name of this one: it is back in the cluster");
                }
                Err(error) => tracing::error!(name = %self.name, %error, "this node cannot come back to the cluster"),
            }
        });
    }

    fn close(&self) {
        let declared = {
            let closed = Declared { is_closed: true, ..Declared::default() };
            std::mem::replace(&mut *self.declared.lock(), closed)
        };
        drop(declared);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn failed(error: zenoh::Error) -> LinkError {
    LinkError::Transport(error.to_string())
}

/// Runs a function on a thread of its own. Without a thread, it is not run.
fn on_thread(work: impl FnOnce() + Send + 'static) {
    drop(thread::Builder::new().name("rusm-link".to_owned()).spawn(work));
}

impl fmt::Debug for NetworkLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkLink").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Checks that the address can be used: the error of zenoh has the paths of its sources in it.
fn check_listen(settings: &NetworkSettings) -> Result<(), LinkError> {
    let bound = match settings.protocol() {
        "quic" => UdpSocket::bind(settings.listen).map(drop),
        _ => TcpListener::bind(settings.listen).map(drop),
    };
    bound.map_err(|error| LinkError::Listen { endpoint: settings.listen.to_string(), reason: error.to_string() })
}

/// Returns the name and the life at the end of the key of a token.
fn name_and_life(sample: &Sample) -> Option<(NodeName, LinkLife)> {
    let mut parts = sample.key_expr().as_str().rsplit('/');
    let life = parts.next().and_then(LinkLife::parse)?;
    Some((NodeName::new(parts.next()?).ok()?, life))
}

/// Returns the node that the last part of a key names.
fn last_part(sample: &Sample) -> Option<NodeName> {
    sample.key_expr().as_str().rsplit('/').next().and_then(|name| NodeName::new(name).ok())
}

/// Runs a function on a thread without a tokio runtime.
fn on_plain_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, LinkError> {
    let thread = thread::Builder::new().name("rusm-link".to_owned()).spawn(work);
    let result = thread.ok().and_then(|thread| thread.join().ok());
    result.ok_or_else(|| LinkError::Transport("a thread of the link failed".to_owned()))
}
