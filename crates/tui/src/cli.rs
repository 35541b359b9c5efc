//! The command line of `rusm-top`.

pub mod environment;
pub(crate) mod options;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};
use rusm_protocol::{Column, SortKey};
use rusm_text::suggestion;

use crate::cli::options::{ColorChoice, Once, Options, Source};
use crate::connection::Target;
use crate::model::panes::columns;
use crate::model::tab::Tab;

/// Seed of the demo.
const DEMO_SEED: u64 = 1;

/// Maximum connection timeout.
const TIMEOUT_MAX: Duration = Duration::from_hours(1);

/// Watch a rusm node: its throughput, its schedulers, its processes.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command line flag")]
#[derive(Debug, Parser)]
#[command(name = "rusm-top", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// A node's name, a socket path, unix:PATH, HOST:PORT or ws://HOST:PORT [default: the only node that runs here]
    #[arg(env = "RUSM_TOP_TARGET")]
    target: Option<Target>,
    /// File with the token for TCP [default: tcp-PORT.token beside the sockets]
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Connection timeout in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    /// Quit when the connection is lost
    #[arg(long)]
    no_reconnect: bool,
    /// Frames per second, 1-60 [default: 10, over SSH 4]
    #[arg(long, value_name = "N", env = "RUSM_TOP_FPS", value_parser = clap::value_parser!(u8).range(1..=60))]
    fps: Option<u8>,
    /// The first view: node, bench, processes, tree, events, wasm, time, store, topics, cpu or sched [default:
    /// processes with --filter or --sort, else node]
    #[arg(long, value_name = "VIEW", value_parser = tab)]
    tab: Option<Tab>,
    /// Show only matching processes: `name=kv* and mailq>0`, or part of a name
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Sort processes by a column, such as mem, mailq, reds, age or name; -COLUMN reverses the order
    #[arg(long, value_name = "COLUMN", value_parser = sort, allow_hyphen_values = true)]
    sort: Option<SortKey>,
    /// Run a scenario at start
    #[arg(long, value_name = "SCENARIO")]
    run: Option<String>,
    /// Select a resource profile at start
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Draw with ASCII characters only [default: when the locale is not UTF-8]
    #[arg(long, env = "RUSM_TOP_ASCII", value_parser = FalseyValueParser::new())]
    ascii: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    color: Colors,
    /// Do not capture the mouse
    #[arg(long)]
    no_mouse: bool,
    /// Show made-up data, without a node
    #[arg(long, conflicts_with = "target")]
    demo: bool,
    /// Print one frame and exit
    #[arg(long)]
    once: bool,
    /// With --once: print JSON
    #[arg(long, requires = "once")]
    json: bool,
    /// Append a log to this file
    #[arg(long, value_name = "FILE", env = "RUSM_TOP_LOG_FILE")]
    log_file: Option<PathBuf>,
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 runtime error, 2 usage or no terminal, 3 cannot connect, \
                          4 protocol or refused, 5 scenario failed, 6 inconclusive, 128+n signal n";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colors {
    Auto,
    Always,
    Never,
}

impl Cli {
    /// Parses a command line, which starts with the program name. Environment variables supply missing values.
    ///
    /// # Errors
    /// Describes the invalid argument. Requests for help or the version are returned as errors too.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().collect();
        let mut command = Self::command();
        if line.iter().any(|word| word == "--demo") {
            // `--demo` ignores a target from the environment. It conflicts only with a target on the command line.
            command = command.mut_arg("target", |target| target.env(None::<&str>));
        }
        let mut matches = command.try_get_matches_from_mut(line)?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Converts the arguments to options.
    pub fn options(self) -> Options {
        let about_rows = self.filter.is_some() || self.sort.is_some();
        Options {
            source: if self.demo {
                Source::Demo { seed: DEMO_SEED }
            } else {
                Source::Node(self.target.unwrap_or(Target::Discover))
            },
            token_file: self.token_file,
            timeout: self.timeout,
            reconnect: !self.no_reconnect,
            fps: self.fps,
            tab: self.tab.unwrap_or(if about_rows { Tab::Processes } else { Tab::Node }),
            filter: self.filter.unwrap_or_default(),
            sort: self.sort.unwrap_or_default(),
            run: self.run,
            profile: self.profile,
            ascii: self.ascii,
            color: match self.color {
                Colors::Auto => ColorChoice::Auto,
                Colors::Always => ColorChoice::Always,
                Colors::Never => ColorChoice::Never,
            },
            mouse: !self.no_mouse,
            once: match (self.once, self.json) {
                (false, _) => None,
                (true, false) => Some(Once::Text),
                (true, true) => Some(Once::Json),
            },
        }
    }

