//! The command line of `rusm-top`.
//!
//! Each option is a flag, a variable `RUSM_TOP_NAME`, and a key of the config file, all of the same name.

mod arguments;
mod commands;
pub mod config;
pub mod environment;
pub(crate) mod options;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::cli::arguments::Colors;
pub use crate::cli::arguments::{Cli, ConfigTask, Task, one_line};
use crate::cli::config::Config;
use crate::cli::options::{Act, ColorChoice, Export, Once, Options, Source};
use crate::cli::values::{hidden_lints, switch};
use crate::connection::Target;
use crate::model::palette::ColorDepth;
use crate::model::panes::columns;
use crate::model::tab::Tab;

/// Seed of the demo.
const DEMO_SEED: u64 = 1;

/// Two options that set the same thing: one on the command line replaces the other in the file.
const RIVALS: [[&str; 2]; 1] = [["fps", "interval"]];

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
        let mut command = without_false_variables(Self::command());
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
        let print_as = match (self.all_views, self.json) {
            (true, _) => Once::AllViews,
            (_, true) => Once::Json,
            _ => Once::Text,
        };
        if self.json && !self.once && !self.batch && !self.diagnose {
            return Err("--json needs --once, --batch or --diagnose".to_owned());
        }
        let acts = self.acts()?;
        if self.read_only && (!acts.is_empty() || self.run.is_some() || self.profile.is_some()) {
            return Err("read-only: remove --run, --profile and what changes a node, or read_only".to_owned());
        }
        Ok(Options {
            acts,
            ssh: self.ssh.split_whitespace().map(str::to_owned).collect(),
            source: if let Some(path) = self.replay {
                Source::Replay { path, speed: self.speed }
            } else if self.demo {
                Source::Demo { seed: DEMO_SEED }
            } else {
                Source::Node(self.target.unwrap_or(Target::Discover))
            },
            beside: self.beside,
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
            guest_columns: self.guest_columns,
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

    /// Returns the commands to execute without a screen.
    fn acts(&self) -> Result<Vec<Act>, String> {
        let (reason, text) = values::reason(self.reason.as_deref());
        if self.reason.is_some() && self.kill.is_empty() && self.kill_all.is_none() {
            return Err("--reason needs --kill or --kill-all".to_owned());
        }
        if self.kill_all.is_some() && text.is_some() {
            return Err("--kill-all takes the reasons kill and shutdown only".to_owned());
        }
        let kill = |pid: &String| Act::Kill { pid: pid.clone(), reason, text: text.clone() };
        let mut acts: Vec<Act> = self.kill.iter().map(kill).collect();
        acts.extend(self.kill_all.clone().map(|filter| Act::KillAll { filter, reason }));
        acts.extend(self.stop.then_some(Act::Stop));
        acts.extend(self.set_log.clone().map(Act::LogFilter));
        let has_no_node = self.demo || self.replay.is_some();
        if has_no_node && !acts.is_empty() {
            return Err("commands such as --kill need a node: remove --demo and --replay".to_owned());
        }
        Ok(acts)
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

/// Removes from switches the variables that say no: the parser takes a switch with a variable for a given one.
fn without_false_variables(command: Command) -> Command {
    command.mut_args(|argument| {
        let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
        let value = argument.get_env().filter(|_| is_switch).and_then(std::env::var_os);
        let says_no = value.is_some_and(|value| value.to_str().map(switch) == Some(Ok(false)));
        if says_no { argument.env(None::<&str>) } else { argument }
    })
}

/// Makes the values of a file the defaults of a command, except for those with a rival that was given.
fn with_defaults(mut command: Command, config: &Config, given: &ArgMatches) -> Command {
    let is_given = |id: &str| {
        let source = given.value_source(id);
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let is_read_only = is_given("read_only") || config.values.iter().any(|(id, on)| id == "read_only" && on == "true");
    for (id, value) in &config.values {
        if id == "profile" && is_read_only {
            continue;
        }
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
        "beside",
        "once",
        "batch",
        "frames",
        "json",
        "all_views",
        "diagnose",
        "run",
        "kill",
        "kill_all",
        "reason",
        "stop",
        "set_log",
        "ssh",
        "record",
        "replay",
        "speed",
        "export_trace",
        "last",
    ];
    let command = elsewhere.into_iter().fold(without_false_variables(Cli::command()), |command, about| {
        command.mut_arg(about, |argument| argument.env(None::<&str>))
    });
    let given = command.clone().try_get_matches_from(["rusm-top"]).map_err(|error| one_line(&error))?;
    let named = given.get_one::<PathBuf>("config").map(PathBuf::as_path);
    let mut config = Config::load(named).map_err(|error| error.to_string())?;
    config.values.retain(|(id, _)| !elsewhere.contains(&id.as_str()));
    let matches = with_defaults(command, &config, &given).try_get_matches_from(["rusm-top"]);
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    cli.map_err(|error| one_line(&error))?.options(config)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusm_protocol::Column;

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
