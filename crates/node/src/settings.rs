//! Settings of a runtime, in increasing priority: defaults, `rusm.toml`, `RUSM_*`, flags.
//!
//! Every command that starts a runtime reads all settings, including those that only concern a node with observers.
//! Every value passes the same check, whatever its origin, and an error names this origin. An unknown key is an error
//! that suggests the nearest known key: a setting that silently does nothing is worse than no setting.

pub(crate) mod app;
mod limits;
mod look;
pub(crate) mod origin;
pub(crate) mod size;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rusm_bench::Profile;
use rusm_console::{Lint, LintLevel, LintLevels, TickRate};
use rusm_log::Rotation;
use rusm_runtime::Config;
use rusm_store::Durability;
use thiserror::Error;

use crate::cli::NodeFlags;
use crate::settings::app::App;
use crate::settings::look::Look;
use crate::settings::origin::{AllGiven, from_environment, from_file, from_flags};
use crate::settings::size::{bytes_in_words, parse_bytes};

/// Default name of a node.
pub(crate) const DEFAULT_NAME: &str = "rusm";
/// Time that processes get to end when the node stops.
const DEFAULT_DRAIN: Duration = Duration::from_secs(10);

/// Number of earlier log files kept when `log.max_bytes` is set.
const LOG_FILES_KEPT: u32 = 3;
/// Minimum size of a rotated log file: a file smaller than the queue of lines would hold only one write.
const LOG_BYTES_MIN: u64 = rusm_log::QUEUE_BYTES as u64;

/// Log levels, from none to all.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A node's settings, all valid.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `None` if no name was set.
    pub(crate) name: Option<String>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) runtime: Config,
    pub(crate) tick: TickRate,
    pub(crate) lints: LintLevels,
    pub(crate) profile: Profile,
    pub(crate) drain: Duration,
    pub(crate) socket_dir: Option<PathBuf>,
    /// Settings of the durable store, if there is one.
    pub(crate) store: Option<StoreSettings>,
    pub(crate) log: LogSettings,
    /// Application that `rusm run` starts.
    pub(crate) app: App,
}

/// The durable store of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreSettings {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
}

/// Settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogSettings {
    pub(crate) level: String,
    pub(crate) file: Option<PathBuf>,
    pub(crate) rotation: Option<Rotation>,
    pub(crate) json: bool,
}

/// Error for invalid settings.
#[derive(Debug, Error)]
pub(crate) enum SettingsError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is not valid TOML: {reason}")]
    Toml { path: PathBuf, reason: String },
    #[error("unknown setting {key:?} in {origin}{suggestion}")]
    Unknown { key: String, origin: String, suggestion: String },
    #[error("{key} of {value} in {origin} must be {due}")]
    Type { key: &'static str, value: String, origin: String, due: &'static str },
    #[error("{key} of {value:?} in {origin} {wanted}")]
    Value { key: &'static str, value: String, origin: String, wanted: String },
    #[error("{key} is missing in {origin}")]
    Missing { key: &'static str, origin: String },
    #[error("{key} in {origin} must be {due}")]
    Shape { key: &'static str, origin: String, due: &'static str },
    #[error("two processes in {origin} are called {id:?}: give them different names")]
    Twice { id: String, origin: String },
    #[error("profile {name:?} in {origin} is built in: choose another name")]
    BuiltIn { name: String, origin: String },
    #[error(
        "{total} processes in {origin} exceed engine.capacity of {capacity}: lower process.count or raise engine.capacity"
    )]
    Crowd { origin: String, total: u64, capacity: u32 },
}

/// Maximum size of a settings file.
const FILE_MAX_BYTES: u64 = 16 << 20;

