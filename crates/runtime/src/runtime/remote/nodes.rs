//! Other nodes, as processes see them: which are connected, and messages when one comes or goes.

use crate::links::bonds::deliver_envelope;
use crate::mailbox::send;
use crate::process::context::Context;
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;
use crate::runtime::remote::peers::{Identity, Phase};
use crate::runtime::shared::RuntimeShared;

/// Message to a process that watches nodes: a node was connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUp {
    /// Node part of the pids of its processes.
    pub node: u32,
    /// Name and boot id of the node.
    pub identity: Identity,
}

/// Message to a process that watches nodes: the connection to a node was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDown {
    /// Node part of the pids of its processes.
    pub node: u32,
    /// Name and boot id of the node.
    pub identity: Identity,
}

impl Context {
    /// Sends this process a [`NodeUp`] and a [`NodeDown`] for each node that is connected and lost from now on, even if
    /// its mailbox is full. Returns the nodes that are connected now.
    pub fn watch_nodes(&self) -> Vec<NodeUp> {
        let runtime = self.runtime();
        let mut watchers = runtime.shared.peers.watchers.lock();
        // Without node events, this is what removes watchers that have ended.
        watchers.retain(|watcher| *watcher != self.pid() && runtime.is_alive(*watcher));
        watchers.push(self.pid());
        runtime.nodes()
    }

    /// Ends [`watch_nodes`](Self::watch_nodes). Messages that were sent before stay in the mailbox.
    pub fn unwatch_nodes(&self) {
        let runtime = self.runtime();
        runtime.shared.peers.watchers.lock().retain(|watcher| *watcher != self.pid());
    }
}

impl Handle {
    /// Returns the name and the boot id of this node; `None` if it is not attached to a network.
    pub fn node(&self) -> Option<Identity> {
        self.shared.peers.own().cloned()
    }

    /// Returns the connected nodes.
    pub fn nodes(&self) -> Vec<NodeUp> {
        let peers = self.shared.peers.all();
        let up = peers.iter().filter(|peer| peer.link.read().phase == Phase::Up);
        up.map(|peer| NodeUp { node: peer.index, identity: peer.identity.clone() }).collect()
    }

    /// Returns the node of a pid, connected or not; `None` for an unknown node. Pids of this node have its own name.
    pub fn node_of(&self, pid: Pid) -> Option<Identity> {
        if pid.node() == 0 { self.node() } else { self.shared.peers.get(pid.node()).map(|peer| peer.identity.clone()) }
    }

    /// Returns the node part of pids of the connected node with a name.
    pub fn node_named(&self, name: &str) -> Option<u32> {
        self.shared.peers.named(name).filter(|peer| peer.link.read().phase == Phase::Up).map(|peer| peer.index)
    }
}

impl RuntimeShared {
    /// Sends an event to all processes that watch nodes.
    pub(crate) fn tell_watchers<T: Send + 'static>(&self, event: impl Fn() -> T) {
        // Under the lock: a process that begins to watch gets each later event.
        let mut watchers = self.peers.watchers.lock();
        watchers.retain(|pid| {
            let Some(locked) = self.lock_process(*pid) else { return false };
            deliver_envelope(locked, send::envelope(self, self.local(), *pid, event()));
            true
        });
    }
}
