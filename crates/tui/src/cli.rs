//! The command line of `rusm-top`.
//!
//! Each option is a flag, a variable `RUSM_TOP_NAME`, and a key of the config file, all of the same name.

pub mod commands;
pub mod config;
pub mod environment;
pub(crate) mod options;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser, ValueEnum};
use rusm_protocol::{Column, SortKey};

use crate::cli::commands::Task;
use crate::cli::config::Config;
use crate::cli::options::{ColorChoice, Export, Once, Options, Source};
use crate::cli::values::{column, hidden_lints, interval, last, lint, seconds, sort, speed, tab};
use crate::connection::Target;
use crate::model::palette::ColorDepth;
use crate::model::panes::columns;
use crate::model::tab::Tab;

/// Seed of the demo.
const DEMO_SEED: u64 = 1;

/// Two options that set the same thing: one on the command line replaces the other in the file.
const RIVALS: [[&str; 2]; 1] = [["fps", "interval"]];

/// Watch a rusm node: its throughput, its schedulers, its processes.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command line flag")]
#[derive(Debug, Parser)]
#[command(name = "rusm-top", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    task: Option<Task>,
    /// A node's name, a socket path, unix:PATH, HOST:PORT or ws://HOST:PORT [default: the only node that runs here]
    #[arg(env = "RUSM_TOP_TARGET")]
    target: Option<Target>,
    /// File with the token for TCP [default: tcp-PORT.token beside the sockets]
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Connection timeout in seconds
    #[arg(long, value_name = "SECONDS", env = "RUSM_TOP_TIMEOUT", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    /// Quit when the connection is lost
    #[arg(long, env = "RUSM_TOP_NO_RECONNECT", value_parser = FalseyValueParser::new())]
    no_reconnect: bool,
    /// Never change the node: no runs, no kills
    #[arg(long, env = "RUSM_TOP_READ_ONLY", value_parser = FalseyValueParser::new(), conflicts_with_all = ["run", "profile"])]
    read_only: bool,
    /// Frames per second, 1-60 [default: 10, over SSH 4]
    #[arg(long, value_name = "N", env = "RUSM_TOP_FPS", value_parser = clap::value_parser!(u8).range(1..=60))]
    fps: Option<u8>,
    /// Time between two frames, 20ms-10s, instead of --fps
    #[arg(short, long, value_name = "TIME", env = "RUSM_TOP_INTERVAL", value_parser = interval, conflicts_with = "fps")]
    interval: Option<Duration>,
    /// The first view: node, bench, processes, tree, events, wasm, time, store, topics, cpu or sched [default:
    /// processes with --filter or --sort, else node]
    #[arg(long, value_name = "VIEW", env = "RUSM_TOP_TAB", value_parser = tab)]
    tab: Option<Tab>,
    /// Show only matching processes: `name=kv* and mailq>0`, or part of a name
    #[arg(long, value_name = "FILTER", env = "RUSM_TOP_FILTER")]
    filter: Option<String>,
    /// Sort processes by a column, such as mem, mailq, reds, age or name; -COLUMN reverses the order
    #[arg(long, value_name = "COLUMN", env = "RUSM_TOP_SORT", value_parser = sort, allow_hyphen_values = true)]
    sort: Option<SortKey>,
    /// Columns of the process table, separated by commas [default: those that fit]
    #[arg(long, value_name = "COLUMNS", env = "RUSM_TOP_COLUMNS", value_parser = column, value_delimiter = ',')]
    columns: Vec<Column>,
    /// Run a scenario at start
    #[arg(long, value_name = "SCENARIO", env = "RUSM_TOP_RUN")]
    run: Option<String>,
    /// Select a resource profile at start
    #[arg(long, value_name = "PROFILE", env = "RUSM_TOP_PROFILE")]
    profile: Option<String>,
    /// Draw with ASCII characters only [default: when the locale is not UTF-8]
    #[arg(long, env = "RUSM_TOP_ASCII", value_parser = FalseyValueParser::new())]
    ascii: bool,
    /// When to use colours, or how many
    #[arg(long, value_name = "WHEN", env = "RUSM_TOP_COLOR", value_enum, default_value = "auto")]
    color: Colors,
    /// Theme: auto, terminal, dark, light, contrast, mono, or one of the config file
    #[arg(long, value_name = "NAME", env = "RUSM_TOP_THEME", default_value = "auto")]
    theme: String,
    /// Do not capture the mouse
    #[arg(long, env = "RUSM_TOP_NO_MOUSE", value_parser = FalseyValueParser::new())]
    no_mouse: bool,
    /// Show made-up data, without a node
    #[arg(long, env = "RUSM_TOP_DEMO", value_parser = FalseyValueParser::new(), conflicts_with = "target")]
    demo: bool,
    /// Print one frame and exit
    #[arg(long, env = "RUSM_TOP_ONCE", value_parser = FalseyValueParser::new())]
    once: bool,
    /// Print frames without a screen, until -n of them or a signal
    #[arg(long, env = "RUSM_TOP_BATCH", value_parser = FalseyValueParser::new(), conflicts_with = "once")]
    batch: bool,
    /// With --batch: number of frames
    #[arg(short = 'n', long, value_name = "N", env = "RUSM_TOP_FRAMES", requires = "batch",
        value_parser = clap::value_parser!(u64).range(1..))]
    frames: Option<u64>,
    /// Watch the node for 8 seconds, and print what is wrong with it
    #[arg(long, env = "RUSM_TOP_DIAGNOSE", value_parser = FalseyValueParser::new(), conflicts_with_all = ["once", "batch"])]
    diagnose: bool,
    /// With --once, --batch or --diagnose: print JSON, one object a line
    #[arg(long, env = "RUSM_TOP_JSON", value_parser = FalseyValueParser::new())]
    json: bool,
    /// Lints to hide, separated by commas, or all
    #[arg(long, value_name = "LINTS", env = "RUSM_TOP_ALLOW", value_parser = lint, value_delimiter = ',')]
    allow: Vec<String>,
    /// Lints to show although --allow names them
    #[arg(long, value_name = "LINTS", env = "RUSM_TOP_WARN", value_parser = lint, value_delimiter = ',')]
    warn: Vec<String>,
    /// Record all messages of the node to a new file
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_RECORD", conflicts_with_all = ["once", "replay"])]
    record: Option<PathBuf>,
    /// Replay a recording, without a node
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_REPLAY", conflicts_with_all = ["target", "demo", "run", "profile"])]
    replay: Option<PathBuf>,
    /// With --replay: the speed as a factor, 0.1-1000
    #[arg(long, value_name = "X", env = "RUSM_TOP_SPEED", default_value = "1", value_parser = speed)]
    speed: f64,
    /// Write what the node has recorded of the last time as Chrome trace JSON (for Perfetto or the Firefox profiler),
    /// and exit
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_EXPORT_TRACE", conflicts_with_all = ["once", "record"])]
    export_trace: Option<PathBuf>,
    /// With --export-trace: the time before now, such as 60s or 5m
    #[arg(long, value_name = "TIME", env = "RUSM_TOP_LAST", default_value = "60s", value_parser = last)]
    last: Duration,
    /// Append a log to this file
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_LOG_FILE")]
    log_file: Option<PathBuf>,
    /// Level or filter of that log
    #[arg(long, value_name = "LEVEL", env = "RUSM_TOP_LOG", default_value = "info")]
    log: String,
    #[expect(clippy::doc_markdown, reason = "the help of the command line shows backticks as they are")]
    /// Config file [default: $XDG_CONFIG_HOME/rusm/top.toml]
    #[arg(short, long, value_name = "FILE", env = "RUSM_TOP_CONFIG", global = true)]
    config: Option<PathBuf>,
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 runtime error, 2 usage or no terminal, 3 cannot connect, \
                          4 protocol or refused, 5 scenario failed, 6 inconclusive, 7 --diagnose found a problem, 128+n signal n";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colors {
    Auto,
    Always,
    Never,
    #[value(name = "16")]
    Sixteen,
    #[value(name = "256")]
    Indexed,
    True,
}

