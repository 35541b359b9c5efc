//! Network of the simulated node: HTTP servers, and a cluster.

pub(crate) mod cluster;
pub(crate) mod serve;
