//! Values as they were given, each with its key and its origin, and their deserialization by section.
//!
//! ```text
//!   RawSettings ──▶ section: struct with #[derive(Deserialize)] ──▶ its fields, by TryFrom<RawSetting>
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::settings::error::SettingsError;

/// A value that no check has seen, with its key and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RawSetting {
    key: String,
    origin: String,
    /// True if the origin is untyped: the environment and the flags only have text.
    is_text: bool,
    pub(super) value: Value,
}

/// The given values by key.
pub(crate) type RawSettings = BTreeMap<String, RawSetting>;

/// All given values of a node's settings.
#[derive(Clone, Default)]
pub(crate) struct Given {
    pub(super) values: RawSettings,
    /// Sections of the application, as in the file.
    pub(super) sections: Table,
}

impl Given {
    /// Returns the keys of values, and the names of sections, that are not the same in `other`.
    pub(crate) fn changes(&self, other: &Self) -> BTreeSet<String> {
        let value = |given: &Self, key: &String| given.values.get(key).map(|raw| raw.value.clone());
        let keys = self.values.keys().chain(other.values.keys());
        let keys = keys.filter(|key| value(self, key) != value(other, key)).cloned();
        let sections = self.sections.keys().chain(other.sections.keys());
        let sections = sections.filter(|name| self.sections.get(*name) != other.sections.get(*name));
        keys.chain(sections.map(|name| format!("[{name}]"))).collect()
    }
}

impl fmt::Debug for Given {
    /// Writes no values: some are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).entries(self.sections.keys()).finish()
    }
}

/// Number of bytes of a wrong value that are shown.
const SHOWN_BYTES_MAX: usize = 256;
/// Key of a value that is never shown.
const SECRET: &str = "otlp.headers";

impl RawSetting {
    /// A value of the environment or of a flag.
    pub(crate) fn of_text(key: &str, text: &str, origin: &str) -> Self {
        Self { key: key.to_owned(), origin: origin.to_owned(), is_text: true, value: Value::String(text.to_owned()) }
    }

    /// A value of the file.
    pub(super) fn in_file(key: &str, value: Value, origin: &str) -> Self {
        Self { key: key.to_owned(), origin: origin.to_owned(), is_text: false, value }
    }

    /// Returns where the value was given: a file, a variable or a flag.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the value, if it is a string.
    pub(super) fn text(&self) -> Result<&str, SettingsError> {
        self.value.as_str().ok_or_else(|| self.wrong_type("a string"))
    }

    /// Returns the value as an integer. Text that is not a number gives -1, which the range check of every setting
    /// rejects.
    pub(super) fn integer(&self) -> Result<i128, SettingsError> {
        match &self.value {
            Value::Integer(number) => Ok((*number).into()),
            Value::String(text) if self.is_text => Ok(text.replace('_', "").parse::<u64>().map_or(-1, i128::from)),
            _ => Err(self.wrong_type("a whole number")),
        }
    }

    /// Returns the value, if it is a list of strings.
    pub(super) fn strings(&self) -> Result<Vec<String>, SettingsError> {
        let items = self.value.as_array();
        let strings = items.and_then(|items| items.iter().map(|item| item.as_str().map(ToOwned::to_owned)).collect());
        strings.ok_or_else(|| self.wrong_type("a list of strings"))
    }

    /// Error for a value of a type that this setting cannot have.
    pub(super) fn wrong_type(&self, due: &str) -> SettingsError {
        if self.key == SECRET {
            return self.invalid_secret(&format!("must be {due}"));
        }
        let shown = match &self.value {
            Value::String(text) => format!("{text:?}"),
            other => other.to_string().lines().next().unwrap_or("").to_owned(),
        };
        SettingsError::Invalid(format!("{} of {shown} in {} must be {due}", self.key, self.origin))
    }

    /// Error for a value that breaks a rule.
    pub(super) fn invalid(&self, rule: &str) -> SettingsError {
        if self.key == SECRET {
            return self.invalid_secret(rule);
        }
        let shown = self.value.as_str().map_or_else(|| self.value.to_string(), ToOwned::to_owned);
        self.invalid_part(&shown, rule)
    }

