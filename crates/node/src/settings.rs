//! Settings of a runtime, in increasing priority: defaults, `rusm.toml`, `RUSM_*`, flags.
//!
//! Every command that starts a runtime reads all settings, including those that only concern a node with observers.
//! Every value passes the same check, whatever its origin, and an error names this origin. An unknown key is an error
//! that suggests the nearest known key: a setting that silently does nothing is worse than no setting.

pub(crate) mod app;
pub(crate) mod cluster;
mod conflicts;
mod error;
mod layers;
mod limits;
mod lints;
pub(crate) mod otlp;
mod profile;
pub(crate) mod raw;
pub(crate) mod serve;
pub(crate) mod size;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rusm_bench::Profile;
use rusm_console::{LintLevel, LintLevels, LintThresholds, RecorderConfig, TickRate};
use rusm_log::{LEVELS, Rotation};
use rusm_runtime::Config;
use rusm_store::{Durability, defaults};
use serde::Deserialize;

use crate::cli::NodeFlags;
use crate::settings::app::App;
use crate::settings::cluster::{ClusterSection, ClusterSettings};
use crate::settings::conflicts::shared_file;
pub(crate) use crate::settings::error::SettingsError;
use crate::settings::layers::{from_environment, from_file, from_flags};
use crate::settings::limits::U32_MAX;
use crate::settings::lints::LintSection;
use crate::settings::otlp::{OtlpSection, OtlpSettings};
use crate::settings::raw::{Given, RawSetting, RawSettings, did_you_mean, section};
use crate::settings::size::format_bytes;
pub(crate) use crate::settings::value::parse_duration;
use crate::settings::value::{Address, NodeName, Number, PathText, Size, Time, Word, Words, size};

/// Default name of a node.
pub(crate) const DEFAULT_NAME: &str = "rusm";
/// Time that processes get to end when the node stops.
const DEFAULT_DRAIN: Duration = Duration::from_secs(10);

/// Number of earlier log files kept when `log.max_bytes` is set.
const LOG_FILES_KEPT: u32 = 3;
/// Minimum size of a rotated log file: a file smaller than the queue of lines would hold only one write.
const LOG_BYTES_MIN: u64 = rusm_log::QUEUE_BYTES as u64;

/// A node's settings, all valid.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `None` if no name was set.
    pub(crate) name: Option<String>,
    pub(crate) listen: Option<SocketAddr>,
    /// True if observers cannot change the node.
    pub(crate) read_only: bool,
    pub(crate) runtime: Config,
    pub(crate) tick: TickRate,
    pub(crate) lints: LintLevels,
    pub(crate) lint_thresholds: LintThresholds,
    pub(crate) recorder: RecorderConfig,
    pub(crate) profile: Profile,
    pub(crate) drain: Duration,
    pub(crate) socket_dir: Option<PathBuf>,
    /// Settings of the durable store, if there is one.
    pub(crate) store: Option<StoreSettings>,
    /// How the node joins others, if it does.
    pub(crate) cluster: Option<ClusterSettings>,
    pub(crate) log: LogSettings,
    /// Export to a collector, if there is one.
    pub(crate) otlp: Option<OtlpSettings>,
    /// Application that `rusm run` starts.
    pub(crate) app: App,
    /// The values from which all of these were read.
    pub(crate) given: Given,
}

/// The durable store of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreSettings {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) cache_bytes: usize,
}

/// Settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogSettings {
    pub(crate) level: String,
    pub(crate) file: Option<PathBuf>,
    pub(crate) rotation: Option<Rotation>,
    pub(crate) json: bool,
}

/// `[node]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NodeSection {
    name: Option<NodeName>,
    listen: Option<Address>,
    observers: Option<Word<ObserverRole>>,
    schedulers: Option<Number<1, 64>>,
    process_limit: Option<Number<1, 256_000_000>>,
    mailbox_capacity: Option<Number<1, U32_MAX>>,
    mailbox_bytes: Option<Size<U32_MAX>>,
    mailbox_total_bytes: Option<Size<{ u64::MAX }>>,
    tick_hz: Option<Number<10, 60>>,
    profile: Option<Word<Profile>>,
    drain: Option<Time>,
    socket_dir: Option<PathText>,
}

