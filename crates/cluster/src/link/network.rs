//! The link over the network: zenoh in peer mode.
//!
//! ```text
//!   rusm/v1/node/NAME/LIFE   liveliness token of a node: up and down, and that a name is taken
//!   rusm/v1/d/TO/FROM        stream packets     one publisher for each peer and lane, which blocks when its queue is full
//!   rusm/v1/c/TO/FROM        control packets    real-time priority
//! ```
//!
//! zenoh alone loses quietly: towards a slow receiver it closes the link, and a publisher then succeeds without
//! sending. The session above keeps its queue from filling up, and notices every loss. zenoh is called from threads
//! without a tokio runtime only: on a current-thread runtime it panics or blocks.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{TcpListener, UdpSocket};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::{Sample, SampleKind};

use super::contract::{Link, LinkError, LinkEvents, LinkStatus};
use super::settings::NetworkSettings;
use super::sightings::{LinkLife, Sightings};
use crate::identity::NodeName;
use crate::wire::Lane;
use crate::wire::limits::PACKET_BYTES_MAX;

/// Time for which a node that joins others looks for one with its name, before it becomes visible.
const SETTLE: Duration = Duration::from_millis(300);

/// The link of a node over the network.
pub struct NetworkLink {
    settings: NetworkSettings,
    session: zenoh::Session,
    publishers: Mutex<BTreeMap<(NodeName, bool), Arc<Publisher<'static>>>>,
    sightings: OnceLock<Arc<Sightings>>,
    declared: Arc<Mutex<Declared>>,
}

/// Declarations of a node while its link is open.
#[derive(Default)]
struct Declared {
    subscribers: Vec<Subscriber<()>>,
    token: Option<LivelinessToken>,
}

impl NetworkLink {
    /// Opens the link: listens, and connects to the nodes to join in the background. It succeeds although none of them
    /// is reachable yet.
    ///
    /// # Errors
    /// [`LinkError::Settings`] if the settings are not valid, [`LinkError::Listen`] if the address cannot be used.
    pub fn open(settings: NetworkSettings) -> Result<Self, LinkError> {
        let text = settings.to_json5()?;
        let config = zenoh::Config::from_json5(&text).map_err(|error| LinkError::Settings(error.to_string()))?;
        let endpoint = settings.listen.to_string();
        check_listen(&settings)?;
        let opened = on_plain_thread(move || zenoh::open(config).wait())?;
        let session = opened.map_err(|error| LinkError::Listen { endpoint, reason: error.to_string() })?;
        let publishers = Mutex::default();
        Ok(Self { settings, session, publishers, sightings: OnceLock::new(), declared: Arc::default() })
    }

    /// Returns the addresses at which this node listens, as `HOST:PORT`.
    pub fn addresses(&self) -> Vec<String> {
        let session = self.session.clone();
        let locators = on_plain_thread(move || session.info().locators().wait()).unwrap_or_default();
        locators.iter().map(|locator| locator.address().to_string()).collect()
    }