impl From<Colors> for ColorChoice {
    fn from(colors: Colors) -> Self {
        match colors {
            Colors::Auto => Self::Auto,
            Colors::Always => Self::Always,
            Colors::Never => Self::Never,
            Colors::Sixteen => Self::Depth(ColorDepth::Sixteen),
            Colors::Indexed => Self::Depth(ColorDepth::Indexed),
            Colors::True => Self::Depth(ColorDepth::True),
        }
    }
}

impl Cli {
    /// Parses a command line, which starts with the program name. Environment variables supply missing values.
    ///
    /// # Errors
    /// Describes the invalid argument. Requests for help or the version are returned as errors too.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::read_with(line, &Config::default())
    }

    /// Parses a command line. Environment variables supply missing values, and then the config file.
    ///
    /// # Errors
    /// Describes the invalid argument. Requests for help or the version are returned as errors too.
    pub fn read_with(line: impl IntoIterator<Item = OsString>, config: &Config) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().collect();
        // The defaults are added before the first use of a command: it is finished then.
        let mut command = Self::command();
        let is_without_node = |word: &OsString| {
            word == "--demo" || word == "--replay" || word.to_str().is_some_and(|word| word.starts_with("--replay="))
        };
        if line.iter().any(is_without_node) {
            // These ignore a target from the environment. They conflict only with a target on the command line.
            command = command.mut_arg("target", |target| target.env(None::<&str>));
        }
        let given = command.clone().try_get_matches_from_mut(&line)?;
        let mut command = with_defaults(command, config, &given);
        let mut matches = command.try_get_matches_from_mut(line)?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Converts the arguments to options.
    ///
    /// # Errors
    /// Returns one line if the theme does not exist.
    pub fn options(self, config: Config) -> Result<Options, String> {
        let about_rows = self.filter.is_some() || self.sort.is_some();
        let palette = config.palette(&self.theme)?;
        let print_as = if self.json { Once::Json } else { Once::Text };
        if self.json && !self.once && !self.batch && !self.diagnose {
            return Err("--json needs --once, --batch or --diagnose".to_owned());
        }
        Ok(Options {
            source: if let Some(path) = self.replay {
                Source::Replay { path, speed: self.speed }
            } else if self.demo {
                Source::Demo { seed: DEMO_SEED }
            } else {
                Source::Node(self.target.unwrap_or(Target::Discover))
            },
            token_file: self.token_file,
            timeout: self.timeout,
            reconnect: !self.no_reconnect,
            read_only: self.read_only,
            owns_node: false,
            fps: self.fps,
            interval: self.interval,
            tab: self.tab.unwrap_or(if about_rows { Tab::Processes } else { Tab::Node }),
            filter: self.filter.unwrap_or_default(),
            sort: self.sort.unwrap_or(columns::BY_CPU),
            columns: self.columns,
            run: self.run,
            profile: self.profile,
            ascii: self.ascii,
            color: self.color.into(),
            palette,
            mouse: !self.no_mouse,
            keys: config.keys,
            config_file: self.config.or_else(config::usual_path),
            once: (self.once || self.batch).then_some(print_as),
            diagnose: self.diagnose.then_some(print_as),
            hidden_lints: hidden_lints(&self.allow, &self.warn),
            frames: if self.batch { self.frames } else { Some(1) },
            record: self.record,
            export: self.export_trace.map(|path| Export { path, last: self.last }),
        })
    }

    /// Returns the named config file.
    pub fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Returns the task that needs no screen, if one was given.
    pub fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }

    /// Returns the path of the log file, if set.
    pub fn log_file(&self) -> Option<PathBuf> {
        self.log_file.clone()
    }

    /// Returns the log filter.
    pub fn log(&self) -> &str {
        &self.log
    }
}

