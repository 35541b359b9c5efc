//! Lives of other nodes, and what connects processes of this node to processes of each of them.
//!
//! ```text
//!   (name, boot id) ──▶ index, the node part of a pid; an index is never reused
//!   Down ─▶ Greeting ─▶ Up ─▶ Down …        the same life may be connected again: its pids live, its bonds do not
//!      └──────────────────────▶ Superseded   another life of the name was connected: this one has ended
//! ```
//!
//! A frame is queued under the read lock of [`Peer::link`], and a bond is recorded under the same lock. The loss of the
//! connection takes the write lock. So every bond was either requested in the current connection, or is not recorded:
//! a lost connection ends each bond exactly once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use crate::links::signal::MonitorRef;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::runtime::remote::frame::{Frame, Kind};
use crate::runtime::remote::limits::{Overflow, SpawnedByNodes};
use crate::runtime::remote::network::{Network, Refused};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Maximum number of lives of other nodes that a runtime knows: a bound on what another node may make it store.
const LIVES_MAX: usize = 1 << 16;
/// Maximum number of lives with which one that was only mentioned, in a pid, is added. The others are for nodes that connect.
const MENTIONED_LIVES_MAX: usize = LIVES_MAX / 2;
/// Maximum length of the name of a node, in bytes.
pub(crate) const NODE_NAME_MAX_BYTES: usize = 255;

/// Name and boot id of one life of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Name of the node.
    pub name: Arc<str>,
    /// Number that differs at each start of the node.
    pub boot_id: u128,
}

/// State of the connection to a life of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not connected.
    #[default]
    Down,
    /// Connected; the first frame of the other node has not arrived.
    Greeting,
    /// Connected.
    Up,
    /// The node was started again: this life has ended.
    Superseded,
}

/// State of a connection.
#[derive(Debug, Default)]
pub(crate) struct LinkState {
    pub(crate) phase: Phase,
    /// Names of the types that the other node exports.
    pub(crate) types: HashSet<Arc<str>>,
    /// The memberships of this node were sent, so later changes must be sent, too.
    pub(crate) announced: bool,
}

/// Links, monitors and memberships between processes of this node and of one other node.
#[derive(Debug, Default)]
pub(crate) struct Bonds {
    /// Links as (local, remote).
    pub(crate) links: HashMap<(Pid, Pid), LinkNumbers>,
    /// Number of link requests sent in this connection.
    pub(crate) links_sent: u64,
    /// Monitors and calls of local processes, with these processes and their targets.
    pub(crate) monitors: HashMap<MonitorRef, (Pid, Pid)>,
    /// Monitors of remote processes, by the reference of this node: the reference of the other node, and the target.
    pub(crate) inbound: HashMap<MonitorRef, (MonitorRef, Pid)>,
    /// References of this node by those of the other node.
    pub(crate) inbound_by_theirs: HashMap<MonitorRef, MonitorRef>,
    /// Number of memberships of remote processes in groups.
    pub(crate) memberships: usize,
}

/// Numbers of the last requests for one link, from each side; 0 if a side has sent none.
///
/// The two sides may link and unlink at the same time. An unlink says which request of the other side it has seen: a
/// later request creates the link anew, so that the link is on both sides or on none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkNumbers {
    pub(crate) own: u64,
    pub(crate) theirs: u64,
}

impl Bonds {
    /// Removes the monitor of a remote process, and returns the reference of this node and the target.
    pub(crate) fn take_inbound(&mut self, theirs: MonitorRef) -> Option<(MonitorRef, Pid)> {
        let own = self.inbound_by_theirs.remove(&theirs)?;
        self.inbound.remove(&own).map(|(_, target)| (own, target))
    }

    /// Removes the monitor of a remote process, and returns the reference of the other node.
    pub(crate) fn take_inbound_own(&mut self, own: MonitorRef) -> Option<MonitorRef> {
        let (theirs, _) = self.inbound.remove(&own)?;
        self.inbound_by_theirs.remove(&theirs);
        Some(theirs)
    }
}

/// Counters of a peer.
#[derive(Debug, Default)]
pub(crate) struct PeerCounters {
    pub(crate) frames_sent: AtomicU64,
    pub(crate) frames_received: AtomicU64,
    pub(crate) payload_bytes_sent: AtomicU64,
    pub(crate) payload_bytes_received: AtomicU64,
    pub(crate) undecodable: AtomicU64,
    /// Messages of this node that the other one could not decode.
    pub(crate) undecodable_there: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) losses: AtomicU64,
}

/// Messages for one process that wait beyond the room of its mailbox.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    /// Number and bytes of the frames of the current connection: their credit was not returned.
    pub(crate) frames: u32,
    pub(crate) bytes: u64,
    /// Their memory, with that of frames of lost connections.
    pub(crate) cost: u64,
}

/// One life of another node.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) index: u32,
    pub(crate) identity: Identity,
    pub(crate) link: RwLock<LinkState>,
    pub(crate) bonds: Mutex<Bonds>,
    /// Messages for each local process that wait beyond the room of its mailbox.
    pub(crate) withheld: Mutex<HashMap<Pid, Withheld>>,
    pub(crate) counters: PeerCounters,
}

