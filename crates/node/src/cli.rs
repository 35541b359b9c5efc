//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod cluster;
mod common;
pub(crate) mod loadtest;
mod new;
pub(crate) mod ops;
mod serve;
pub(crate) mod shell;
pub(crate) mod store;
pub(crate) mod usage;

use bench::BenchCommand;
use cluster::{ClusterCommand, ClusterFlags};
pub(crate) use common::{CommonFlags, ShareFlags};
use loadtest::LoadFlags;
pub(crate) use new::{BuildFlags, Language, NewFlags};
use ops::OpsCommand;
pub(crate) use serve::ServeFlags;
use shell::ShellName;
use store::StoreCommand;

/// A node of lightweight processes that can be watched while it runs.
///
/// Without a command: starts a node in this terminal, with the observer attached to it.
#[derive(Debug, Parser)]
#[command(name = "rusm", version, about, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) node: NodeFlags,
}

impl Cli {
    /// Returns true if these arguments start a service, which some signals do not end.
    pub(crate) fn is_service(mut arguments: impl Iterator<Item = OsString>) -> bool {
        let is_command =
            arguments.next().is_some_and(|first| ["node", "run", "serve"].iter().any(|name| first == *name));
        is_command && arguments.take_while(|argument| argument != "--").all(|argument| argument != "--top")
    }

    /// Returns whether the command starts the threads of a node, or those that compile guests.
    pub(crate) fn starts_threads(&self) -> bool {
        let command = self.command.as_ref();
        command.is_none_or(|command| match command {
            Command::Node(_) | Command::Run(_) | Command::Serve(_) | Command::Loadtest(_) | Command::Check { .. } => {
                true
            }
            Command::Bench(command) => command.starts_threads(),
            // The doctor reports it as one of its checks.
            Command::Doctor { .. }
            | Command::New(_)
            | Command::Build(_)
            | Command::Store(_)
            | Command::Cluster(_)
            | Command::Ops(_)
            | Command::Completions { .. }
            | Command::Man { .. } => false,
        })
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a node without a screen until SIGTERM or ctrl-c, then drains it.
    Node(Box<NodeFlags>),
    /// Runs WebAssembly guests under a supervisor, visible to observers.
    ///
    /// The log and the output of the guests go to stderr. On SIGTERM or ctrl-c the guests are stopped in reverse order
    /// of their start.
    ///
    /// Exit code: 0 if all guests ended normally, 1 if a guest was given up or a temporary guest failed. After a
    /// signal: 0, or with --top 128 plus its number.
    Run(Box<RunFlags>),
    /// Answers HTTP requests with a component of `wasi:http` or with the files of a folder.
    ///
    /// Each connection and each request is a process, visible to observers. On SIGTERM or ctrl-c, `/readyz` turns off, no
    /// connection is accepted any more, and requests in flight end.
    ///
    /// Exit code: 0 after a signal, 1 if the address cannot be used, 2 if the component or a setting is wrong.
    Serve(Box<ServeFlags>),
    /// Creates a project: a guest, or a component that answers HTTP requests.
    New(NewFlags),
    /// Builds the component of a project, with cargo, npm or make.
    Build(BuildFlags),
    /// Runs benchmark scenarios.
    #[command(subcommand, arg_required_else_help = false)]
    Bench(BenchCommand),
    /// Puts load on a server from outside.
    ///
    /// Latency is measured from the time at which a request was due. A stall of the server therefore counts for every
    /// request that was due meanwhile.
    ///
    /// Exit code: 0 on success, 3 if the server cannot be reached, 5 if no request was answered or no rate is within
    /// the limits, 6 if the figures should not be compared.
    Loadtest(Box<LoadFlags>),
    /// Checks, repairs or exports the file of a store that no node has open.
    #[command(subcommand, arg_required_else_help = false)]
    Store(StoreCommand),
    /// Creates the certificates of a cluster, or asks a node that has joined others.
    #[command(subcommand, arg_required_else_help = false)]
    Cluster(ClusterCommand),
    /// Checks what limits a node on this machine, and what disturbs measurements.
    Doctor {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Checks a configuration, and the files that it names, without starting a node.
    Check {
        /// The configuration.
        #[arg(default_value = "rusm.toml")]
        file: PathBuf,
    },
    /// Prints files for operating a node: a systemd unit, a container, a Grafana dashboard, completions, a manual.
    #[command(subcommand, arg_required_else_help = false)]
    Ops(OpsCommand),
    /// Prints the completions of a shell.
    Completions {
        /// The shell.
        shell: ShellName,
    },
    /// Prints the manual page, or the one of a command such as `bench run`.
    Man {
        /// The command.
        command: Vec<String>,
    },
}

/// Settings of a node.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NodeFlags {
    #[command(flatten)]
    pub(crate) observed: ObservedFlags,
    #[command(flatten)]
    share: ShareFlags,
    #[command(flatten)]
    pub(crate) common: CommonFlags,
}

/// Settings of a node with observers.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ObservedFlags {
    /// Name of the node and of its socket [default: rusm, or the name of the module that is run].
    #[arg(long)]
    name: Option<String>,
    /// Also listens on loopback TCP, with a token in a file [default: off; without an address: 127.0.0.1:4000].
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:4000")]
    listen: Option<String>,
    /// Permissions of observers, whatever their token: control or observe [default: control].
    #[arg(long, value_name = "ROLE")]
    observers: Option<String>,
    /// Samples per second for observers, 10-60 [default: 20].
    #[arg(long, value_name = "HZ")]
    tick_hz: Option<String>,
    /// Seconds to wait for processes to end when the node stops [default: 10].
    #[arg(long, value_name = "SECONDS")]
    drain: Option<String>,
    /// Time that is kept of the past for observers, such as 15m; 0 turns the recorder off [default: 15m].
    #[arg(long, value_name = "TIME")]
    recorder_span: Option<String>,
    /// Memory that the past may take, such as 32MiB [default: 32MiB].
    #[arg(long, value_name = "SIZE")]
    recorder_memory_bytes: Option<String>,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    lints: LintFlags,
}