/// `[recorder]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RecorderSection {
    span: Option<Time>,
    memory_bytes: Option<Size<{ 1 << 30 }>>,
}

/// `[store]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StoreSection {
    path: Option<PathText>,
    durability: Option<Word<Durability>>,
    cache: Option<Size<{ 1 << 40 }>>,
}

/// `[log]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LogSection {
    level: Option<LogLevel>,
    file: Option<PathText>,
    format: Option<Word<LogFormat>>,
    max_bytes: Option<RawSetting>,
    keep: Option<Number<0, 1_000>>,
}

/// Maximum size of a settings file.
const FILE_MAX_BYTES: u64 = 16 << 20;

impl Settings {
    /// Returns the settings of the export of a node of this name, or of the name in the settings.
    pub(crate) fn exporter(&self, default_name: &str) -> Option<OtlpSettings> {
        otlp::of_node(self.otlp.as_ref(), self.name.as_deref().unwrap_or(default_name))
    }

    /// Reads and checks all settings from file, environment and flags.
    pub(crate) fn read(flags: &NodeFlags) -> Result<Self, SettingsError> {
        let mut given = RawSettings::new();
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
        let settings = Self::of(&given, &path.display().to_string(), App::read(&path, &sections)?)?;
        Ok(Self { given: Given { values: given, sections }, ..settings })
    }

    fn of(given: &RawSettings, origin: &str, app: App) -> Result<Self, SettingsError> {
        check_needs(given)?;
        let node: NodeSection = section(given, "node", origin)?;
        let lints: LintSection = section(given, "lint", origin)?;
        let default = Config::default();
        let name = node.name.map(|name| name.0);
        let settings = Self {
            runtime: Config {
                schedulers: node.schedulers.map_or(default.schedulers, |threads| threads.0 as usize),
                process_limit: node.process_limit.map_or(default.process_limit, |processes| processes.0 as usize),
                mailbox_capacity: node.mailbox_capacity.map_or(default.mailbox_capacity, |messages| messages.0 as u32),
                mailbox_bytes: node.mailbox_bytes.map_or(default.mailbox_bytes, |bytes| bytes.0 as u32),
                mailbox_total_bytes: node.mailbox_total_bytes.map_or(default.mailbox_total_bytes, |bytes| bytes.0),
                ..default
            },
            listen: node.listen.and_then(|address| address.0),
            read_only: matches!(node.observers, Some(Word(ObserverRole::Observe))),
            tick: node.tick_hz.and_then(|hz| TickRate::from_hz(hz.0 as u8).ok()).unwrap_or(TickRate::DEFAULT),
            lints: lints.levels(),
            lint_thresholds: lints.thresholds(),
            recorder: section::<RecorderSection>(given, "recorder", origin)?.config(),
            profile: node.profile.map_or(rusm_bench::defaults::PROFILE, |profile| profile.0),
            drain: node.drain.map_or(DEFAULT_DRAIN, |time| time.0),
            socket_dir: node.socket_dir.map(|dir| dir.0),
            store: section::<StoreSection>(given, "store", origin)?.settings(),
            cluster: section::<ClusterSection>(given, "cluster", origin)?.settings(),
            log: section::<LogSection>(given, "log", origin)?.settings()?,
            otlp: section::<OtlpSection>(given, "otlp", origin)?.settings()?,
            app,
            name,
            given: Given::default(),
        };
        let kept = settings.log.rotation.map(|rotation| rotation.keep);
        if let (Some(log), Some(store)) = (&settings.log.file, &settings.store)
            && let Some(file) = shared_file(log, kept, &store.path)
        {
            let origins = ["log.file", "store.path"].map(|key| given.get(key).map_or(origin, RawSetting::origin));
            return Err(SettingsError::Invalid(format!(
                "log.file in {} and store.path in {} have one file in common, {}: the log would destroy the store",
                origins[0],
                origins[1],
                file.display()
            )));
        }
        Ok(settings)
    }
}

