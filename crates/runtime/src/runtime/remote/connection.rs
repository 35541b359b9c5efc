//! Connections of a runtime to other nodes: attaching a network, the first frame, and the loss of a connection.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::links::signal::MonitorRef;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;
use crate::runtime::held_wakes::HeldWakes;
use crate::runtime::remote::codec::{Decoder, Encoder, Portable};
use crate::runtime::remote::frame::{Frame, Kind};
use crate::runtime::remote::inbound::{Delivered, Malformed};
use crate::runtime::remote::limits::MEMBERSHIPS_MAX;
use crate::runtime::remote::network::Network;
use crate::runtime::remote::nodes::{NodeDown, NodeUp};
use crate::runtime::remote::peers::{Attached, Bonds, Identity, NODE_NAME_MAX_BYTES, Peer, Phase};
use crate::runtime::shared::RuntimeShared;
use crate::sync::atomic::Ordering;

/// Error returned when a runtime cannot be attached to a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AttachError {
    /// The runtime has a network.
    #[error("the runtime is attached to a network as node {name:?}")]
    Attached {
        /// Name of the node.
        name: Arc<str>,
    },
    /// The name is empty or too long.
    #[error("node name of {bytes} bytes is not between 1 and {NODE_NAME_MAX_BYTES}")]
    Length {
        /// Length of the name, in bytes.
        bytes: usize,
    },
}

/// Error returned when a life of a node cannot be connected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// The name is not valid, or it is the name of this node.
    #[error("node name {name:?} is empty, longer than {NODE_NAME_MAX_BYTES} bytes, or the name of this node")]
    Name {
        /// Name of the other node.
        name: Arc<str>,
    },
    /// Too many lives of other nodes are known. Restart this node.
    #[error("too many starts of other nodes are known")]
    TooMany,
}

/// Access of a network to the runtime that it serves.
#[derive(Clone)]
pub struct Remote {
    shared: Arc<RuntimeShared>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remote").field(&self.shared.peers.own()).finish()
    }
}

/// Attaches a runtime to a network, once.
///
/// # Errors
/// [`AttachError`] if it is attached, or if the name is not valid.
pub fn attach(runtime: &Handle, identity: Identity, network: Arc<dyn Network>) -> Result<Remote, AttachError> {
    let bytes = identity.name.len();
    if bytes == 0 || bytes > NODE_NAME_MAX_BYTES {
        return Err(AttachError::Length { bytes });
    }
    let shared = Arc::clone(&runtime.shared);
    if shared.peers.attached.set(Attached { identity, network }).is_err() {
        let name = shared.peers.own().map_or_else(|| "".into(), |own| Arc::clone(&own.name));
        return Err(AttachError::Attached { name });
    }
    Ok(Remote { shared })
}

impl Remote {
    /// Returns the index of a life of a node, connected or not.
    ///
    /// # Errors
    /// [`ConnectError`] if the node cannot be known.
    pub fn index_of(&self, identity: &Identity) -> Result<u32, ConnectError> {
        let peers = &self.shared.peers;
        let is_own_name = peers.own().is_some_and(|own| own.name == identity.name);
        if is_own_name || identity.name.is_empty() || identity.name.len() > NODE_NAME_MAX_BYTES {
            return Err(ConnectError::Name { name: Arc::clone(&identity.name) });
        }
        peers.intern(identity).ok_or(ConnectError::TooMany)
    }

    /// Records that a node is connected, and sends it the first frame. The network must accept frames for the node.
    pub fn connected(&self, node: u32) {
        let shared = &self.shared;
        let Some(peer) = shared.peers.get(node) else { return };
        if let Some(earlier) = shared.peers.make_newest(&peer) {
            shared.lose(&earlier, Phase::Superseded);
        }
        peer.counters.connections.fetch_add(1, Ordering::Relaxed);
        let mut encoder = Encoder::new(&shared.peers, node);
        shared.config.exports.names().encode(&mut encoder);
        shared.with_local_memberships(|memberships| {
            let mut link = peer.link.write();
            link.phase = Phase::Greeting;
            link.types.clear();
            link.announced = true;
            shared.peers.signal(&peer, Kind::Hello, (Pid::NONE, Pid::NONE), encoder.into_bytes());
            // Processes that joined before this node was part of a cluster may be too many.
            if let Some(left_out) = memberships.len().checked_sub(MEMBERSHIPS_MAX + 1) {
                tracing::error!(node = %peer.identity.name, left_out = left_out + 1, "another node is not told of all memberships in groups");
            }
            for (group, pid) in memberships.into_iter().take(MEMBERSHIPS_MAX) {
                shared.peers.signal(&peer, Kind::Join, (pid, Pid::NONE), shared.payload(&peer, &group));
            }
        });
    }

