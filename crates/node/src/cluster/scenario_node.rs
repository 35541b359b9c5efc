//! `rusm bench cluster-node`: a node of a scenario, which the scenario starts and ends.

use rusm_bench::{ClusterNodeArgs, MemberSettings, serve_cluster_node};

use crate::cli::bench::ClusterNodeFlags;
use crate::failure::{Failure, system};

/// Runs the node until the scenario ends it.
pub(crate) fn serve_node_of_scenario(flags: ClusterNodeFlags) -> Result<u8, Failure> {
    let ClusterNodeFlags { name, join, schedulers, ping, serves_keys, secret } = flags;
    let args = ClusterNodeArgs { member: MemberSettings { name, join, schedulers, serves_keys, secret }, ping };
    serve_cluster_node(&args).map_err(system("run a node of a scenario"))?;
    Ok(0)
}
