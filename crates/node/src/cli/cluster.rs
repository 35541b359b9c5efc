//! The flags of a node that joins others, and the commands of `rusm cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Heading of these flags in the help.
const CLUSTER: &str = "Cluster";

/// How a node joins others.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterFlags {
    /// Joins other nodes, or waits for them [default: off, or on with --join].
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = CLUSTER)]
    pub(super) cluster: Option<String>,
    /// Nodes to join, with commas between them; one that is reachable is enough.
    #[arg(long, value_name = "HOST[:PORT]", help_heading = CLUSTER)]
    pub(super) join: Option<String>,
    /// Address at which other nodes connect [default: 127.0.0.1:7447].
    #[arg(long, value_name = "ADDRESS", help_heading = CLUSTER)]
    pub(super) cluster_listen: Option<String>,
    /// Folder with the certificates of `rusm cluster init`; without it, nodes stay on this machine.
    #[arg(long, value_name = "DIR", help_heading = CLUSTER)]
    pub(super) cluster_certificates: Option<String>,
}

/// A command about a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Creates the certificates of nodes, and of the authority if the folder has none.
    ///
    /// Copy `ca.pem`, `NAME.pem` and `NAME.key` to the machine of each node. Keep `ca.key` to add nodes later.
    ///
    /// Exit code: 0 if all files were written, 1 if one cannot be written, 2 if one of them exists.
    Init {
        /// A node, with the addresses at which others reach it; repeat it for each node.
        #[arg(long = "node", value_name = "NAME=ADDRESS[,ADDRESS]", required = true)]
        nodes: Vec<String>,
        /// Folder for the files.
        #[arg(long, value_name = "DIR", default_value = "cluster")]
        dir: PathBuf,
        /// Name of the cluster, which all of its certificates have.
        #[arg(long, value_name = "NAME", default_value = "rusm")]
        cluster: String,
        /// Number of days for which the certificates are valid.
        #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: u32,
    },
    /// Prints the connections of a node on this machine to all others.
    Status {
        #[command(flatten)]
        node: NodeFlag,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tells a node to start no more processes for other nodes.
    Drain {
        #[command(flatten)]
        node: NodeFlag,
    },
    /// Tells a node to leave: what its processes have sent arrives, then its connections are closed.
    Leave {
        #[command(flatten)]
        node: NodeFlag,
    },
}

/// The node that is asked.
#[derive(Debug, Args)]
pub(crate) struct NodeFlag {
    /// Name of the node.
    #[arg(long, value_name = "NAME", default_value = "rusm")]
    pub(crate) name: String,
    /// Folder of its socket [default: that of observers].
    #[arg(long, value_name = "DIR", env = "RUSM_SOCKET_DIR")]
    pub(crate) socket_dir: Option<PathBuf>,
}