/// Settings that need another one.
const NEEDS: [(&str, &str); 3] =
    [("store.durability", "store.path"), ("store.cache", "store.path"), ("log.keep", "log.max_bytes")];

fn check_needs(given: &RawSettings) -> Result<(), SettingsError> {
    for (key, needed) in NEEDS {
        if let Some(raw) = given.get(key).filter(|_| !given.contains_key(needed)) {
            return Err(raw.invalid(&format!("needs {needed}: set it too")));
        }
    }
    Ok(())
}

impl RecorderSection {
    fn config(&self) -> RecorderConfig {
        let default = RecorderConfig::default();
        RecorderConfig {
            span: self.span.map_or(default.span, |span| span.0),
            memory_bytes: self.memory_bytes.map_or(default.memory_bytes, |bytes| bytes.0 as usize),
        }
    }
}

impl StoreSection {
    /// Returns the settings of the durable store, if a path is set.
    fn settings(self) -> Option<StoreSettings> {
        let durability = self.durability.map(|durability| durability.0).unwrap_or_default();
        // An eighth of the memory: messages and guests may have the rest.
        let usual = || (rusm_runtime::defaults::mailbox_total_bytes() as usize / 2).min(defaults::CACHE_BYTES);
        let cache_bytes = self.cache.map_or_else(usual, |bytes| bytes.0 as usize);
        self.path.map(|path| StoreSettings { path: path.0, durability, cache_bytes })
    }
}

impl LogSection {
    fn settings(self) -> Result<LogSettings, SettingsError> {
        let keep = self.keep.map_or(LOG_FILES_KEPT, |files| files.0 as u32);
        let max_bytes = self.max_bytes.map(|raw| rotated_bytes(&raw, self.file.is_some())).transpose()?;
        Ok(LogSettings {
            level: self.level.map_or_else(|| "info".to_owned(), |level| level.0),
            file: self.file.map(|file| file.0),
            rotation: max_bytes.map(|max_bytes| Rotation { max_bytes, keep }),
            json: matches!(self.format, Some(Word(LogFormat::Json))),
        })
    }
}

/// Returns the size at which the log file is rotated.
fn rotated_bytes(raw: &RawSetting, has_file: bool) -> Result<u64, SettingsError> {
    size(raw)?.filter(|bytes| has_file && *bytes >= LOG_BYTES_MIN).ok_or_else(|| {
        raw.invalid(&format!("must be a size of at least {}, and log.file must be set", format_bytes(LOG_BYTES_MIN)))
    })
}

/// Permissions of observers on this node, whatever their token.
#[derive(Clone, Copy, Debug)]
enum ObserverRole {
    Control,
    Observe,
}

impl Words for ObserverRole {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("control", Self::Control), ("observe", Self::Observe)]
    }
}

impl Words for Profile {
    fn words() -> Vec<(&'static str, Self)> {
        Self::ALL.map(|profile| (profile.id(), profile)).to_vec()
    }
}

impl Words for Durability {
    fn words() -> Vec<(&'static str, Self)> {
        [Self::Immediate, Self::Eventual, Self::None].map(|durability| (durability.word(), durability)).to_vec()
    }
}

impl Words for LintLevel {
    fn words() -> Vec<(&'static str, Self)> {
        [Self::Warn, Self::Allow].map(|level| (level.word(), level)).to_vec()
    }
}

#[derive(Clone, Copy, Debug)]
enum LogFormat {
    Text,
    Json,
}

impl Words for LogFormat {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("text", Self::Text), ("json", Self::Json)]
    }
}

