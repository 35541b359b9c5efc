//! The session between this node and one other: a pure state machine. The caller gives it the time, the packets of the
//! link and the messages of processes, and takes packets and events from it.
//!
//! ```text
//!                    link up          HELLO_ACK, or a packet of a proposed session
//!   no link ───────▶ connecting ─────────────────────────────────────────────────▶ up
//!                        ▲      epoch + 1, exactly one Down for each Up              │
//!                        └───────── gap, no progress, link lost, other life ◀───────┘
//! ```
//!
//! Invariant: what is delivered in a session is a prefix of what the other node sent in the same session, for each pair
//! of processes. The rest is lost together with the session.

mod backoff;
mod config;
mod established;
mod event;
mod fault;
mod inbound;
mod lanes;
mod liveness;
mod machine;
mod outbound;
mod proposals;
mod stats;
mod targets;

pub use config::Config;
pub use event::{
    Busy, DownReason, Event, Incoming, LinkChange, Outgoing, PeerInfo, RefusedReason, SendError, SendErrorReason,
    Transmit,
};
pub use fault::Fault;
pub use machine::Session;
pub use stats::{State, Stats, Totals};
