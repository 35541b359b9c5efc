//! The commands of the palette: one table for parsing, completion and the help.
//!
//! ```text
//!   ":gt 44" ──▶ candidates: lines of the table with letters in this order ──▶ parse(line) ──▶ Order
//! ```

use std::ops::RangeInclusive;
use std::time::Duration;

use rusm_protocol::{Column, ProcessFilter, SortKey};
use rusm_text::suggestion;

use crate::model::input::keys::Action;
use crate::model::panes::columns;
use crate::model::tab::Tab;

/// Argument of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    None,
    View,
    Column,
    Process,
    Scenario,
    Profile,
    Filter,
    Level,
    File,
    Time,
}

impl Argument {
    /// Returns the word for the argument in the help.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::View => "VIEW",
            Self::Column => "COLUMN",
            Self::Process => "PID or NAME",
            Self::Scenario => "SCENARIO",
            Self::Profile => "PROFILE",
            Self::Filter => "FILTER",
            Self::Level => "LEVEL",
            Self::File => "FILE",
            Self::Time => "TIME",
        }
    }
}

/// A command: its name, its argument, and what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) argument: Argument,
    pub(crate) help: &'static str,
    /// The action of a command without an argument.
    action: Option<Action>,
}

const fn with(name: &'static str, argument: Argument, help: &'static str) -> Command {
    Command { name, argument, help, action: None }
}

const fn plain(name: &'static str, action: Action, help: &'static str) -> Command {
    Command { name, argument: Argument::None, help, action: Some(action) }
}

/// All commands.
pub(crate) static COMMANDS: [Command; 23] = [
    with("goto", Argument::Process, "show a process"),
    with("view", Argument::View, "show a view"),
    with("sort", Argument::Column, "sort the processes; -COLUMN reverses the order"),
    with("filter", Argument::Filter, "filter the processes on the node"),
    with("kill", Argument::Process, "end a process (asks first)"),
    with("run", Argument::Scenario, "run a scenario"),
    plain("stop", Action::Stop, "stop the run"),
    plain("pause-run", Action::PauseRun, "pause the run, or continue it"),
    with("profile", Argument::Profile, "select a resource profile"),
    plain("follow", Action::Follow, "keep the selected process in view"),
    plain("level", Action::Level, "show only events of a higher level"),
    with("log-level", Argument::Level, "change the level of the node's log"),
    plain("log", Action::LogLines, "show the log between the events"),
    plain("pause", Action::Pause, "freeze the screen, not the node"),
    with("interval", Argument::Time, "change the time between two frames: 20ms to 10s"),
    plain("save", Action::SaveScreen, "save the screen as a text file"),
    plain("export-trace", Action::ExportTrace, "save the time of the charts as a Chrome trace"),
    with("open", Argument::File, "show a recording; q returns"),
    plain("copy", Action::Copy, "copy the pid or a summary"),
    plain("help", Action::Help, "keys, commands and terms"),
    plain("retry", Action::Retry, "reconnect now"),
    plain("repaint", Action::Repaint, "redraw every cell"),
    plain("quit", Action::Quit, "quit; :q does the same"),
];

/// Shortest and longest time between two frames.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(10);

/// Levels of a log, from none to all.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Names that arguments may have on this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownNames {
    pub(crate) scenarios: Vec<String>,
    pub(crate) profiles: Vec<String>,
    /// Processes on the page: pid and name.
    pub(crate) processes: Vec<(String, String)>,
}

/// The request of a command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    Do(Action),
    /// Show the process with this pid.
    Goto(String),
    /// Show the processes of a filter.
    Find(String),
    Kill(String),
    Sort(SortKey),
    Filter(String),
    Run(String),
    Profile(String),
    /// Replace the filter of the node's log.
    LogFilter(String),
    /// Show a recording.
    Open(String),
    /// Change the time between two frames.
    Interval(Duration),
}

