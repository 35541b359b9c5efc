//! The arguments of the command line, as the parser reads them.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use rusm_protocol::{Column, SortKey};

use crate::cli::values::{column, last, lint, pid, seconds, sort, speed, switch, tab};
use crate::connection::Target;
use crate::model::input::commands::interval;
use crate::model::tab::Tab;

/// Options that only make sense on a command line.
pub(super) const NOT_IN_FILE: [&str; 17] = [
    "help",
    "version",
    "config",
    "beside",
    "demo",
    "once",
    "batch",
    "frames",
    "json",
    "all_views",
    "run",
    "subcommand",
    "kill",
    "kill_all",
    "reason",
    "stop",
    "set_log",
];

/// Watch a rusm node: its throughput, its schedulers, its processes.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command line flag")]
#[derive(Debug, Parser)]
#[command(name = "rusm-top", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub(super) task: Option<Task>,
    /// A node's name, a socket path, unix:PATH, HOST:PORT, ws://HOST:PORT or `ssh://HOST/NODE` [default: the only node that runs here]
    #[arg(env = "RUSM_TOP_TARGET")]
    pub(super) target: Option<Target>,
    /// More nodes to show on the same screen, separated by commas
    #[arg(long, value_name = "TARGETS", env = "RUSM_TOP_BESIDE", value_delimiter = ',', requires = "target",
        conflicts_with_all = ["once", "batch", "diagnose", "record", "export_trace", "kill", "kill_all", "stop", "set_log"])]
    pub(super) beside: Vec<Target>,
    /// File with the token for TCP [default: tcp-PORT.token beside the sockets]
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_TOKEN_FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Connection timeout in seconds
    #[arg(long, value_name = "SECONDS", env = "RUSM_TOP_TIMEOUT", default_value = "5", value_parser = seconds)]
    pub(super) timeout: Duration,
    /// Quit when the connection is lost
    #[arg(long, env = "RUSM_TOP_NO_RECONNECT", value_parser = switch)]
    pub(super) no_reconnect: bool,
    /// Never change the node: no runs, no kills
    #[arg(long, env = "RUSM_TOP_READ_ONLY", value_parser = switch, conflicts_with_all = ["run", "profile", "kill", "kill_all", "stop", "set_log"])]
    pub(super) read_only: bool,
    /// Frames per second, 1-60 [default: 10, over SSH 4]
    #[arg(long, value_name = "N", env = "RUSM_TOP_FPS", value_parser = clap::value_parser!(u8).range(1..=60))]
    pub(super) fps: Option<u8>,
    /// Time between two frames, 20ms-10s, instead of --fps
    #[arg(short, long, value_name = "TIME", env = "RUSM_TOP_INTERVAL", value_parser = interval, conflicts_with = "fps")]
    pub(super) interval: Option<Duration>,
    /// The first view: node, bench, processes, tree, events, wasm, time, store, topics, cpu, sched, serve or cluster
    /// [default: processes with --filter or --sort, else node]
    #[arg(long, value_name = "VIEW", env = "RUSM_TOP_TAB", value_parser = tab)]
    pub(super) tab: Option<Tab>,
    /// Show only matching processes: `name=kv* and mailq>0`, or part of a name
    #[arg(long, value_name = "FILTER", env = "RUSM_TOP_FILTER")]
    pub(super) filter: Option<String>,
    /// Sort processes by a column, such as mem, mailq, reds, age or name; -COLUMN reverses the order
    #[arg(long, value_name = "COLUMN", env = "RUSM_TOP_SORT", value_parser = sort, allow_hyphen_values = true)]
    pub(super) sort: Option<SortKey>,
    /// Columns of the process table, separated by commas [default: those that fit]
    #[arg(long, value_name = "COLUMNS", env = "RUSM_TOP_COLUMNS", value_parser = column, value_delimiter = ',')]
    pub(super) columns: Vec<Column>,
    /// Columns of the process table for guests, separated by commas [default: those that fit]
    #[arg(long, value_name = "COLUMNS", env = "RUSM_TOP_GUEST_COLUMNS", value_parser = column, value_delimiter = ',')]
    pub(super) guest_columns: Vec<Column>,
    /// Run a scenario at start
    #[arg(long, value_name = "SCENARIO", env = "RUSM_TOP_RUN")]
    pub(super) run: Option<String>,
    /// Select a resource profile at start
    #[arg(long, value_name = "PROFILE", env = "RUSM_TOP_PROFILE")]
    pub(super) profile: Option<String>,
    /// End a process and exit, without a screen; more pids separated by commas
    #[arg(long, value_name = "PID", env = "RUSM_TOP_KILL", value_parser = pid, value_delimiter = ',')]
    pub(super) kill: Vec<String>,
    /// End all processes that match a filter and exit
    #[arg(long, value_name = "FILTER", env = "RUSM_TOP_KILL_ALL")]
    pub(super) kill_all: Option<String>,
    /// With --kill: shutdown, kill, or words of your own [default: kill]
    #[arg(long, value_name = "REASON", env = "RUSM_TOP_REASON")]
    pub(super) reason: Option<String>,
    /// Stop the run and exit
    #[arg(long, env = "RUSM_TOP_STOP", value_parser = switch)]
    pub(super) stop: bool,
    /// Change the level or filter of the node's log and exit
    #[arg(long, value_name = "LEVEL", env = "RUSM_TOP_SET_LOG")]
    pub(super) set_log: Option<String>,
    /// With a target over ssh: the command to run, with options
    #[arg(long, value_name = "COMMAND", env = "RUSM_TOP_SSH", default_value = "ssh")]
    pub(super) ssh: String,
    /// Draw with ASCII characters only [default: when the locale is not UTF-8]
    #[arg(long, env = "RUSM_TOP_ASCII", value_parser = switch)]
    pub(super) ascii: bool,
    /// When to use colours, or how many
    #[arg(long, value_name = "WHEN", env = "RUSM_TOP_COLOR", value_enum, default_value = "auto")]
    pub(super) color: Colors,
    /// Theme: auto, terminal, dark, light, contrast, mono, or one of the config file
    #[arg(long, value_name = "NAME", env = "RUSM_TOP_THEME", default_value = "auto")]
    pub(super) theme: String,
    /// Do not capture the mouse
    #[arg(long, env = "RUSM_TOP_NO_MOUSE", value_parser = switch)]
    pub(super) no_mouse: bool,
    /// Show made-up data, without a node
    #[arg(long, env = "RUSM_TOP_DEMO", value_parser = switch, conflicts_with = "target")]
    pub(super) demo: bool,
    /// Print one frame and exit
    #[arg(long, env = "RUSM_TOP_ONCE", value_parser = switch)]
    pub(super) once: bool,
    /// Print frames without a screen, until -n of them or a signal
    #[arg(long, env = "RUSM_TOP_BATCH", value_parser = switch, conflicts_with = "once")]
    pub(super) batch: bool,
    /// With --batch: number of frames
    #[arg(short = 'n', long, value_name = "N", env = "RUSM_TOP_FRAMES", requires = "batch",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) frames: Option<u64>,
    /// Watch the node for 8 seconds, and print what is wrong with it
    #[arg(long, env = "RUSM_TOP_DIAGNOSE", value_parser = switch, conflicts_with_all = ["once", "batch"])]
    pub(super) diagnose: bool,
    /// With --once, --batch or --diagnose: print JSON, one object a line
    #[arg(long, env = "RUSM_TOP_JSON", value_parser = switch)]
    pub(super) json: bool,
    /// With --json: print the data of all views
    #[arg(long, env = "RUSM_TOP_ALL_VIEWS", value_parser = switch, requires = "json",
        conflicts_with_all = ["tab", "diagnose"])]
    pub(super) all_views: bool,
    /// Lints to hide, separated by commas, or all
    #[arg(long, value_name = "LINTS", env = "RUSM_TOP_ALLOW", value_parser = lint, value_delimiter = ',')]
    pub(super) allow: Vec<String>,
    /// Lints to show although --allow names them
    #[arg(long, value_name = "LINTS", env = "RUSM_TOP_WARN", value_parser = lint, value_delimiter = ',')]
    pub(super) warn: Vec<String>,
    /// Record all messages of the node to a new file
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_RECORD", conflicts_with_all = ["once", "batch", "diagnose", "replay"])]
    pub(super) record: Option<PathBuf>,
    /// Replay a recording, without a node
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_REPLAY", conflicts_with_all = ["target", "demo", "run", "profile"])]
    pub(super) replay: Option<PathBuf>,
    /// With --replay: the speed as a factor, 0.1-1000
    #[arg(long, value_name = "X", env = "RUSM_TOP_SPEED", default_value = "1", value_parser = speed)]
    pub(super) speed: f64,
    /// Write what the node has recorded of the last time as Chrome trace JSON (for Perfetto or the Firefox profiler),
    /// and exit
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_EXPORT_TRACE", conflicts_with_all = ["once", "record"])]
    pub(super) export_trace: Option<PathBuf>,
    /// With --export-trace: the time before now, such as 60s or 5m
    #[arg(long, value_name = "TIME", env = "RUSM_TOP_LAST", default_value = "60s", value_parser = last)]
    pub(super) last: Duration,
    /// Append a log to this file
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_LOG_FILE")]
    pub(super) log_file: Option<PathBuf>,
    /// Level or filter of that log
    #[arg(long, value_name = "LEVEL", env = "RUSM_TOP_LOG", default_value = "info")]
    pub(super) log: String,
    #[expect(clippy::doc_markdown, reason = "the help of the command line shows backticks as they are")]
    /// Config file [default: $XDG_CONFIG_HOME/rusm/top.toml]
    #[arg(short, long, value_name = "FILE", env = "RUSM_TOP_CONFIG", global = true)]
    pub(super) config: Option<PathBuf>,
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 runtime error, 2 usage or no terminal, 3 cannot connect, \
                          4 protocol or refused, 5 scenario failed, 6 inconclusive, 7 --diagnose found a problem, 128+n signal n";

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Colors {
    Auto,
    Always,
    Never,
    #[value(name = "16")]
    Sixteen,
    #[value(name = "256")]
    Indexed,
    True,
}

