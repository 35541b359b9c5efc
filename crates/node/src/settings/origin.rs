//! Reads settings from each origin, without checking their values.
//!
//! ```text
//!   rusm.toml ──▶ RUSM_* ──▶ flags ──▶ Given: key ─▶ (value, origin); a later origin overrides an earlier one
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use rusm_protocol::DEFAULT_PORT;
use toml::{Table, Value};

use crate::settings::{SettingsError, app};

/// Keys of the file, their names in the environment, and the forms of their values in the file.
const KEYS: [(&str, &str, Form); 22] = [
    ("node.name", "RUSM_NAME", Form::Text),
    ("node.listen", "RUSM_LISTEN", Form::Address),
    ("node.schedulers", "RUSM_SCHEDULERS", Form::Number),
    ("node.process_limit", "RUSM_PROCESS_LIMIT", Form::Number),
    ("node.mailbox_capacity", "RUSM_MAILBOX_CAPACITY", Form::Number),
    ("node.mailbox_bytes", "RUSM_MAILBOX_BYTES", Form::Size),
    ("node.mailbox_total_bytes", "RUSM_MAILBOX_TOTAL_BYTES", Form::Size),
    ("node.tick_hz", "RUSM_TICK_HZ", Form::Number),
    ("node.profile", "RUSM_PROFILE", Form::Text),
    ("node.drain", "RUSM_DRAIN", Form::Time),
    ("node.socket_dir", "RUSM_SOCKET_DIR", Form::Text),
    ("lint.stuck", "RUSM_LINT_STUCK", Form::Text),
    ("lint.never_yields", "RUSM_LINT_NEVER_YIELDS", Form::Text),
    ("lint.restart_storm", "RUSM_LINT_RESTART_STORM", Form::Text),
    ("lint.mailbox_growing", "RUSM_LINT_MAILBOX_GROWING", Form::Text),
    ("store.path", "RUSM_STORE", Form::Text),
    ("store.durability", "RUSM_STORE_DURABILITY", Form::Text),
    ("log.level", "RUSM_LOG", Form::Text),
    ("log.file", "RUSM_LOG_FILE", Form::Text),
    ("log.format", "RUSM_LOG_FORMAT", Form::Text),
    ("log.max_bytes", "RUSM_LOG_MAX_BYTES", Form::Size),
    ("log.keep", "RUSM_LOG_KEEP", Form::Number),
];

/// Variables of the observer. `rusm` knows them so that a mistyped one is an error; its own observer uses FPS and
/// ASCII.
const OBSERVER_VARIABLES: [&str; 6] =
    ["RUSM_TOP_TARGET", "RUSM_TOP_TOKEN_FILE", "RUSM_TOP_FPS", "RUSM_TOP_ASCII", "RUSM_TOP_LOG", "RUSM_TOP_LOG_FILE"];

/// Form of a value in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Number,
    /// `"10s"`, or a number of seconds.
    Time,
    /// `"127.0.0.1:4000"`, a port, or true or false.
    Address,
    /// `"16MiB"`, or a number of bytes.
    Size,
    /// True or false.
    Flag,
    /// A directory, or true for the default directory, or false for none.
    Place,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) value: String,
    pub(crate) origin: String,
}

/// The given values by key.
pub(crate) type AllGiven = BTreeMap<&'static str, Given>;

impl Form {
    pub(super) const fn due(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a whole number",
            Self::Time => "a string or a number",
            Self::Address => "a string, a port, true or false",
            Self::Size => "a number of bytes or a string such as \"16MiB\"",
            Self::Flag => "true or false",
            Self::Place => "a directory, true or false",
        }
    }

    /// Returns the value in the form used in the environment; `None` if its type is wrong, or if it sets nothing.
    pub(super) fn text(self, value: &Value) -> Option<String> {
        match (self, value) {
            (Self::Text | Self::Time | Self::Address | Self::Size | Self::Place, Value::String(text)) => {
                Some(text.clone())
            }
            (Self::Number | Self::Time | Self::Address | Self::Size, Value::Integer(number)) => {
                Some(number.to_string())
            }
            (Self::Flag | Self::Place, Value::Boolean(flag)) => Some(flag.to_string()),
            (Self::Time, Value::Float(number)) => Some(number.to_string()),
            (Self::Address, Value::Boolean(true)) => Some(format!("127.0.0.1:{DEFAULT_PORT}")),
            _ => None,
        }
    }
}

