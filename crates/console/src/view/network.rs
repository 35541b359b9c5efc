//! Views of what the node has to do with others: its HTTP servers, and the other nodes of its cluster.

pub(crate) mod cluster;
pub(crate) mod serve;
