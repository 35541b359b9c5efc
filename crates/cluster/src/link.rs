//! The transport between nodes: a trait, and its implementations.

mod contract;
mod memory;

pub use contract::{Link, LinkError, LinkEvents, LinkStatus};
pub use memory::{MemoryLink, MemoryNetwork};