    /// Error for a value that breaks a rule and may be a secret.
    pub(super) fn invalid_secret(&self, rule: &str) -> SettingsError {
        SettingsError::Invalid(format!("{} in {} {rule}", self.key, self.origin))
    }

    /// Error for a part of a value that breaks a rule.
    pub(super) fn invalid_part(&self, part: &str, rule: &str) -> SettingsError {
        let end = part.floor_char_boundary(SHOWN_BYTES_MAX);
        let (part, more) = (&part[..end], if end < part.len() { "…" } else { "" });
        SettingsError::Invalid(format!("{} of {part:?}{more} in {} {rule}", self.key, self.origin))
    }
}

/// Deserializes the settings with keys that start with the name of this section.
pub(super) fn section<T: DeserializeOwned>(given: &RawSettings, name: &str, origin: &str) -> Result<T, SettingsError> {
    let word = |key: &'_ str| Some(key.strip_prefix(name)?.strip_prefix('.')?.to_owned());
    let entries: RawSettings = given.iter().filter_map(|(key, raw)| Some((word(key)?, raw.clone()))).collect();
    let table = Table::try_from(entries).map_err(|error| SettingsError::Invalid(error.to_string()))?;
    table.try_into().map_err(|error: toml::de::Error| match unknown_field(error.message()) {
        None => SettingsError::Invalid(error.message().to_owned()),
        Some((word, known)) => {
            let known: Vec<String> = known.map(|known| format!("{name}.{known}")).collect();
            unknown(&format!("{name}.{word}"), origin, known.iter().map(String::as_str))
        }
    })
}

/// Returns the tables of an array of tables; none if it is missing.
pub(super) fn tables<'a>(
    entries: Option<&'a Value>,
    key: &str,
    due: &'static str,
    origin: &str,
) -> Result<Vec<&'a Table>, SettingsError> {
    let shape = || SettingsError::Shape { key: key.to_owned(), origin: origin.to_owned(), due };
    match entries {
        None => Ok(Vec::new()),
        Some(Value::Array(entries)) => entries.iter().map(|entry| entry.as_table().ok_or_else(shape)).collect(),
        Some(_) => Err(shape()),
    }
}

/// Returns the field and the known fields of serde's error for an unknown field.
fn unknown_field(message: &str) -> Option<(&str, impl Iterator<Item = &str>)> {
    let (word, known) = message.strip_prefix("unknown field `")?.rsplit_once("`, expected ")?;
    Some((word, known.split('`').skip(1).step_by(2)))
}

/// Number of keys up to which an error lists all keys of a table.
const KEYS_LISTED_MAX: usize = 16;

/// Returns an error for an unknown key, with the nearest known key, or else all keys of its table.
pub(super) fn unknown<'a>(key: &str, origin: &str, known: impl Iterator<Item = &'a str>) -> SettingsError {
    let suggestion = suggested(key, &known.collect::<Vec<_>>());
    SettingsError::Unknown { key: key.to_owned(), origin: origin.to_owned(), suggestion }
}

fn suggested(key: &str, known: &[&str]) -> String {
    let Some((table, word)) = key.rsplit_once('.') else { return did_you_mean(key, known) };
    // The name of the table would make all of its keys similar to each other.
    let (own, others): (Vec<&str>, Vec<&str>) =
        known.iter().partition(|known| known.rsplit_once('.').is_some_and(|(of, _)| of == table));
    let words: Vec<&str> = own.iter().map(|known| &known[table.len() + 1..]).collect();
    match rusm_text::nearest(word, &words) {
        Some(near) => format!(": did you mean \"{table}.{near}\"?"),
        None if rusm_text::nearest(key, &others).is_some() => did_you_mean(key, &others),
        None if (1..=KEYS_LISTED_MAX).contains(&words.len()) => {
            format!(": the keys of {table} are {}", words.join(", "))
        }
        None => String::new(),
    }
}

/// Returns the end of an error message about a mistyped word; empty if it is not similar to a known word.
pub(super) fn did_you_mean<'a, S: AsRef<str> + ?Sized + 'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a S>,
) -> String {
    rusm_text::nearest(word, known).map_or_else(String::new, |name| format!(": did you mean {name:?}?"))
}