    /// Looks for a node of the same name first. Then declares subscribers, and the token last, so that a node that sees the
    /// token can send.
    fn declare(&self, events: &Arc<dyn LinkEvents>) -> Result<Declared, LinkError> {
        let name = &self.settings.name;
        let life = LinkLife::new(self.settings.started_at_ms, self.session.zid().to_string());
        let sightings = Arc::new(Sightings::new(name.clone(), life.clone(), Arc::clone(events)));
        let mut declared = Declared::default();
        let (seen, to_close) = (Arc::clone(&sightings), Arc::downgrade(&self.declared));
        let on_token = move |sample: Sample| {
            let mut parts = sample.key_expr().as_str().rsplit('/');
            let life = parts.next().and_then(LinkLife::parse);
            let name = parts.next().and_then(|name| NodeName::new(name).ok());
            if let (Some(name), Some(life)) = (name, life)
                && seen.on_token(name, life, sample.kind() == SampleKind::Put)
                && let Some(declared) = to_close.upgrade()
            {
                // Not on this thread, which belongs to what is dropped.
                let closing = thread::Builder::new().name("rusm-link".to_owned());
                drop(closing.spawn(move || drop(std::mem::take(&mut *declared.lock()))));
            }
        };
        let failed = |error: zenoh::Error| LinkError::Transport(error.to_string());
        let liveliness = self.session.liveliness();
        let tokens = liveliness.declare_subscriber("rusm/v1/node/*/*").history(true).callback(on_token).wait();
        declared.subscribers.push(tokens.map_err(failed)?);
        let settle = if self.settings.join.is_empty() { Duration::ZERO } else { SETTLE };
        if !sightings.name_is_free(settle) {
            return Err(LinkError::NameTaken(name.clone()));
        }
        for lane in ["d", "c"] {
            let events = Arc::clone(events);
            let key = format!("rusm/v1/{lane}/{name}/*");
            let on_packet = move |sample: Sample| {
                let from = last_part(&sample);
                // A packet beyond the limit would be dropped by the session. Do not copy it.
                if let Some(from) = from.filter(|_| sample.payload().len() <= PACKET_BYTES_MAX) {
                    events.packet(&from, Bytes::copy_from_slice(&sample.payload().to_bytes()));
                }
            };
            let subscriber = self.session.declare_subscriber(key).callback(on_packet).wait();
            declared.subscribers.push(subscriber.map_err(failed)?);
        }
        sightings.become_visible();
        let token = liveliness.declare_token(format!("rusm/v1/node/{name}/{}", life.key())).wait();
        declared.token = Some(token.map_err(failed)?);
        // A link starts once.
        drop(self.sightings.set(sightings));
        Ok(declared)
    }

    fn publisher(&self, to: &NodeName, lane: Lane) -> Result<Arc<Publisher<'static>>, LinkError> {
        let is_control = lane == Lane::Control;
        let mut publishers = self.publishers.lock();
        if let Some(publisher) = publishers.get(&(to.clone(), is_control)) {
            return Ok(Arc::clone(publisher));
        }
        let (letter, priority) = if is_control { ("c", Priority::RealTime) } else { ("d", Priority::Data) };
        let key = format!("rusm/v1/{letter}/{to}/{}", self.settings.name);
        let publisher = self.session.declare_publisher(key).congestion_control(CongestionControl::Block);
        let publisher = publisher.priority(priority).wait().map_err(|error| LinkError::Transport(error.to_string()))?;
        let publisher = Arc::new(publisher);
        publishers.insert((to.clone(), is_control), Arc::clone(&publisher));
        Ok(publisher)
    }
}

impl Link for NetworkLink {
    fn name(&self) -> &NodeName {
        &self.settings.name
    }

    fn start(&self, events: Arc<dyn LinkEvents>) -> Result<(), LinkError> {
        let declared = thread::scope(|scope| {
            let thread = thread::Builder::new().name("rusm-link".to_owned());
            thread.spawn_scoped(scope, || self.declare(&events)).ok().and_then(|thread| thread.join().ok())
        });
        let declared = declared.ok_or_else(|| LinkError::Transport("a thread of the link failed".to_owned()))?;
        *self.declared.lock() = declared?;
        Ok(())
    }

    fn send(&self, to: &NodeName, lane: Lane, packet: Bytes) -> Result<(), LinkError> {
        let sent = self.publisher(to, lane)?.put(packet).wait();
        sent.map_err(|error| LinkError::Transport(error.to_string()))
    }

    fn peers(&self) -> Vec<NodeName> {
        self.sightings.get().map(|sightings| sightings.peers()).unwrap_or_default()
    }

    fn status(&self) -> LinkStatus {
        LinkStatus {
            kind: format!("zenoh {}", self.settings.protocol()),
            endpoints: self.addresses(),
            is_encrypted: self.settings.certificates.is_some(),
        }
    }

    fn close(&self, deadline: Duration) {
        let declared = std::mem::take(&mut *self.declared.lock());
        let publishers = std::mem::take(&mut *self.publishers.lock());
        let session = self.session.clone();
        let (done, finished) = mpsc::sync_channel(1);
        // Towards a node that hangs, closing takes 10 s. It goes on without this thread.
        let closing = thread::Builder::new().name("rusm-link".to_owned()).spawn(move || {
            drop(declared);
            drop(publishers);
            drop(session.close().wait());
            done.send(()).ok();
        });
        if closing.is_ok() {
            finished.recv_timeout(deadline).ok();
        }
    }
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