impl Settings {
    /// Reads and checks all settings from file, environment and flags.
    pub(crate) fn read(flags: &NodeFlags) -> Result<Self, SettingsError> {
        let mut given = AllGiven::new();
        let (path, required) = match &flags.common.config {
            Some(path) => (path.clone(), true),
            None => (PathBuf::from("rusm.toml"), false),
        };
        let sections = match rusm_text::read_file(&path, FILE_MAX_BYTES) {
            Ok(text) => from_file(&path, &text, &mut given)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => toml::Table::new(),
            Err(source) => return Err(SettingsError::Read { path, source }),
        };
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
        from_environment(environment, &mut given)?;
        from_flags(flags.given(), &mut given);
        Self::of(&given, App::read(&path, &sections)?)
    }

    fn of(given: &AllGiven, app: App) -> Result<Self, SettingsError> {
        let look = Look(given);
        let default = Config::default();
        let runtime = Config {
            schedulers: look.count("node.schedulers", 1, 64, default.schedulers as u64)? as usize,
            process_limit: look.count("node.process_limit", 1, 256_000_000, default.process_limit as u64)? as usize,
            mailbox_capacity: look.count(
                "node.mailbox_capacity",
                1,
                u64::from(u32::MAX),
                default.mailbox_capacity.into(),
            )? as u32,
            mailbox_bytes: look
                .bytes("node.mailbox_bytes", u64::from(u32::MAX))?
                .map_or(default.mailbox_bytes, |bytes| bytes as u32),
            mailbox_total_bytes: look
                .bytes("node.mailbox_total_bytes", u64::MAX)?
                .unwrap_or(default.mailbox_total_bytes),
            ..default
        };
        let tick = look.count("node.tick_hz", 10, 60, 20)?;
        Ok(Self {
            name: look.text("node.name").map(ToOwned::to_owned),
            listen: look.parsed(
                "node.listen",
                "must be a loopback address such as 127.0.0.1:4000",
                &[],
                parse_address,
            )?,
            runtime,
            tick: TickRate::from_hz(tick as u8).unwrap_or(TickRate::DEFAULT),
            lints: lints(&look)?,
            profile: look
                .parsed(
                    "node.profile",
                    "must be light, balanced or max",
                    &Profile::ALL.map(Profile::id),
                    Profile::of_id,
                )?
                .unwrap_or(rusm_bench::defaults::PROFILE),
            drain: look
                .parsed("node.drain", "must be a time such as 10s or 500ms", &[], parse_duration)?
                .unwrap_or(DEFAULT_DRAIN),
            socket_dir: look.text("node.socket_dir").map(PathBuf::from),
            store: store(&look)?,
            log: LogSettings {
                level: look
                    .parsed(
                        "log.level",
                        "must be a level (off, error, warn, info, debug, trace) or a filter such as \
                         rusm_runtime=debug",
                        &LEVELS,
                        check_level,
                    )?
                    .unwrap_or_else(|| "info".to_owned()),
                file: look.text("log.file").map(PathBuf::from),
                rotation: rotation(&look)?,
                json: look
                    .parsed("log.format", "must be text or json", &["text", "json"], |word| match word {
                        "text" => Some(false),
                        "json" => Some(true),
                        _ => None,
                    })?
                    .unwrap_or(false),
            },
            app,
        })
    }
}

/// Returns the rotation of the log file, if a size is set.
fn rotation(look: &Look<'_>) -> Result<Option<Rotation>, SettingsError> {
    let keep = look.count("log.keep", 0, 1_000, u64::from(LOG_FILES_KEPT))? as u32;
    let has_file = look.text("log.file").is_some();
    let parse = |text: &str| parse_bytes(text).filter(|bytes| has_file && *bytes >= LOG_BYTES_MIN);
    let wanted = format!("must be a size of at least {}, and log.file must be set", bytes_in_words(LOG_BYTES_MIN));
    let max_bytes = look.parsed("log.max_bytes", &wanted, &[], parse)?;
    Ok(max_bytes.map(|max_bytes| Rotation { max_bytes, keep }))
}

