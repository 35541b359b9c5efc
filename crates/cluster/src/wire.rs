//! The bytes between two nodes, all integers in little-endian order. `docs/cluster-wire.md` has the tables.
//!
//! ```text
//!   packet = type, rest          control lane: HELLO, HELLO_ACK, ACK, PING, PONG       in any order, may be lost
//!                                stream lane:  STREAM { tag, number of the first frame, frames }    in order
//!   frame  = type, length, body  DATA, FIRST and NEXT (chunks of a long message), CREDIT, BYE
//! ```
//!
//! Decoding allocates nothing for a length that a packet only announces.

pub mod control;
pub(crate) mod cursor;
pub mod hello;
mod kind;
pub mod limits;
mod packet;
mod packet_type;
pub mod stream;
mod version;

pub use control::{Ack, Ping, Pong};
pub use cursor::WireError;
pub use hello::{Hello, HelloAck};
pub use kind::Kind;
pub use packet::Packet;
pub use stream::{Frame, Frames, Stream};
pub use version::{Features, Lane, Version};
