//! What the simulated node has to do with others: HTTP servers, and a cluster.

pub(crate) mod cluster;
pub(crate) mod serve;
