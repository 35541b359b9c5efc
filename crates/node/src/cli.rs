//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) mod bench;
pub(crate) mod loadtest;
pub(crate) mod store;

use bench::BenchCommand;
use loadtest::LoadFlags;
use store::StoreCommand;

/// A node of processes that can be watched.
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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a node without a screen until SIGTERM or ctrl-c, then drains it.
    Node(Box<NodeFlags>),
    /// Runs WebAssembly guests under a supervisor, so that they can be watched.
    ///
    /// The log, and what guests print, goes to stderr. Ends with 0 when all guests have ended well, with 1 when one is given
    /// up, and on SIGTERM or ctrl-c after the guests were stopped in reverse order of their start.
    Run(Box<RunFlags>),
    /// Runs benchmark scenarios.
    #[command(subcommand, arg_required_else_help = false)]
    Bench(BenchCommand),
    /// Loads a server from outside.
    ///
    /// Latency counts from when a request was meant to begin, so a server that stalls is charged for all that came meanwhile.
    /// Ends with 0, with 3 when the server cannot be reached, with 5 when nothing was answered or no rate keeps the promise, and
    /// with 6 when the figures should not be compared.
    Loadtest(Box<LoadFlags>),
    /// Checks, repairs or exports the file of a store that no node has open.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Looks at this machine: what limits a node here, and what disturbs a measurement.
    Doctor {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Settings of a runtime; environment and file can set them too.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommonFlags {
    /// Reads this file instead of ./rusm.toml.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Scheduler threads [default: one for each core].
    #[arg(long, value_name = "N")]
    pub(crate) schedulers: Option<String>,
    /// Processes that may live at once [default: 16000000].
    #[arg(long, value_name = "N")]
    pub(crate) process_limit: Option<String>,
    /// Messages that a mailbox holds [default: 1024].
    #[arg(long, value_name = "N")]
    pub(crate) mailbox_capacity: Option<String>,
    /// Bytes that the messages of one mailbox keep on the heap [default: 64MiB].
    #[arg(long, value_name = "SIZE")]
    pub(crate) mailbox_bytes: Option<String>,
    /// Bytes that the messages in all mailboxes may keep on the heap [default: a quarter of the memory].
    #[arg(long, value_name = "SIZE")]
    pub(crate) mailbox_total_bytes: Option<String>,
    /// error, warn, info, debug, trace, or a filter such as `rusm_runtime=debug` [default: info].
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Writes the log to this file instead of stderr.
    #[arg(long, value_name = "FILE")]
    log_file: Option<String>,
    /// text or json [default: text].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl CommonFlags {
    /// Returns the given flags about the runtime as arguments for another `rusm` program, except for the number of
    /// schedulers, which recipes contain.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let numbers = [("--process-limit", &self.process_limit), ("--mailbox-capacity", &self.mailbox_capacity)];
        let numbers = numbers.into_iter().filter_map(|(flag, value)| Some((flag, OsString::from(value.as_ref()?))));
        let config = self.config.as_ref().map(|path| ("--config", path.clone().into_os_string()));
        config.into_iter().chain(numbers).flat_map(|(flag, value)| [OsString::from(flag), value]).collect()
    }
}

/// The share of the machine that scenarios may use.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShareFlags {
    /// How much of the machine scenarios use: light, balanced or max [default: balanced].
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
}

impl ShareFlags {
    /// Returns true if the flag was given.
    pub(crate) const fn is_given(&self) -> bool {
        self.profile.is_some()
    }
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
    /// The node's name, and its socket's [default: rusm, or that of the module that is run].
    #[arg(long)]
    name: Option<String>,
    /// Also listens on loopback TCP, with a token in a file [default: no; port 4000].
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:4000")]
    listen: Option<String>,
    /// Samples a second for observers, 10-60 [default: 20].
    #[arg(long, value_name = "HZ")]
    tick_hz: Option<String>,
    /// Seconds that processes get to end when the node stops [default: 10].
    #[arg(long, value_name = "SECONDS")]
    drain: Option<String>,
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
    /// A process that never waits and takes long each time.
    #[arg(long = "lint-never-yields", value_name = "LEVEL", help_heading = LINTS)]
    never_yields: Option<String>,
    /// Children that are restarted again and again.
    #[arg(long = "lint-restart-storm", value_name = "LEVEL", help_heading = LINTS)]
    restart_storm: Option<String>,
    /// Messages that come faster than they are taken.
    #[arg(long = "lint-mailbox-growing", value_name = "LEVEL", help_heading = LINTS)]
    mailbox_growing: Option<String>,
}