/// Heading of the lint flags in the help.
const LINTS: &str = "Lints, each warn or allow [default: warn]";

/// Levels of the lints that observers are warned of.
#[derive(Clone, Debug, Default, Args)]
struct LintFlags {
    /// A poll that does not return.
    #[arg(long = "lint-stuck", value_name = "LEVEL", help_heading = LINTS)]
    stuck: Option<String>,
    /// A process with long polls that never waits.
    #[arg(long = "lint-never-yields", value_name = "LEVEL", help_heading = LINTS)]
    never_yields: Option<String>,
    /// Children that are restarted again and again.
    #[arg(long = "lint-restart-storm", value_name = "LEVEL", help_heading = LINTS)]
    restart_storm: Option<String>,
    /// Messages that arrive faster than they are received.
    #[arg(long = "lint-mailbox-growing", value_name = "LEVEL", help_heading = LINTS)]
    mailbox_growing: Option<String>,
    /// A process that does not receive what is in its mailbox.
    #[arg(long = "lint-unreceived", value_name = "LEVEL", help_heading = LINTS)]
    unreceived: Option<String>,
    /// A circle of processes that wait for each other.
    #[arg(long = "lint-wait-cycle", value_name = "LEVEL", help_heading = LINTS)]
    wait_cycle: Option<String>,
    /// A scheduler that sleeps while processes wait to run.
    #[arg(long = "lint-idle-scheduler", value_name = "LEVEL", help_heading = LINTS)]
    idle_scheduler: Option<String>,
    /// A process that never waits and receives nothing.
    #[arg(long = "lint-busy-loop", value_name = "LEVEL", help_heading = LINTS)]
    busy_loop: Option<String>,
    /// A reader that holds up others or loses items.
    #[arg(long = "lint-slow-subscriber", value_name = "LEVEL", help_heading = LINTS)]
    slow_subscriber: Option<String>,
    /// A limited resource that is almost used up.
    #[arg(long = "lint-pool-nearly-full", value_name = "LEVEL", help_heading = LINTS)]
    pool_nearly_full: Option<String>,
    /// Memory that grows without a pause.
    #[arg(long = "lint-memory-slope", value_name = "LEVEL", help_heading = LINTS)]
    memory_slope: Option<String>,
    /// A process that uses most of a scheduler while others wait.
    #[arg(long = "lint-hog", value_name = "LEVEL", help_heading = LINTS)]
    hog: Option<String>,
}

impl NodeFlags {
    /// Returns the flags that were given, by the key that they set.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self {
            observed:
                ObservedFlags {
                    name,
                    listen,
                    observers,
                    tick_hz,
                    drain,
                    recorder_span,
                    recorder_memory_bytes,
                    cluster,
                    lints,
                },
            share,
            common,
        } = self;
        [
            ("node.name", name),
            ("node.listen", listen),
            ("node.observers", observers),
            ("node.schedulers", &common.schedulers),
            ("node.process_limit", &common.process_limit),
            ("node.mailbox_capacity", &common.mailbox_capacity),
            ("node.mailbox_bytes", &common.mailbox_bytes),
            ("node.mailbox_total_bytes", &common.mailbox_total_bytes),
            ("node.tick_hz", tick_hz),
            ("node.profile", &share.profile),
            ("node.drain", drain),
            ("recorder.span", recorder_span),
            ("recorder.memory_bytes", recorder_memory_bytes),
            ("cluster.enabled", &cluster.cluster),
            ("cluster.join", &cluster.join),
            ("cluster.listen", &cluster.cluster_listen),
            ("cluster.certificates", &cluster.cluster_certificates),
            ("lint.stuck", &lints.stuck),
            ("lint.never_yields", &lints.never_yields),
            ("lint.restart_storm", &lints.restart_storm),
            ("lint.mailbox_growing", &lints.mailbox_growing),
            ("lint.unreceived", &lints.unreceived),
            ("lint.wait_cycle", &lints.wait_cycle),
            ("lint.idle_scheduler", &lints.idle_scheduler),
            ("lint.busy_loop", &lints.busy_loop),
            ("lint.slow_subscriber", &lints.slow_subscriber),
            ("lint.pool_nearly_full", &lints.pool_nearly_full),
            ("lint.memory_slope", &lints.memory_slope),
            ("lint.hog", &lints.hog),
            ("log.level", &common.log),
            ("log.file", &common.log_file),
            ("log.format", &common.log_format),
        ]
        .into_iter()
        .filter_map(|(key, value)| value.as_deref().map(|value| (key, value)))
    }
}