    /// Returns the path of the log file, if set.
    pub fn log_file(&self) -> Option<PathBuf> {
        self.log_file.clone()
    }
}

/// Reads options from the environment alone, for a program that embeds the observer.
///
/// # Errors
/// Returns one line that names the invalid variable.
pub fn options_of_env() -> Result<Options, String> {
    // The embedding program already knows its node and has its own log.
    let elsewhere = ["target", "token_file", "log_file"];
    let command = elsewhere
        .into_iter()
        .fold(Cli::command(), |command, about| command.mut_arg(about, |argument| argument.env(None::<&str>)));
    let matches = command.try_get_matches_from(["rusm-top"]);
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    cli.map(Cli::options).map_err(|error| one_line(&error))
}

/// Environment variable with the log filter. It cannot be set by a command line flag.
pub const LOG_LEVEL: &str = "RUSM_TOP_LOG";

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

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.trim_end_matches('s').parse().map_err(|_no_number| "expected seconds, such as 5 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|time| !time.is_zero() && *time <= TIMEOUT_MAX)
        .ok_or_else(|| format!("expected more than 0 and at most {} seconds", TIMEOUT_MAX.as_secs()))
}

fn tab(text: &str) -> Result<Tab, String> {
    Tab::from_id(text).ok_or_else(|| suggestion(text, Tab::ALL.iter().map(|tab| tab.id())))
}

fn sort(text: &str) -> Result<SortKey, String> {
    let (name, reversed) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
    let short = |column: Column| columns::heading(column).to_ascii_lowercase();
    let wanted = name.to_ascii_lowercase();
    let known = Column::ALL.into_iter().find(|column| column.word() == wanted || short(*column) == wanted);
    let key = match (known, wanted.as_str()) {
        (Some(key), _) => key,
        (None, "busy") => Column::BusyPct,
        (None, "memory") => Column::MemoryBytes,
        (None, "mailbox") => Column::MailboxLen,
        _ => return Err(suggestion(&wanted, Column::ALL.map(Column::word))),
    };
    Ok(SortKey { key, desc: columns::falls(key) != reversed })
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
    fn columns_are_known_by_their_word_and_their_heading() {
        assert_eq!(sort("mem").unwrap(), SortKey { key: Column::MemoryBytes, desc: true });
        assert_eq!(sort("name").unwrap(), SortKey { key: Column::Name, desc: false });
        assert_eq!(sort("-age_ms").unwrap(), SortKey { key: Column::AgeMs, desc: false });
        assert!(sort("xyzzy").unwrap_err().starts_with("expected one of pid, name"));
        assert_eq!(sort("mailbx").unwrap_err(), "did you mean \"mailbox_len\"?");
    }

    #[test]
    fn a_timeout_is_a_time_that_can_pass() {
        assert_eq!(seconds("0.5s"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "1e300", "inf", "NaN", "3601"] {
            assert_eq!(seconds(text).unwrap_err(), "expected more than 0 and at most 3600 seconds", "{text}");
        }
        assert_eq!(seconds("soon").unwrap_err(), "expected seconds, such as 5 or 0.5");
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
            "invalid value 'alwys' for '--color <WHEN>' [possible values: auto, always, never]; \
             tip: a similar value exists: 'always'"
        );
        assert_eq!(
            line(&["--fliter", "x"]),
            "unexpected argument '--fliter' found; tip: a similar argument exists: '--filter'"
        );
        assert_eq!(line(&["--json"]), "the following required arguments were not provided: --once");
        assert_eq!(line(&["--run"]), "a value is required for '--run <SCENARIO>' but none was supplied");
        assert_eq!(line(&["--demo", "kv"]), "the argument '--demo' cannot be used with '[TARGET]'");
        assert!(line(&["wss://host:1"]).contains("expected a node name"));
    }
}