impl NodeFlags {
    /// Returns the flags that were given, by the key that they set.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { observed: ObservedFlags { name, listen, tick_hz, drain, lints }, share, common } = self;
        [
            ("node.name", name),
            ("node.listen", listen),
            ("node.schedulers", &common.schedulers),
            ("node.process_limit", &common.process_limit),
            ("node.mailbox_capacity", &common.mailbox_capacity),
            ("node.mailbox_bytes", &common.mailbox_bytes),
            ("node.mailbox_total_bytes", &common.mailbox_total_bytes),
            ("node.tick_hz", tick_hz),
            ("node.profile", &share.profile),
            ("node.drain", drain),
            ("lint.stuck", &lints.stuck),
            ("lint.never_yields", &lints.never_yields),
            ("lint.restart_storm", &lints.restart_storm),
            ("lint.mailbox_growing", &lints.mailbox_growing),
            ("log.level", &common.log),
            ("log.file", &common.log_file),
            ("log.format", &common.log_format),
        ]
        .into_iter()
        .filter_map(|(key, value)| value.as_deref().map(|value| (key, value)))
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
    /// What it may do: sandboxed, network, trusted, or a profile of the configuration [default: sandboxed].
    #[arg(long, value_name = "PROFILE", help_heading = GUEST)]
    profile: Option<String>,
    /// How many of it [default: 1].
    #[arg(long, value_name = "N", help_heading = GUEST)]
    count: Option<String>,
    /// When it is restarted: permanent, transient or temporary [default: transient].
    #[arg(long, value_name = "WHEN", help_heading = GUEST)]
    restart: Option<String>,
    /// How it is stopped: a time after which it is killed, `brutal_kill` or `infinity` [default: 5s].
    #[arg(long, value_name = "HOW", help_heading = GUEST)]
    shutdown: Option<String>,
    /// The most memory that it may have, such as 64MiB [default: what the engine allows].
    #[arg(long, value_name = "SIZE", help_heading = GUEST)]
    memory_max: Option<String>,
    /// The most elements that one of its tables may have [default: what the engine allows].
    #[arg(long, value_name = "N", help_heading = GUEST)]
    table_max_elements: Option<String>,
    /// The most instances, memories and tables that it may consist of [default: what the engine allows].
    #[arg(long, value_name = "N", help_heading = GUEST)]
    parts_max: Option<String>,
    /// The longest message that it may send, such as 64KiB [default: what the engine allows].
    #[arg(long, value_name = "SIZE", help_heading = GUEST)]
    message_max: Option<String>,
    /// The share of one scheduler that it may take, in percent [default: 100].
    #[arg(long, value_name = "PERCENT", help_heading = GUEST)]
    cpu_max: Option<String>,
    /// The most bytes of messages that it may have sent and that are not received yet, such as 1MiB [default: what the engine allows].
    #[arg(long, value_name = "SIZE", help_heading = GUEST)]
    sent_max: Option<String>,
    /// Messages that its mailbox holds [default: those of every mailbox].
    #[arg(long = "guest-mailbox-capacity", value_name = "N", help_heading = GUEST)]
    guest_mailbox_capacity: Option<String>,
    /// A name that other processes find it by.
    #[arg(long, value_name = "NAME", help_heading = GUEST)]
    register: Option<String>,
}

/// Heading of the guest flags in the help.
const GUEST: &str = "The guest, where FILE is a module";

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

#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// A module or component (.wasm or .wat), or a configuration (.toml) with `[[process]]` entries [default: rusm.toml].
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// What the guest gets as arguments; behind -- if the first begins with a dash.
    #[arg(trailing_var_arg = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
    /// Opens the observer in this terminal.
    #[arg(long)]
    pub(crate) top: bool,
    /// Starts guests anew when their module's file changes.
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) guest: GuestFlags,
    #[command(flatten)]
    pub(crate) observed: ObservedFlags,
    #[command(flatten)]
    pub(crate) common: CommonFlags,
}