/// Adds the settings of the node from the file, and returns the sections that describe the application.
pub(crate) fn from_file(path: &Path, text: &str, given: &mut AllGiven) -> Result<Table, SettingsError> {
    let toml_error = |error: toml::de::Error| SettingsError::Toml {
        path: path.to_owned(),
        reason: format!("{}{}", error.message().lines().next().unwrap_or(""), place(text, &error)),
    };
    let table: Table = toml::from_str(text).map_err(toml_error)?;
    let origin = path.display().to_string();
    let unknown = |key: &str| unknown(key, &origin, KEYS.iter().map(|(key, ..)| *key).chain(app::SECTIONS));
    let mut application = Table::new();
    for (section, values) in table {
        if app::SECTIONS.contains(&section.as_str()) {
            application.insert(section, values);
            continue;
        }
        let sections = || KEYS.iter().filter_map(|(key, ..)| key.split('.').next());
        if !sections().any(|known| known == section) {
            return Err(self::unknown(&section, &origin, sections().chain(app::SECTIONS)));
        }
        let Value::Table(values) = values else {
            return Err(unknown(&section));
        };
        for (name, value) in values {
            let dotted = format!("{section}.{name}");
            let Some((key, _, form)) = KEYS.iter().find(|(key, ..)| *key == dotted) else {
                return Err(unknown(&dotted));
            };
            if let Some(value) = form.text(&value) {
                given.insert(key, Given { value, origin: origin.clone() });
            } else if (*form, &value) != (Form::Address, &Value::Boolean(false)) {
                return Err(SettingsError::Type { key, value: one_line(&value), origin, due: form.due() });
            }
        }
    }
    Ok(application)
}

/// Returns the line of an error.
fn place(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    before.map_or_else(String::new, |before| format!(", on line {}", before.matches('\n').count() + 1))
}

/// Returns a value of the file for an error message.
pub(super) fn one_line(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string().lines().next().unwrap_or("").to_owned(),
    }
}

/// Adds the settings from the environment.
pub(crate) fn from_environment(
    environment: impl Iterator<Item = (String, String)>,
    given: &mut AllGiven,
) -> Result<(), SettingsError> {
    let known = || KEYS.iter().map(|(_, variable, _)| *variable).chain(OBSERVER_VARIABLES);
    for (name, value) in environment.filter(|(name, _)| name.starts_with("RUSM_")) {
        if let Some((key, variable, _)) = KEYS.iter().find(|(_, variable, _)| *variable == name) {
            given.insert(key, Given { value, origin: (*variable).to_owned() });
        } else if !known().any(|variable| variable == name) {
            return Err(unknown(&name, "the environment", known()));
        }
    }
    Ok(())
}

/// Adds the settings from the flags.
pub(crate) fn from_flags<'a>(flags: impl Iterator<Item = (&'static str, &'a str)>, given: &mut AllGiven) {
    for (key, value) in flags {
        let origin = match key {
            "log.level" => "--log".to_owned(),
            _ => format!("--{}", key.trim_start_matches("node.").replace(['.', '_'], "-")),
        };
        given.insert(key, Given { value: value.to_owned(), origin });
    }
}

/// Returns an error for an unknown key, with the nearest known key.
pub(super) fn unknown<'a>(key: &str, origin: &str, known: impl Iterator<Item = &'a str>) -> SettingsError {
    SettingsError::Unknown { key: key.to_owned(), origin: origin.to_owned(), suggestion: did_you_mean(key, known) }
}