/// A line that the palette offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) line: String,
    pub(crate) help: String,
    /// True if the line lacks its argument.
    pub(crate) is_open: bool,
}

/// Parses a command line.
///
/// # Errors
/// One line that says what is wrong and what is valid.
pub(crate) fn parse(line: &str, known: &KnownNames) -> Result<Order, String> {
    let line = line.trim().trim_start_matches(':').trim_start();
    let (name, argument) = line.split_once(char::is_whitespace).map_or((line, ""), |(name, rest)| (name, rest.trim()));
    let name = if name == "q" { "quit" } else { name };
    let all_names = || COMMANDS.iter().map(|command| command.name).collect::<Vec<_>>();
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return Err(format!("unknown command {name:?}: {}", suggestion(name, &all_names())));
    };
    if let Some(action) = command.action {
        return if argument.is_empty() { Ok(Order::Do(action)) } else { Err(format!("{name} takes no argument")) };
    }
    if argument.is_empty() {
        return Err(format!("{name} needs an argument: {name} {}", command.argument.word()));
    }
    let one_of = |all: &[String], what: &str| match all.iter().find(|known| *known == argument) {
        Some(found) => Ok(found.clone()),
        None => Err(format!("unknown {what} {argument:?}: {}", suggestion(argument, all))),
    };
    match command.argument {
        Argument::View => {
            let tab = Tab::from_id(&argument.to_lowercase()).ok_or_else(|| {
                let ids: Vec<&str> = Tab::ALL.iter().map(|tab| tab.id()).collect();
                format!("unknown view {argument:?}: {}", suggestion(argument, &ids))
            })?;
            Ok(Order::Do(Action::Show(tab)))
        }
        Argument::Column => {
            let (word, is_reversed) = argument.strip_prefix('-').map_or((argument, false), |word| (word, true));
            let key = column(word).ok_or_else(|| {
                format!("unknown column {word:?}: {}", suggestion(word, &Column::ALL.map(Column::word)))
            })?;
            Ok(Order::Sort(SortKey { key, desc: columns::falls(key) != is_reversed }))
        }
        Argument::Filter => match ProcessFilter::parse(argument) {
            Ok(_) => Ok(Order::Filter(argument.to_owned())),
            Err(error) => Err(error.to_string()),
        },
        // The node checks directives such as `info,rusm_store=trace`.
        Argument::Level if LEVELS.contains(&argument) || argument.contains('=') => {
            Ok(Order::LogFilter(argument.to_owned()))
        }
        Argument::Level => Err(format!("unknown level {argument:?}: {}", suggestion(argument, &LEVELS))),
        Argument::File => Ok(Order::Open(argument.to_owned())),
        Argument::Time => interval(argument).map(Order::Interval),
        Argument::Scenario => one_of(&known.scenarios, "scenario").map(Order::Run),
        Argument::Profile => one_of(&known.profiles, "profile").map(Order::Profile),
        Argument::Process | Argument::None => {
            let is_pid = argument.starts_with('<') && argument.ends_with('>') && argument.matches('.').count() == 2;
            let found = known.processes.iter().find(|(pid, name)| pid == argument || name == argument);
            let pid = found.map(|(pid, _)| pid.clone()).or_else(|| is_pid.then(|| argument.to_owned()));
            match (name, pid) {
                ("kill", Some(pid)) => Ok(Order::Kill(pid)),
                ("kill", None) => {
                    Err(format!("no process {argument:?} on this page; a pid such as <0.17.1> reaches each"))
                }
                (_, Some(pid)) => Ok(Order::Goto(pid)),
                (_, None) => match ProcessFilter::parse(argument) {
                    Ok(_) => Ok(Order::Find(argument.to_owned())),
                    Err(error) => Err(error.to_string()),
                },
            }
        }
    }
}