    /// Delivers a frame. The frames of one node are delivered by one thread at a time, in their order.
    ///
    /// # Errors
    /// [`Malformed`] for a frame that is not valid: the connection should be closed.
    pub fn deliver(&self, node: u32, frame: Frame) -> Result<Delivered, Malformed> {
        match self.shared.peers.get(node) {
            Some(peer) => self.shared.deliver(&peer, frame),
            None => Ok(Delivered::Accepted),
        }
    }

    /// Runs `deliver`, which delivers frames or wakes senders, and wakes the schedulers once for all of them at its end. Not for
    /// a thread of the runtime, nor for longer than some tens of microseconds.
    pub fn deliver_together(&self, deliver: impl FnOnce()) {
        let _held = HeldWakes::hold(&self.shared);
        deliver();
    }

    /// Records that the connection to a node is lost: ends links and monitors with `noconnection`. Nothing is sent to
    /// the node afterwards, until it is [connected](Self::connected) again. Must not run at the same time as
    /// [`deliver`](Self::deliver) for the node.
    pub fn lost(&self, node: u32) {
        if let Some(peer) = self.shared.peers.get(node) {
            self.shared.lose(&peer, Phase::Down);
        }
    }

    /// Starts no more processes for other nodes.
    pub fn drain(&self) {
        self.shared.peers.draining.store(true, Ordering::Relaxed);
    }

    /// Returns true after [`drain`](Self::drain).
    pub fn is_draining(&self) -> bool {
        self.shared.peers.draining.load(Ordering::Relaxed)
    }

    /// Returns the runtime.
    pub fn runtime(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }
}

impl RuntimeShared {
    /// Accepts the first frame of a connection.
    pub(crate) fn greet(self: &Arc<Self>, peer: &Arc<Peer>, decoder: &mut Decoder<'_>) -> Option<()> {
        let types = Vec::<Arc<str>>::decode(decoder)?;
        {
            let mut link = peer.link.write();
            if link.phase != Phase::Greeting {
                return None;
            }
            link.types = types.into_iter().collect();
            link.phase = Phase::Up;
        }
        let up = NodeUp { node: peer.index, identity: peer.identity.clone() };
        self.tell_watchers(|| up.clone());
        Some(())
    }

    /// Ends all bonds to a node, each exactly once.
    fn lose(&self, peer: &Peer, phase: Phase) {
        let (before, bonds) = {
            let mut link = peer.link.write();
            let before = std::mem::replace(&mut link.phase, phase);
            link.types.clear();
            link.announced = false;
            (before, std::mem::take(&mut *peer.bonds.lock()))
        };
        for withheld in peer.withheld.lock().values_mut() {
            (withheld.frames, withheld.bytes) = (0, 0);
        }
        if matches!(before, Phase::Up | Phase::Greeting) {
            peer.counters.losses.fetch_add(1, Ordering::Relaxed);
        }
        let Bonds { links, monitors, inbound, .. } = bonds;
        for (reference, (pid, target)) in monitors {
            self.down(pid, reference, target, &ExitReason::NoConnection);
        }
        for ((pid, other), _) in links {
            self.exit_by_link(pid, other, &ExitReason::NoConnection);
        }
        for (own, (_, target)) in inbound {
            self.remove_inbound(target, own);
        }
        self.leave_all_of_node(peer.index);
        if before == Phase::Up {
            let down = NodeDown { node: peer.index, identity: peer.identity.clone() };
            self.tell_watchers(|| down.clone());
        }
    }

    fn remove_inbound(&self, target: Pid, own: MonitorRef) {
        if let Some(mut locked) = self.lock_process(target) {
            locked.side_table().monitored_by.remove(&own);
        }
    }
}