impl Peer {
    /// Returns the reason with which a bond to a process of this life ends while it is not connected.
    pub(crate) fn lost_reason(&self) -> ExitReason {
        match self.link.read().phase {
            Phase::Superseded => ExitReason::NoProcess,
            _ => ExitReason::NoConnection,
        }
    }
}

/// Lives of other nodes.
#[derive(Default)]
struct Lives {
    /// Life with index `n` at position `n - 1`.
    list: Vec<Arc<Peer>>,
    by_identity: HashMap<Identity, u32>,
    /// Newest connected life of each name.
    newest: HashMap<Arc<str>, u32>,
}

/// The network of a runtime, and the name of its node.
pub(crate) struct Attached {
    pub(crate) identity: Identity,
    pub(crate) network: Arc<dyn Network>,
}

/// All lives of other nodes that a runtime knows.
#[derive(Default)]
pub(crate) struct Peers {
    lives: RwLock<Lives>,
    pub(crate) attached: OnceLock<Attached>,
    /// Live processes that other nodes have spawned.
    pub(crate) spawned: SpawnedByNodes,
    /// Messages that wait beyond the room of their mailboxes.
    pub(crate) overflow: Overflow,
    /// No more processes are started for other nodes.
    pub(crate) draining: AtomicBool,
    /// Processes that are told of nodes that come and go.
    pub(crate) watchers: Mutex<Vec<Pid>>,
}

impl Peers {
    /// Returns the life with an index.
    pub(crate) fn get(&self, index: u32) -> Option<Arc<Peer>> {
        let position = usize::try_from(index.checked_sub(1)?).ok()?;
        self.lives.read().list.get(position).map(Arc::clone)
    }

    /// Returns all lives, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Peer>> {
        self.lives.read().list.clone()
    }

    /// Returns the newest connected life of a node.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Peer>> {
        let index = self.lives.read().newest.get(name).copied()?;
        self.get(index)
    }

    /// Returns the index of a life, and adds it if it is not known. `None` if there are too many, or for a name that is
    /// not valid.
    pub(crate) fn intern(&self, identity: &Identity) -> Option<u32> {
        self.intern_up_to(identity, LIVES_MAX)
    }

    /// Does the same for a life that another node has mentioned: it leaves room for nodes that connect.
    pub(crate) fn intern_mentioned(&self, identity: &Identity) -> Option<u32> {
        self.intern_up_to(identity, MENTIONED_LIVES_MAX)
    }

    fn intern_up_to(&self, identity: &Identity, lives_max: usize) -> Option<u32> {
        if let Some(index) = self.lives.read().by_identity.get(identity) {
            return Some(*index);
        }
        if identity.name.is_empty() || identity.name.len() > NODE_NAME_MAX_BYTES {
            return None;
        }
        let mut lives = self.lives.write();
        if let Some(index) = lives.by_identity.get(identity) {
            return Some(*index);
        }
        if lives.list.len() >= lives_max {
            return None;
        }
        let index = u32::try_from(lives.list.len() + 1).ok()?;
        lives.list.push(Arc::new(Peer {
            index,
            identity: identity.clone(),
            link: RwLock::default(),
            bonds: Mutex::default(),
            withheld: Mutex::default(),
            counters: PeerCounters::default(),
        }));
        lives.by_identity.insert(identity.clone(), index);
        Some(index)
    }

    /// Makes a life the newest of its name, and returns the one that it replaces.
    pub(crate) fn make_newest(&self, peer: &Peer) -> Option<Arc<Peer>> {
        let before = self.lives.write().newest.insert(Arc::clone(&peer.identity.name), peer.index);
        before.filter(|before| *before != peer.index).and_then(|before| self.get(before))
    }

    /// Returns the name of this node and its boot id.
    pub(crate) fn own(&self) -> Option<&Identity> {
        self.attached.get().map(|attached| &attached.identity)
    }

    /// Queues a frame for a peer. The caller has locked the peer's link. Returns the frame if that is not possible.
    pub(crate) fn queue(&self, peer: &Peer, frame: Frame) -> Result<(), Refused> {
        let Some(attached) = self.attached.get() else { return Err(Refused::NoConnection(frame)) };
        let bytes = frame.payload.len() as u64;
        attached.network.send(peer.index, frame)?;
        peer.counters.frames_sent.fetch_add(1, Ordering::Relaxed);
        peer.counters.payload_bytes_sent.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Queues a signal for a peer, shorter than the longest message. The caller has locked the peer's link. A refused signal
    /// needs no answer: the network then reports the loss of the connection, which ends all bonds.
    pub(crate) fn signal(&self, peer: &Peer, kind: Kind, (from, to): (Pid, Pid), payload: Vec<u8>) {
        let frame = Frame { kind, from: from.into(), to: to.into(), payload: payload.into() };
        if let Err(refused) = self.queue(peer, frame) {
            tracing::debug!(node = %peer.identity.name, ?kind, ?refused, "a signal was not sent: the connection is lost");
        }
    }
}