/// Parses the time between two frames.
///
/// # Errors
/// One line that says what is valid.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.trim_end_matches('s'), 1.0),
    };
    let number: f64 = number.parse().map_err(|_no_number| "expected a time, such as 250ms or 2s".to_owned())?;
    let time = Duration::try_from_secs_f64(number * unit).ok();
    time.filter(|time| INTERVALS.contains(time)).ok_or_else(|| "expected 20ms to 10s".to_owned())
}

/// Returns the column with a name: its word on the wire, its heading, or a usual short form.
fn column(word: &str) -> Option<Column> {
    let word = word.to_ascii_lowercase();
    let heading = |column: Column| columns::heading(column).to_ascii_lowercase();
    let known = Column::ALL.into_iter().find(|column| column.word() == word || heading(*column) == word);
    known.or(match word.as_str() {
        "cpu" | "busy" => Some(Column::BusyPct),
        "memory" => Some(Column::MemoryBytes),
        "mailbox" => Some(Column::MailboxLen),
        _ => None,
    })
}

/// Returns the lines that match what was typed, the best first.
pub(crate) fn candidates(typed: &str, known: &KnownNames) -> Vec<Candidate> {
    let typed = typed.trim_start_matches(':');
    let mut found: Vec<(i64, Candidate)> = all(known)
        .into_iter()
        .filter_map(|candidate| score(typed, &candidate.line).map(|score| (score, candidate)))
        .collect();
    if !typed.is_empty() {
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    }
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns every line that the palette knows.
fn all(known: &KnownNames) -> Vec<Candidate> {
    let mut out = Vec::new();
    for command in &COMMANDS {
        let help = command.help.to_owned();
        if command.argument == Argument::None {
            out.push(Candidate { line: command.name.to_owned(), help, is_open: false });
            continue;
        }
        let help_of_line = format!("{}: {help}", command.argument.word());
        out.push(Candidate { line: format!("{} ", command.name), help: help_of_line, is_open: true });
        let mut add = |argument: &str, help: &str| {
            let line = format!("{} {argument}", command.name);
            out.push(Candidate { line, help: help.to_owned(), is_open: false });
        };
        match command.argument {
            Argument::View => {
                for tab in Tab::ALL {
                    add(tab.id(), "");
                }
            }
            Argument::Column => {
                add("cpu", "by busy share");
                for column in Column::ALL {
                    add(column.word(), &format!("by {}", columns::label(column)));
                }
            }
            Argument::Level => {
                for level in LEVELS {
                    add(level, "");
                }
            }
            Argument::Scenario | Argument::Profile => {
                let is_scenario = command.argument == Argument::Scenario;
                for id in if is_scenario { &known.scenarios } else { &known.profiles } {
                    add(id, "");
                }
            }
            Argument::Process => {
                for (pid, name) in &known.processes {
                    add(pid, name);
                }
            }
            Argument::Time => {
                for time in ["100ms", "500ms", "1s", "2s"] {
                    add(time, "");
                }
            }
            Argument::Filter | Argument::File | Argument::None => {}
        }
    }
    out
}

/// Returns how well a line matches: its letters must contain the typed ones in their order. Letters in a row and at
/// the beginning of a word count more; `None` if the line does not match.
fn score(typed: &str, line: &str) -> Option<i64> {
    let letters: Vec<char> = line.to_lowercase().chars().collect();
    let (mut at, mut score, mut last) = (0, 0, None);
    for c in typed.to_lowercase().chars() {
        let found = at + letters[at..].iter().position(|letter| *letter == c)?;
        let is_start = found == 0 || matches!(letters[found - 1], ' ' | '_' | '-' | '<' | '.');
        let is_next = last.is_some_and(|last: usize| last + 1 == found);
        score += 1 + 4 * i64::from(is_next) + 3 * i64::from(is_start) + 4 * i64::from(found == 0);
        (last, at) = (Some(found), found + 1);
    }
    Some(score * 8 - i64::from(letters.len().min(100) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> KnownNames {
        KnownNames {
            scenarios: vec!["spawn-storm".to_owned(), "ping-pong".to_owned()],
            profiles: vec!["balanced".to_owned(), "max".to_owned()],
            processes: vec![("<0.44.1>".to_owned(), "kv_writer".to_owned())],
        }
    }

    #[test]
    fn lines_become_orders() {
        let cases = [
            ("goto <0.44.2>", Order::Goto("<0.44.2>".to_owned())),
            (":goto kv_writer", Order::Goto("<0.44.1>".to_owned())),
            ("goto <0.44>", Order::Find("<0.44>".to_owned())),
            ("sort cpu", Order::Sort(SortKey { key: Column::BusyPct, desc: true })),
            ("sort -age", Order::Sort(SortKey { key: Column::AgeMs, desc: false })),
            ("view topics", Order::Do(Action::Show(Tab::Topics))),
            ("run ping-pong", Order::Run("ping-pong".to_owned())),
            ("interval 500ms", Order::Interval(Duration::from_millis(500))),
            ("open a b.rec", Order::Open("a b.rec".to_owned())),
            ("export-trace", Order::Do(Action::ExportTrace)),
            ("log-level debug", Order::LogFilter("debug".to_owned())),
            ("log-level info,rusm_store=trace", Order::LogFilter("info,rusm_store=trace".to_owned())),
            ("profile max", Order::Profile("max".to_owned())),
            ("filter mem>1MB or name~kv", Order::Filter("mem>1MB or name~kv".to_owned())),
            ("kill <0.44.1>", Order::Kill("<0.44.1>".to_owned())),
            ("q", Order::Do(Action::Quit)),
            (" :quit ", Order::Do(Action::Quit)),
        ];
        for (line, order) in cases {
            assert_eq!(parse(line, &known()), Ok(order), "{line}");
        }
    }

    #[test]
    fn an_interval_has_a_unit() {
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("11s").unwrap_err(), "expected 20ms to 10s");
        assert_eq!(interval("-1").unwrap_err(), "expected 20ms to 10s");
        assert_eq!(interval("soon").unwrap_err(), "expected a time, such as 250ms or 2s");
    }

    #[test]
    fn errors_say_what_is_valid() {
        let error = |line: &str| parse(line, &known()).unwrap_err();

        assert_eq!(error("gto 5"), "unknown command \"gto\": did you mean \"goto\"?");
        assert_eq!(error("view"), "view needs an argument: view VIEW");
        assert_eq!(error("view topcs"), "unknown view \"topcs\": did you mean \"topics\"?");
        assert_eq!(error("log-level inof"), "unknown level \"inof\": did you mean \"info\"?");
        assert_eq!(error("quit now"), "quit takes no argument");
        assert_eq!(error("run storm"), "unknown scenario \"storm\": expected one of spawn-storm, ping-pong");
        assert_eq!(error("filter mem>"), "a value is missing after mem>");
        assert_eq!(error("kill 7"), "no process \"7\" on this page; a pid such as <0.17.1> reaches each");
    }

    #[test]
    fn a_few_letters_find_a_line() {
        let first =
            |typed: &str| candidates(typed, &known()).first().map(|found| found.line.clone()).unwrap_or_default();

        for (typed, line) in [
            ("q", "quit"),
            ("vto", "view topics"),
            ("topics", "view topics"),
            ("rpp", "run ping-pong"),
            ("scpu", "sort cpu"),
            ("max", "profile max"),
            ("g", "goto "),
        ] {
            assert_eq!(first(typed), line, "{typed}");
        }
        assert!(candidates("xyzzy", &known()).is_empty());
        assert!(candidates("", &known()).len() > COMMANDS.len());
    }

    #[test]
    fn every_line_that_is_offered_is_understood() {
        for candidate in candidates("", &known()) {
            assert_eq!(parse(&candidate.line, &known()).is_err(), candidate.is_open, "{}", candidate.line);
        }
    }
}
