//! A node: a runtime whose processes reach those of other nodes through sessions.
//!
//! ```text
//!   process ─▶ runtime ─▶ Network ─▶ Session of the peer ─▶ sender thread ─▶ Link ─▶ other node
//!   process ◀─ runtime ◀─ events, one thread at a time ◀── Session ◀── threads of the link ◀──┘
//! ```
//!
//! Each peer has one [`Session`](crate::Session) under a lock, for as long as the node lives, and one thread that gives
//! packets to the link. The calls of the runtime only queue; the calls of the link never wait.

mod connection;
mod environment;
mod keyed;
mod log_budget;
mod member;
mod names;
mod status;
#[cfg(test)]
mod tests;
mod topics;
mod vitals;

pub use keyed::{Deactivate, Entity, KEY_BYTES_MAX, KeyCount, Keyed, KeyedConfig, KeyedError, STATE_BYTES_MAX};
pub use member::{Node, NodeError};
pub use names::{NameChange, NameOwner, Names, Ownership, RegisterNameError};
pub use status::PeerStatus;
pub use topics::{ORIGIN, ShareConfig, ShareError, SharedAccount, SharedTopic};