/// Returns the settings of the durable store, if a path is set.
fn store(look: &Look<'_>) -> Result<Option<StoreSettings>, SettingsError> {
    let words = [Durability::Immediate, Durability::Eventual, Durability::None].map(Durability::word);
    let durability = look.parsed("store.durability", "must be immediate, eventual or none", &words, |word| {
        word.parse::<Durability>().ok()
    })?;
    let path = look.text("store.path").map(PathBuf::from);
    Ok(path.map(|path| StoreSettings { path, durability: durability.unwrap_or_default() }))
}

/// Returns the level of each lint; a key is `lint.` followed by the id.
fn lints(look: &Look<'_>) -> Result<LintLevels, SettingsError> {
    let keys = [
        (Lint::Stuck, "lint.stuck"),
        (Lint::NeverYields, "lint.never_yields"),
        (Lint::RestartStorm, "lint.restart_storm"),
        (Lint::MailboxGrowing, "lint.mailbox_growing"),
    ];
    let mut levels = LintLevels::default();
    for (lint, key) in keys {
        let level = look.parsed(key, "must be warn or allow", &["warn", "allow"], LintLevel::of_word)?;
        levels = levels.with(lint, level.unwrap_or_default());
    }
    Ok(levels)
}

/// Parses `127.0.0.1:4000`, `[::1]:4000`, `localhost:4000`, or a port alone.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let full = match text.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => text.replace("localhost:", "127.0.0.1:"),
    };
    full.parse().ok()
}

/// Parses `500ms`, `10s`, `2m`, `1h`; a bare number is in seconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = digits.trim().parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration <= Duration::from_hours(7 * 24))
}