/// A level, or directives that each end in a level.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct LogLevel(String);

impl TryFrom<RawSetting> for LogLevel {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let text = raw.text()?;
        if rusm_log::parse_filter(text).is_ok() {
            return Ok(Self(text.to_owned()));
        }
        let meant = did_you_mean(text, LEVELS);
        Err(raw
            .invalid(&format!("must be a level ({}) or a filter such as rusm_runtime=debug{meant}", LEVELS.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use rusm_console::Lint;

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

    pub(super) fn settings(file: &str, environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let mut given = RawSettings::new();
        let path = Path::new("rusm.toml");
        let app = App::read(path, &from_file(path, file, &mut given)?)?;
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        from_environment(environment, &mut given)?;
        Settings::of(&given, "rusm.toml", app)
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
        assert_eq!(
            error("[node]\nname = \"../up\"", &[]),
            "node.name of \"../up\" in rusm.toml must be 1 to 64 letters, digits, '-', '_' or '.', and start with a \
             letter or digit"
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
    fn a_threshold_of_a_lint_is_set_and_checked() {
        let text = "[lint]\nhog_pct = 70\nwait_cycle_after = \"3s\"\nmemory_slope_per_min = \"64MiB\"";
        let read = settings(text, &[("RUSM_LINT_MAILBOX_GROWING_LEN", "1000")]).unwrap().lint_thresholds;

        let expected = LintThresholds {
            hog_pct: 70,
            wait_cycle_after: Duration::from_secs(3),
            memory_slope_per_min: 64 << 20,
            mailbox_growing_len: 1_000,
            ..LintThresholds::DEFAULT
        };
        assert_eq!(read, expected);
        assert_eq!(
            settings("[lint]\nhog_pct = 101", &[]).unwrap_err().to_string(),
            "lint.hog_pct of \"101\" in rusm.toml must be a number between 1 and 100"
        );
    }

    #[test]
    fn a_store_is_there_when_it_has_a_path() {
        let text = "[store]\npath = \"node.redb\"\ncache = \"8MiB\"";
        let read = settings(text, &[("RUSM_STORE_DURABILITY", "eventual")]).unwrap();

        let path = PathBuf::from("node.redb");
        let expected = StoreSettings { path, durability: Durability::Eventual, cache_bytes: 8 << 20 };
        assert_eq!((read.store, settings("", &[]).unwrap().store), (Some(expected), None));
        assert_eq!(
            settings("[store]\npath = \"a\"\ndurability = \"imediate\"", &[]).unwrap_err().to_string(),
            "store.durability of \"imediate\" in rusm.toml must be immediate, eventual or none: did you mean \"immediate\"?"
        );
    }

    #[test]
    fn the_log_is_another_file_than_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let (store, link) = (dir.path().join("node.redb"), dir.path().join("link.log"));
        std::fs::write(&store, "").unwrap();
        std::fs::hard_link(&store, &link).unwrap();
        let with = |log: &Path| {
            let text = format!("[store]\npath = {:?}\n[log]\nfile = {log:?}", store.as_path());
            settings(&text, &[]).map(drop).map_err(|error| error.to_string())
        };

        for log in [&store, &link] {
            assert!(with(log).unwrap_err().contains("have one file in common"), "{log:?}");
        }
        assert_eq!(with(&dir.path().join("other.log")), Ok(()));
    }

    #[test]
    fn an_empty_path_names_its_key() {
        for (file, key) in [("[store]\npath = \"\"", "store.path"), ("[log]\nfile = \"\"", "log.file")] {
            assert_eq!(
                settings(file, &[]).unwrap_err().to_string(),
                format!("{key} of \"\" in rusm.toml must be a path: leave the setting out if there is none")
            );
        }
    }

    #[test]
    fn times_read_in_the_usual_units() {
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(parse_duration("3"), Some(Duration::from_secs(3)));
        for bad in ["", "s", "-1s", "1w", "1e9h", "NaNs"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
