//! Processes of other nodes: their pids are used like those of local processes.
//!
//! ```text
//!   send, link, monitor, exit ─▶ table of processes: the pid is of another node ─▶ outbound ─▶ Network ─▶ other node
//!   mailbox, links, monitors ◀── inbound ◀── frames in order, from one thread for each node ◀────────────┘
//! ```
//!
//! Operations on local processes find the slot of the pid and never get here. Messages are encoded by the [`Exports`]
//! of the runtime. A lost connection ends each link and each monitor with exactly one `noconnection`.

pub(crate) mod ask;
mod child;
pub(crate) mod codec;
pub(crate) mod connection;
pub(crate) mod exports;
pub(crate) mod frame;
pub(crate) mod inbound;
pub(crate) mod limits;
pub(crate) mod network;
pub(crate) mod nodes;
pub(crate) mod outbound;
mod outside;
pub(crate) mod peers;
pub(crate) mod report;

pub use ask::AskError;
pub use codec::{Decoder, Encoder, Portable};
pub use exports::Exports;
pub use nodes::{NodeDown, NodeUp};
pub use peers::Identity;