/// Makes the values of a file the defaults of a command, except for those with a rival that was given.
fn with_defaults(mut command: Command, config: &Config, given: &ArgMatches) -> Command {
    let is_given = |id: &str| {
        let source = given.value_source(id);
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    for (id, value) in &config.values {
        let rivals = RIVALS.iter().filter(|rivals| rivals.contains(&id.as_str())).flatten();
        if rivals.copied().all(|rival| !is_given(rival)) {
            // The parser takes defaults that live as long as the program. The file is read once.
            let value: &'static str = Box::leak(value.clone().into_boxed_str());
            command = command.mut_arg(id, |argument| match argument.get_value_delimiter() {
                Some(delimiter) => argument.default_values(value.split(delimiter).collect::<Vec<_>>()),
                None => argument.default_value(value),
            });
        }
    }
    command
}

/// Returns the command line without its variables, for checks that must not depend on the environment.
pub(crate) fn plain_command() -> Command {
    Cli::command().mut_args(|argument| argument.env(None::<&str>))
}

/// Reads options from the environment and the config file, for a program that embeds the observer.
///
/// # Errors
/// Returns one line that names the invalid variable, or the line of the file.
pub fn options_of_env() -> Result<Options, String> {
    // The embedding program already knows its node, has its own log, and needs a screen.
    let elsewhere = [
        "target",
        "token_file",
        "log_file",
        "log",
        "demo",
        "once",
        "batch",
        "frames",
        "json",
        "run",
        "record",
        "replay",
        "speed",
        "export_trace",
        "last",
    ];
    let command = elsewhere
        .into_iter()
        .fold(Cli::command(), |command, about| command.mut_arg(about, |argument| argument.env(None::<&str>)));
    let given = command.clone().try_get_matches_from(["rusm-top"]).map_err(|error| one_line(&error))?;
    let named = given.get_one::<PathBuf>("config").map(PathBuf::as_path);
    let mut config = Config::load(named).map_err(|error| error.to_string())?;
    config.values.retain(|(id, _)| !elsewhere.contains(&id.as_str()));
    let matches = with_defaults(command, &config, &given).try_get_matches_from(["rusm-top"]);
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    cli.map_err(|error| one_line(&error))?.options(config)
}

/// Formats a parser error as one line, without the usage and the pointer to the help.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let parts: Vec<String> = paragraphs
        .filter(|paragraph| !paragraph.is_empty())
        .filter(|paragraph| !["Usage:", "For more information"].iter().any(|start| paragraph.starts_with(start)))
        .collect();
    parts.join("; ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_names_every_view() {
        let help = Cli::command().render_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, named) = help.split_once("The first view: ").unwrap();
        let (named, _) = named.split_once(" [default").unwrap();

        let ids: Vec<&str> = Tab::ALL.iter().map(|tab| tab.id()).collect();
        assert_eq!(named.replace(" or ", ", ").split(", ").collect::<Vec<_>>(), ids);
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let file = "fps = 20\ntab = \"tree\"\nno_mouse = true\ncolumns = [\"pid\", \"mem\"]\ntarget = \"kv\"";
        let config = Config::parse(file).unwrap();
        let options = |arguments: &[&str]| {
            let line = [&["rusm-top"], arguments].concat().into_iter().map(OsString::from);
            Cli::read_with(line, &config).unwrap().options(config.clone()).unwrap()
        };

        let plain = options(&[]);
        assert_eq!((plain.fps, plain.tab, plain.mouse), (Some(20), Tab::Tree, false));
        assert_eq!(plain.columns, [Column::Pid, Column::MemoryBytes]);
        assert_eq!(plain.source, Source::Node(Target::Named("kv".to_owned())));
        let flagged = options(&["--interval", "2s", "--tab", "node", "--columns", "name", "--demo"]);
        assert_eq!((flagged.fps, flagged.interval), (None, Some(Duration::from_secs(2))), "a rival of --fps");
        assert_eq!((flagged.tab, &flagged.columns[..]), (Tab::Node, &[Column::Name][..]));
        assert_eq!(flagged.source, Source::Demo { seed: DEMO_SEED });
    }

    #[test]
    fn every_option_has_the_variable_of_its_name() {
        let command = Cli::command();
        for argument in
            command.get_arguments().filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        {
            let due = format!("RUSM_TOP_{}", argument.get_id().as_str().to_uppercase());
            assert_eq!(argument.get_env().and_then(|name| name.to_str()), Some(due.as_str()));
        }
    }

    #[test]
    fn every_error_of_the_parser_is_one_line_that_names_the_argument() {
        let line = |arguments: &[&str]| {
            let parsed = Cli::read([&["rusm-top"], arguments].concat().into_iter().map(OsString::from));
            one_line(&parsed.unwrap_err())
        };

        assert_eq!(line(&["--tab", "nodes"]), "invalid value 'nodes' for '--tab <VIEW>': did you mean \"node\"?");
        assert_eq!(line(&["--fps", "0"]), "invalid value '0' for '--fps <N>': 0 is not in 1..=60");
        assert_eq!(
            line(&["--color", "alwys"]),
            "invalid value 'alwys' for '--color <WHEN>' [possible values: auto, always, never, 16, 256, true]; \
             tip: a similar value exists: 'always'"
        );
        assert_eq!(
            line(&["--fliter", "x"]),
            "unexpected argument '--fliter' found; tip: a similar argument exists: '--filter'"
        );
        assert_eq!(line(&["-n", "3"]), "the following required arguments were not provided: --batch");
        assert_eq!(line(&["--run"]), "a value is required for '--run <SCENARIO>' but none was supplied");
        assert_eq!(line(&["--demo", "kv"]), "the argument '--demo' cannot be used with '[TARGET]'");
        assert!(line(&["wss://host:1"]).contains("expected a node name"));
    }
}