/// A task without a screen.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// Create, check or find the config file
    #[command(subcommand, arg_required_else_help = false)]
    Config(ConfigTask),
    /// List the keys of all actions, as the config file has them
    Keys,
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    Man,
}

/// A task about the config file.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigTask {
    /// Write a file with every option, commented out
    Init {
        /// Replace an existing file
        #[arg(long)]
        force: bool,
    },
    /// Check the file
    Check,
    /// Print the path of the file
    Path,
}

/// Returns the command line without its variables, for checks that must not depend on the environment.
pub(super) fn plain_command() -> Command {
    Cli::command().mut_args(|argument| argument.env(None::<&str>))
}

/// Returns the ids of the options that a config file may have.
pub(super) fn known_options(command: &Command) -> Vec<&str> {
    let ids = command.get_arguments().map(|argument| argument.get_id().as_str());
    ids.filter(|id| !NOT_IN_FILE.contains(id)).collect()
}

/// Formats a parser error as one line, without the usage and the pointer to the help.
pub fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::MissingSubcommand {
        // Only `config` needs a command.
        return "rusm-top config needs a command: init, check or path".to_owned();
    }
    let text = error.to_string();
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let parts: Vec<String> = paragraphs
        .filter(|paragraph| !paragraph.is_empty())
        .filter(|paragraph| !["Usage:", "For more information"].iter().any(|start| paragraph.starts_with(start)))
        .collect();
    parts.join("; ").trim_start_matches("error: ").to_owned()
}
