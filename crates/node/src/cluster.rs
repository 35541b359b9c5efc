//! `rusm cluster`, and nodes that join others.
//!
//! ```text
//!   rusm node --cluster ──▶ join.rs: link + rusm_cluster::node::Node ──▶ control.rs: a socket for status, drain, leave
//!   rusm cluster init ──▶ certificates          rusm cluster status, drain, leave ──▶ the socket of a node
//! ```
//!
//! All of it needs the cargo feature `cluster`: the network takes minutes to compile.

#[cfg(feature = "cluster")]
mod commands;
#[cfg(feature = "cluster")]
mod control;
#[cfg(feature = "cluster")]
mod join;
#[cfg(feature = "cluster")]
mod observers;
#[cfg(feature = "cluster")]
mod private_socket;
#[cfg(feature = "cluster")]
mod scenario_node;
#[cfg(feature = "cluster")]
pub(crate) use commands::run;
#[cfg(feature = "cluster")]
pub(crate) use join::{Joined, check, join};
#[cfg(feature = "cluster")]
pub(crate) use observers::Observed;
#[cfg(feature = "cluster")]
pub(crate) use scenario_node::serve_node_of_scenario;

#[cfg(not(feature = "cluster"))]
mod absent {
    //! Without the feature `cluster`, the commands say how to build it.

    use std::path::Path;

    use rusm_runtime::Handle;
    use rusm_runtime::remote::Exports;

    use crate::cli::bench::ClusterNodeFlags;
    use crate::cli::cluster::ClusterCommand;
    use crate::failure::Failure;
    use crate::settings::cluster::ClusterSettings;

    const NOT_BUILT: &str = "this rusm is built without the cluster: build it with \
                             `cargo build --release -p rusm-node --features cluster`";

    /// A node that has joined others; none exists without the feature.
    #[derive(Debug)]
    pub(crate) enum Joined {}

    pub(crate) fn join(_: &Handle, _: &str, _: &Path, settings: &ClusterSettings) -> Result<Joined, Failure> {
        let ClusterSettings { listen, join, name, certificates } = settings;
        tracing::debug!(%listen, ?join, name, ?certificates, "the settings of the cluster are valid");
        Err(Failure::Usage(NOT_BUILT.to_owned()))
    }

    pub(crate) fn check(_: &str, _: &ClusterSettings) -> Result<(), Failure> {
        Err(Failure::Usage(NOT_BUILT.to_owned()))
    }

    /// The observers' socket of this node, for other nodes.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Observed(());

    impl Observed {
        #[expect(clippy::unused_self, reason = "the same calls with and without the feature")]
        pub(crate) fn export(&self, exports: Exports) -> Exports {
            exports
        }

        #[expect(clippy::unused_self, reason = "the same calls with and without the feature")]
        pub(crate) fn set(&self, _: &Path) {}
    }

    pub(crate) fn run(_: ClusterCommand) -> Result<u8, Failure> {
        Err(Failure::Usage(NOT_BUILT.to_owned()))
    }

    pub(crate) fn serve_node_of_scenario(flags: ClusterNodeFlags) -> Result<u8, Failure> {
        let ClusterNodeFlags { name, join, schedulers, ping, serves_keys, secret } = flags;
        tracing::debug!(name, ?join, schedulers, ?ping, serves_keys, ?secret, "a scenario has started this program");
        Err(Failure::Usage(NOT_BUILT.to_owned()))
    }
}

#[cfg(not(feature = "cluster"))]
pub(crate) use absent::{Joined, Observed, check, join, run, serve_node_of_scenario};
