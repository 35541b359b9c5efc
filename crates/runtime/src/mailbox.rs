//! Messages between processes: values, mailboxes with bounds, sends that wait for room, and calls.
//!
//! ```text
//!   send ──▶ gate: inbox and scheduling state in one word ──▶ queue of the receiver ──▶ receive
//!     └─ full: the sender waits, or gets the message back
//! ```

pub(crate) mod backpressure;
pub(crate) mod budget;
pub(crate) mod call;
mod dropped;
pub(crate) mod gate;
pub(crate) mod introductions;
pub(crate) mod leftover;
pub(crate) mod message;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod send;
pub(crate) mod tagged;
pub(crate) mod timeout;
pub(crate) mod try_send;
pub(crate) mod unreceived;
