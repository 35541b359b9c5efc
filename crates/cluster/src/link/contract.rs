//! The trait of links.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::identity::NodeName;
use crate::wire::Lane;

/// The transport of one node to all others.
///
/// A link keeps the order of the packets of one lane to one peer. It may lose packets: the session notices. Only
/// [`Self::start`], [`Self::send`], [`Self::forget`] and [`Self::close`] may block, so they are called from threads that
/// may.
pub trait Link: Send + Sync {
    /// Returns the name of this node.
    fn name(&self) -> &NodeName;

    /// Begins to report peers and packets.
    ///
    /// # Errors
    /// [`LinkError`] if the link cannot listen.
    fn start(&self, events: Arc<dyn LinkEvents>) -> Result<(), LinkError>;

    /// Sends a packet. It is called by one thread at a time for each peer.
    ///
    /// # Errors
    /// [`LinkError`] if the packet was certainly not sent. Without an error it may still be lost.
    fn send(&self, to: &NodeName, lane: Lane, packet: Bytes) -> Result<(), LinkError>;

    /// Returns true if processes may call [`Self::send_at_once`] while little is under way to a peer: it then does not wait,
    /// and reports nothing meanwhile.
    fn sends_at_once(&self) -> bool {
        false
    }

    /// Sends a packet without waiting for more to send with it, in the order of [`Self::send`].
    ///
    /// # Errors
    /// [`LinkError`] as for [`Self::send`].
    fn send_at_once(&self, to: &NodeName, lane: Lane, packet: Bytes) -> Result<(), LinkError> {
        self.send(to, lane, packet)
    }

    /// Returns the peers that the link sees.
    fn peers(&self) -> Vec<NodeName>;

    /// Drops what the link keeps for a peer that has gone. Called from a thread that may block.
    fn forget(&self, _peer: &NodeName) {}

    /// Returns a description of the link, for observers.
    fn status(&self) -> LinkStatus;

    /// Closes the link, within this time.
    fn close(&self, deadline: Duration);
}

/// Receives the reports of a link, from its threads. The calls must not block.
pub trait LinkEvents: Send + Sync {
    /// The link sees a peer.
    fn up(&self, peer: NodeName);

    /// The link has lost a peer.
    fn down(&self, peer: &NodeName);

    /// Another node has the same name, and had it first: the link leaves the cluster. It comes back, and reports the
    /// peers again, when no other node has the name any more.
    fn name_taken(&self) {}

    /// A packet arrived.
    fn packet(&self, from: &NodeName, packet: Bytes);
}

/// Description of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Kind of the link, for example `zenoh quic`.
    pub kind: String,
    /// Addresses at which this node listens.
    pub endpoints: Vec<String>,
    /// True if packets are encrypted and both sides showed certificates.
    pub is_encrypted: bool,
}

/// Error returned by a link.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The settings of the link are not valid.
    #[error("{0}")]
    Settings(String),
    /// The link cannot listen.
    #[error("cannot listen at {endpoint}: {reason}")]
    Listen {
        /// Address.
        endpoint: String,
        /// Reason, as the transport says it.
        reason: String,
    },
    /// The program may open too few files.
    #[error("the link needs {needed} open files, and {free} are free: raise the limit of open files (ulimit -n)")]
    Files {
        /// Number of free file descriptors.
        free: u64,
        /// Number that it needs.
        needed: u64,
    },
    /// Another node has the name.
    #[error("a node named {0} is in the cluster already: choose another name")]
    NameTaken(NodeName),
    /// The link does not see the node.
    #[error("the node {0} is not connected")]
    NotConnected(NodeName),
    /// The transport failed.
    #[error("the transport failed: {0}")]
    Transport(String),
    /// The link is closed.
    #[error("the link is closed")]
    Closed,
}
