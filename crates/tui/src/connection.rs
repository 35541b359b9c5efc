//! The connection to a node: discovery, the WebSocket, reconnecting, and sanitising everything that the node sends.
//!
//! ```text
//!   target ──▶ endpoint ──▶ dial ──▶ serve ──▶ sanitise ──▶ inbox ──▶ Msg
//!                            ▲         │ lost
//!                            └─ back-off, 0.25 s doubling to 1 s, over a network to 4 s
//! ```

mod dial;
mod discovery;
mod inbox;
pub(crate) mod picker;
mod reconnect;
pub(crate) mod sanitise;
pub(crate) mod sibling;
mod target;
pub(crate) mod tunnel;

pub use discovery::Discovery;
pub use target::{SshTarget, Target, TargetError};

pub(crate) use dial::{Dialer, Dialled, Socket};
pub(crate) use inbox::Inbox;
pub(crate) use reconnect::{ConnectionHandle, maintain};

#[cfg(test)]
mod tests;
