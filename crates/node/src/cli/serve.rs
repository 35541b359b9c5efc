//! Flags of `rusm serve`.

use std::path::PathBuf;

use clap::Args;

use super::common::CommonFlags;

/// Heading of the flags of a component in the help.
const COMPONENT: &str = "Component options, if TARGET is a component";

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeFlags {
    /// A component of `wasi:http` (.wasm or .wat), a folder of files, or a configuration (.toml) with `[[serve]]` entries
    /// [default: rusm.toml].
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<PathBuf>,
    /// Address to answer requests on; a port alone is one of this machine [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Certificate chain in PEM format, for HTTPS [default: none].
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<String>,
    /// Private key in PEM format.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<String>,
    /// Puts changed modules into use; requests in flight end with the old one.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Capabilities of the component: sandboxed, network, trusted, or a profile of the configuration [default: sandboxed].
    #[arg(long, value_name = "PROFILE", help_heading = COMPONENT)]
    profile: Option<String>,
    /// Maximum memory of an instance, such as 64MiB [default: the limit of the engine].
    #[arg(long, value_name = "SIZE", help_heading = COMPONENT)]
    memory_max: Option<String>,
    /// Maximum share of one scheduler for an instance, in percent [default: 100].
    #[arg(long, value_name = "PERCENT", help_heading = COMPONENT)]
    cpu_max: Option<String>,
    /// Requests that share an instance: request (none), connection, or the number of instances to keep for the next
    /// requests [default: request].
    #[arg(long, value_name = "REUSE", help_heading = COMPONENT)]
    instances: Option<String>,
    /// Name of the node and of its socket [default: the name of the component or folder; rusm with a configuration].
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Seconds to wait for requests to end when the node stops [default: 10].
    #[arg(long, value_name = "SECONDS")]
    pub(super) drain: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonFlags,
}

/// A setting on the command line: its key, its flag and its value.
type Given<'a> = (&'static str, &'static str, &'a str);

impl ServeFlags {
    /// Returns the flags of the server that were given.
    pub(crate) fn of_site(&self) -> Vec<Given<'_>> {
        given([
            ("serve.listen", "--listen", &self.listen),
            ("serve.certificate", "--certificate", &self.certificate),
            ("serve.key", "--key", &self.key),
        ])
    }

    /// Returns the flags of the component that were given.
    pub(crate) fn of_route(&self) -> Vec<Given<'_>> {
        given([
            ("serve.route.profile", "--profile", &self.profile),
            ("serve.route.instances", "--instances", &self.instances),
            ("serve.route.memory_max", "--memory-max", &self.memory_max),
            ("serve.route.cpu_max", "--cpu-max", &self.cpu_max),
        ])
    }
}

fn given<'a, const N: usize>(flags: [(&'static str, &'static str, &'a Option<String>); N]) -> Vec<Given<'a>> {
    flags.into_iter().filter_map(|(key, flag, value)| value.as_deref().map(|value| (key, flag, value))).collect()
}
