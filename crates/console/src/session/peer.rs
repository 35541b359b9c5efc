//! The client of a connection.

use rusm_protocol::Role;

/// The client of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The TCP address, or the user and the operating system process.
    pub(crate) name: String,
    /// Its permissions.
    pub(crate) role: Role,
}