/// Returns the end of an error message about a mistyped word; empty if it is not similar to a known word.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let nearest = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    nearest.map_or_else(String::new, |(_, name)| format!(": did you mean {name:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, environment: &[(&str, &str)]) -> Result<AllGiven, String> {
        let mut given = AllGiven::new();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        from_file(Path::new("rusm.toml"), file, &mut given)
            .and_then(|_| from_environment(environment, &mut given))
            .map_err(|error| error.to_string())?;
        Ok(given)
    }

    #[test]
    fn the_environment_wins_over_the_file_and_a_flag_over_both() {
        let mut given =
            read("[node]\nschedulers = 3\ntick_hz = 30", &[("RUSM_SCHEDULERS", "5"), ("HOME", "/")]).unwrap();
        from_flags([("node.process_limit", "9")].into_iter(), &mut given);

        let said: Vec<_> =
            given.iter().map(|(key, given)| (*key, given.value.as_str(), given.origin.as_str())).collect();

        assert_eq!(
            said,
            [
                ("node.process_limit", "9", "--process-limit"),
                ("node.schedulers", "5", "RUSM_SCHEDULERS"),
                ("node.tick_hz", "30", "rusm.toml"),
            ]
        );
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest() {
        let error = |file: &str, environment: &[(&str, &str)]| read(file, environment).unwrap_err();

        assert_eq!(
            error("[node]\nshedulers = 3", &[]),
            "unknown setting \"node.shedulers\" in rusm.toml: did you mean \"node.schedulers\"?"
        );
        assert_eq!(error("[nodes]", &[]), "unknown setting \"nodes\" in rusm.toml: did you mean \"node\"?");
        assert_eq!(
            error("", &[("RUSM_TICKHZ", "3")]),
            "unknown setting \"RUSM_TICKHZ\" in the environment: did you mean \"RUSM_TICK_HZ\"?"
        );
        assert!(error("name = 3", &[]).starts_with("unknown setting \"name\" in rusm.toml"));
    }

    #[test]
    fn the_observers_variables_are_known_and_a_mistyped_one_is_not() {
        let known: Vec<_> = OBSERVER_VARIABLES.map(|name| (name, "1")).to_vec();

        assert_eq!(read("", &known), Ok(AllGiven::new()));
        assert_eq!(
            read("", &[("RUSM_TOP_FSP", "4")]).unwrap_err(),
            "unknown setting \"RUSM_TOP_FSP\" in the environment: did you mean \"RUSM_TOP_FPS\"?"
        );
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_the_one_that_is_due() {
        let error = |file: &str| read(file, &[]).unwrap_err();

        assert_eq!(error("[node]\nname = 3"), "node.name of 3 in rusm.toml must be a string");
        assert_eq!(error("[node]\nschedulers = \"3\""), "node.schedulers of \"3\" in rusm.toml must be a whole number");
        assert_eq!(error("[node]\ntick_hz = 20.5"), "node.tick_hz of 20.5 in rusm.toml must be a whole number");
        assert_eq!(error("[node]\ndrain = true"), "node.drain of true in rusm.toml must be a string or a number");
        assert_eq!(error("[log]\nlevel = [\"a\",\n\"b\"]").lines().count(), 1);
        assert_eq!(error("[node]\ntick_hz = \"\"\"2\n0\"\"\"").lines().count(), 1);
    }

    #[test]
    fn what_may_be_said_in_two_ways_is_read_in_both() {
        let value = |file: &str| read(file, &[]).unwrap().into_values().next().map(|given| given.value);

        assert_eq!(value("[node]\nlisten = true").as_deref(), Some("127.0.0.1:4000"));
        assert_eq!(value("[node]\nlisten = 4001").as_deref(), Some("4001"));
        assert_eq!(value("[node]\nlisten = false"), None);
        assert_eq!(value("[node]\ndrain = 2.5").as_deref(), Some("2.5"));
        assert_eq!(value("[node]\ndrain = \"2m\"").as_deref(), Some("2m"));
    }
}