impl From<&ServeFlags> for ObservedFlags {
    fn from(flags: &ServeFlags) -> Self {
        Self { name: flags.name.clone(), drain: flags.drain.clone(), ..Self::default() }
    }
}

impl From<(ShareFlags, CommonFlags)> for NodeFlags {
    fn from((share, common): (ShareFlags, CommonFlags)) -> Self {
        Self { share, common, ..Self::default() }
    }
}

impl From<(ObservedFlags, CommonFlags)> for NodeFlags {
    fn from((observed, common): (ObservedFlags, CommonFlags)) -> Self {
        Self { observed, common, ..Self::default() }
    }
}

/// Settings of a guest that is given on the command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct GuestFlags {
    /// Capabilities of the guest: sandboxed, network, trusted, or a profile of the configuration [default: sandboxed].
    #[arg(long, value_name = "PROFILE", help_heading = GUEST)]
    profile: Option<String>,
    /// Number of guests to start [default: 1].
    #[arg(long, value_name = "N", help_heading = GUEST)]
    count: Option<String>,
    /// Restart policy: permanent, transient or temporary [default: transient].
    #[arg(long, value_name = "WHEN", help_heading = GUEST)]
    restart: Option<String>,
    /// Time to stop before it is killed, or `brutal_kill` or `infinity` [default: 5s].
    #[arg(long, value_name = "HOW", help_heading = GUEST)]
    shutdown: Option<String>,
    /// Maximum memory, such as 64MiB [default: the limit of the engine].
    #[arg(long, value_name = "SIZE", help_heading = GUEST)]
    memory_max: Option<String>,
    /// Maximum number of elements in one of its tables [default: the limit of the engine].
    #[arg(long, value_name = "N", help_heading = GUEST)]
    table_max_elements: Option<String>,
    /// Maximum number of instances, memories and tables that it consists of [default: the limit of the engine].
    #[arg(long, value_name = "N", help_heading = GUEST)]
    parts_max: Option<String>,
    /// Maximum size of a message that it sends, such as 64KiB [default: the limit of the engine].
    #[arg(long, value_name = "SIZE", help_heading = GUEST)]
    message_max: Option<String>,
    /// Maximum share of one scheduler, in percent [default: 100].
    #[arg(long, value_name = "PERCENT", help_heading = GUEST)]
    cpu_max: Option<String>,
    /// Maximum size of its sent messages that are not received yet, such as 1MiB [default: the limit of the engine].
    #[arg(long, value_name = "SIZE", help_heading = GUEST)]
    sent_max: Option<String>,
    /// Maximum number of messages in its mailbox [default: the value of --mailbox-capacity].
    #[arg(long = "guest-mailbox-capacity", value_name = "N", help_heading = GUEST)]
    guest_mailbox_capacity: Option<String>,
    /// Name under which other processes find it.
    #[arg(long, value_name = "NAME", help_heading = GUEST)]
    register: Option<String>,
}

/// Heading of the guest flags in the help.
const GUEST: &str = "Guest options, if FILE is a module";

impl GuestFlags {
    /// Returns the flags that were given: the key that each one sets, the flag, and its value.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
        [
            ("process.profile", "--profile", &self.profile),
            ("process.count", "--count", &self.count),
            ("process.restart", "--restart", &self.restart),
            ("process.shutdown", "--shutdown", &self.shutdown),
            ("process.memory_max", "--memory-max", &self.memory_max),
            ("process.table_max_elements", "--table-max-elements", &self.table_max_elements),
            ("process.parts_max", "--parts-max", &self.parts_max),
            ("process.message_max", "--message-max", &self.message_max),
            ("process.cpu_max", "--cpu-max", &self.cpu_max),
            ("process.sent_max", "--sent-max", &self.sent_max),
            ("process.mailbox_capacity", "--guest-mailbox-capacity", &self.guest_mailbox_capacity),
            ("process.register", "--register", &self.register),
        ]
        .into_iter()
        .filter_map(|(key, flag, value)| value.as_deref().map(|value| (key, flag, value)))
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunFlags {
    /// A module or component (.wasm or .wat), or a configuration (.toml) with `[[process]]` entries [default:
    /// rusm.toml].
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Arguments of the guest; put them after -- if the first one begins with a dash.
    #[arg(trailing_var_arg = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
    /// Opens the observer in this terminal.
    #[arg(long)]
    pub(crate) top: bool,
    /// Restarts guests when the file of their module changes.
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) guest: GuestFlags,
    #[command(flatten)]
    pub(crate) observed: ObservedFlags,
    #[command(flatten)]
    pub(crate) common: CommonFlags,
}
