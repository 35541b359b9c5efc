//! The first byte of a packet.

pub(super) const HELLO: u8 = 1;
pub(super) const HELLO_ACK: u8 = 2;
pub(super) const ACK: u8 = 3;
pub(super) const PING: u8 = 4;
pub(super) const PONG: u8 = 5;
pub(super) const STREAM: u8 = 16;
