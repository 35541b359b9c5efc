//! Nodes that join: the guarantees of Erlang between machines.
//!
//! ```text
//!   runtime ◀──▶ node ──▶ Session, one for each peer ──▶ packets ──▶ Link ──▶ other nodes
//!                             ▲                                        │
//!                             └──────── packets, peers up and down ◀───┘
//! ```
//!
//! A [`Session`] is a state machine without a clock, a socket or a thread. It turns a link that may lose packets into
//! an ordered stream of messages, and reports every loss: each session that came up goes down exactly once, and
//! nothing of an earlier session is delivered later. A [`Link`] carries packets between nodes.
//!
//! `docs/cluster-wire.md` lists the bytes of every packet.

#[cfg(feature = "certificates")]
pub mod certificates;
pub mod identity;
pub mod link;
pub mod names;
pub mod node;
pub mod placement;
pub mod session;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
pub mod wire;

pub use identity::{Address, BootId, Epoch, Identity, NodeName};
#[cfg(feature = "zenoh")]
pub use link::NetworkLink;
pub use link::{Certificates, NetworkSettings};
pub use link::{Link, LinkError, LinkEvents, LinkStatus, MemoryLink, MemoryNetwork};
pub use session::{
    Busy, Config, DownReason, Event, Incoming, LinkChange, Outgoing, PeerInfo, RefusedReason, SendError,
    SendErrorReason, Session, State, Stats, Transmit,
};
pub use wire::{Features, Kind, Lane, Version};
