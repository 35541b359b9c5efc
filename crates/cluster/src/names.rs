//! Names that are unique in the cluster, as a state machine of each node.
//!
//! ```text
//!   register ──▶ CLAIM to all nodes ──▶ a majority grants ──▶ owned, with a fencing epoch
//!                                             │ grants expire without a proof that their node is there
//!                                             ▼
//!                                       suspended ──▶ granted again: resumed; owned by another process: lost
//! ```
//!
//! Invariant: at any moment, at most one process in the cluster owns a name. Each node grants a name to one process
//! at a time. A grant is a lease: the owner counts it only until [`NamesConfig::patience`] after the last PING that
//! its node answered, and the granting node keeps it for [`NamesConfig::hold`], which is longer, after it has lost the
//! owner. Two majorities have a node in common, so two processes never have one each.
//!
//! A node that sees less than half of the cluster answers lookups with an error.

mod counts;
mod directory;
mod event;
mod grants;
mod message;
mod own;
mod registry;
#[cfg(test)]
mod tests;

pub use event::{
    Minority, NAME_BYTES_MAX, NAMES_OF_NODE_MAX, NameEvent, NamesConfig, Owner, RegisterError, RegisterRefused,
};
pub use registry::{ListedName, Registry};