/// Accepts a level, or directives that each end in a level. The filter's own parser would also accept an incomplete
/// directive, and then nothing would be logged.
fn check_level(text: &str) -> Option<String> {
    let says_a_level = |directive: &str| LEVELS.contains(&directive.rsplit('=').next().unwrap_or("").trim());
    let good = text.split(',').all(says_a_level) && tracing_subscriber::EnvFilter::try_new(text).is_ok();
    good.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn fuzz_files_and_the_environment() {
        const APP: &str = include_str!("../tests/seeds/app.toml");
        let words = [
            "[node]\n",
            "[[process]]\n",
            "= \"",
            "true",
            "[profile.x]\n",
            "\"16MiB\"",
            "10s",
            "limits.",
            "= [\"*\"]\n",
        ];
        rusm_fuzz::Fuzz::new("settings").seed(APP).words(&words).run(|input| {
            let text = String::from_utf8_lossy(input);
            let word: String = text.chars().rev().take(20).filter(|character| *character != '\0').collect();
            for variables in [&[][..], &[("RUSM_LISTEN", word.as_str()), ("RUSM_LOG", &word), ("RUSM_DRAIN", &word)]] {
                if let Err(error) = settings(&text, variables) {
                    assert!(!error.to_string().is_empty());
                }
            }
        });
    }

    fn settings(file: &str, environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let mut given = AllGiven::new();
        let path = Path::new("rusm.toml");
        let app = App::read(path, &from_file(path, file, &mut given)?)?;
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        from_environment(environment, &mut given)?;
        Settings::of(&given, app)
    }

    #[test]
    fn what_is_said_is_taken_and_the_rest_has_its_default() {
        let file = "[node]\nschedulers = 3\ntick_hz = 30\nlisten = true\n[log]\nlevel = \"debug\"";

        let read = settings(file, &[("RUSM_SCHEDULERS", "5"), ("RUSM_TOP_FPS", "4"), ("HOME", "/")]).unwrap();

        assert_eq!(read.runtime.schedulers, 5);
        assert_eq!(read.tick, TickRate::from_hz(30).unwrap());
        assert_eq!(read.listen, Some("127.0.0.1:4000".parse().unwrap()));
        assert_eq!(read.log.level, "debug");
        assert_eq!((read.name, read.drain), (None, Duration::from_secs(10)));
    }

    #[test]
    fn a_bad_value_is_named_with_its_origin_and_what_would_be_right() {
        let error = |file: &str, environment: &[(&str, &str)]| settings(file, environment).unwrap_err().to_string();

        assert_eq!(
            error("", &[("RUSM_SCHEDULERS", "many")]),
            "node.schedulers of \"many\" in RUSM_SCHEDULERS must be a number between 1 and 64"
        );
        assert_eq!(
            error("[node]\ntick_hz = 9", &[]),
            "node.tick_hz of \"9\" in rusm.toml must be a number between 10 and 60"
        );
        assert!(error("[node]\nlisten = \"here\"", &[]).contains("must be a loopback address"));
        assert!(error("[node\n", &[]).starts_with("rusm.toml is not valid TOML"));
    }

    #[test]
    fn a_word_that_is_nearly_right_is_answered_with_the_right_one() {
        let error = |variable: &str, word: &str| settings("", &[(variable, word)]).unwrap_err().to_string();

        assert_eq!(
            error("RUSM_PROFILE", "bal"),
            "node.profile of \"bal\" in RUSM_PROFILE must be light, balanced or max: did you mean \"balanced\"?"
        );
        assert!(error("RUSM_PROFILE", "xyzzy").ends_with("must be light, balanced or max"));
        assert!(error("RUSM_LOG", "debgu").ends_with(": did you mean \"debug\"?"));
        assert!(error("RUSM_LOG_FORMAT", "jsn").ends_with("must be text or json: did you mean \"json\"?"));
    }

    #[test]
    fn a_lint_is_allowed_by_name() {
        let read = settings("[lint]\nstuck = \"allow\"\nmailbox_growing = \"allow\"", &[("RUSM_LINT_STUCK", "warn")]);

        let allowed = Lint::ALL.map(|lint| read.as_ref().unwrap().lints.level(lint) == LintLevel::Allow);
        assert_eq!(allowed, Lint::ALL.map(|lint| lint == Lint::MailboxGrowing));
        assert_eq!(
            settings("[lint]\nstuck = \"alow\"", &[]).unwrap_err().to_string(),
            "lint.stuck of \"alow\" in rusm.toml must be warn or allow: did you mean \"allow\"?"
        );
        assert_eq!(
            settings("[lint]\nstuk = \"allow\"", &[]).unwrap_err().to_string(),
            "unknown setting \"lint.stuk\" in rusm.toml: did you mean \"lint.stuck\"?"
        );
    }

    #[test]
    fn a_store_is_there_when_it_has_a_path() {
        let read = settings("[store]\npath = \"node.redb\"", &[("RUSM_STORE_DURABILITY", "eventual")]).unwrap();

        let expected = StoreSettings { path: PathBuf::from("node.redb"), durability: Durability::Eventual };
        assert_eq!((read.store, settings("", &[]).unwrap().store), (Some(expected), None));
        assert_eq!(
            settings("[store]\npath = \"a\"\ndurability = \"imediate\"", &[]).unwrap_err().to_string(),
            "store.durability of \"imediate\" in rusm.toml must be immediate, eventual or none: did you mean \"immediate\"?"
        );
    }

    #[test]
    fn a_filter_of_the_log_says_a_level_in_each_part() {
        for good in ["warn", "off", "rusm_runtime=debug", "warn,rusm_runtime=debug", "info,a[b{c=1}]=trace"] {
            assert_eq!(check_level(good).as_deref(), Some(good));
        }
        for bad in ["", "loud", "bogus=,", "bogus=", "warn,", "loud,rusm_runtime=debug", "a=b=info,=", "a=loud"] {
            assert_eq!(check_level(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_read_in_the_usual_units() {
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(parse_duration("3"), Some(Duration::from_secs(3)));
        for bad in ["", "s", "-1s", "1d", "1e9h", "NaNs"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
