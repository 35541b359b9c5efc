//! The types of the values: a value that exists is valid.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rusm_console::check_name;
use rusm_protocol::DEFAULT_PORT;
use rusm_text::parse_size;
use serde::Deserialize;
use toml::Value;

use crate::settings::error::SettingsError;
use crate::settings::raw::{RawSetting, did_you_mean};
use crate::settings::size::format_bytes;

/// Maximum duration of a setting.
const DURATION_MAX: Duration = Duration::from_hours(7 * 24);

/// A string.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct Text(pub(super) String);

impl TryFrom<RawSetting> for Text {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        raw.text().map(|text| Self(text.to_owned()))
    }
}

/// The path of a file or folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct PathText(pub(super) PathBuf);

impl TryFrom<RawSetting> for PathText {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        match raw.text()? {
            "" => Err(raw.invalid("must be a path: leave the setting out if there is none")),
            path => Ok(Self(path.into())),
        }
    }
}

/// The name of a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct NodeName(pub(super) String);

impl TryFrom<RawSetting> for NodeName {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let name = raw.text()?;
        if check_name(name).is_err() {
            return Err(
                raw.invalid("must be 1 to 64 letters, digits, '-', '_' or '.', and start with a letter or digit")
            );
        }
        Ok(Self(name.to_owned()))
    }
}

/// A list of strings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct Strings(pub(super) Vec<String>);

impl TryFrom<RawSetting> for Strings {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        raw.strings().map(Self)
    }
}

/// A number within a range.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct Number<const MIN: u64, const MAX: u64>(pub(super) u64);

impl<const MIN: u64, const MAX: u64> TryFrom<RawSetting> for Number<MIN, MAX> {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let number = u64::try_from(raw.integer()?).ok().filter(|number| (MIN..=MAX).contains(number));
        number.map(Self).ok_or_else(|| raw.invalid(&format!("must be a number between {MIN} and {MAX}")))
    }
}

/// A number of bytes, at least one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct Size<const MAX: u64>(pub(super) u64);

impl<const MAX: u64> TryFrom<RawSetting> for Size<MAX> {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let bytes = size(&raw)?.filter(|bytes| (1..=MAX).contains(bytes));
        bytes.map(Self).ok_or_else(|| raw.invalid(&format!("must be a size between 1 and {}", format_bytes(MAX))))
    }
}

/// Parses `"16MiB"`, or a number of bytes; `None` if the text is not a size.
pub(super) fn size(raw: &RawSetting) -> Result<Option<u64>, SettingsError> {
    match &raw.value {
        Value::String(text) => Ok(parse_size(text)),
        Value::Integer(number) => Ok(u64::try_from(*number).ok()),
        _ => Err(raw.wrong_type("a number of bytes or a string such as \"16MiB\"")),
    }
}

/// A duration.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct Time(pub(super) Duration);

impl TryFrom<RawSetting> for Time {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        time(&raw, "must be a time such as 10s or 500ms").map(Self)
    }
}

/// Parses `"10s"`, or a number of seconds.
pub(super) fn time(raw: &RawSetting, rule: &str) -> Result<Duration, SettingsError> {
    let time = match &raw.value {
        Value::String(text) => parse_duration(text),
        Value::Integer(number) => Duration::try_from_secs_f64(*number as f64).ok(),
        Value::Float(number) => Duration::try_from_secs_f64(*number).ok(),
        _ => return Err(raw.wrong_type("a string or a number")),
    };
    time.filter(|time| *time <= DURATION_MAX).ok_or_else(|| raw.invalid(rule))
}

/// Parses `500ms`, `10s`, `2m`, `1h`; a bare number is in seconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    rusm_text::parse_duration(text).filter(|duration| *duration <= DURATION_MAX)
}

/// `"127.0.0.1:4000"`, a port, true for the default port, or false for none.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct Address(pub(super) Option<SocketAddr>);

impl TryFrom<RawSetting> for Address {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let loopback = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let address = match &raw.value {
            Value::String(text) => match text.parse() {
                Ok(port) => Some(loopback(port)),
                Err(_) => text.replace("localhost:", "127.0.0.1:").parse().ok(),
            },
            Value::Integer(port) => u16::try_from(*port).ok().map(loopback),
            Value::Boolean(true) => Some(loopback(DEFAULT_PORT)),
            Value::Boolean(false) => return Ok(Self(None)),
            _ => return Err(raw.wrong_type("a string, a port, true or false")),
        };
        let address = address.ok_or_else(|| raw.invalid("must be a loopback address such as 127.0.0.1:4000"))?;
        Ok(Self(Some(address)))
    }
}

/// True or false.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct Flag(pub(super) bool);

impl TryFrom<RawSetting> for Flag {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        raw.value.as_bool().map(Self).ok_or_else(|| raw.wrong_type("true or false"))
    }
}

/// The meanings of a few words.
pub(super) trait Words: Copy + 'static {
    /// Returns the words, each with its meaning.
    fn words() -> Vec<(&'static str, Self)>;
}

/// A word from a fixed list.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting", bound = "")]
pub(super) struct Word<T: Words>(pub(super) T);

impl<T: Words> TryFrom<RawSetting> for Word<T> {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let (words, meanings): (Vec<&str>, Vec<T>) = T::words().into_iter().unzip();
        let Some(text) = raw.value.as_str() else {
            let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            return Err(raw.wrong_type(&alternatives(&quoted)));
        };
        if let Some(index) = words.iter().position(|word| *word == text) {
            return Ok(Self(meanings[index]));
        }
        let meant = did_you_mean(text, words.iter().copied());
        Err(raw.invalid(&format!("must be {}{meant}", alternatives(&words))))
    }
}

/// Formats words as `a, b or c`.
fn alternatives<S: AsRef<str>>(words: &[S]) -> String {
    let mut words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let last = words.pop().unwrap_or_default();
    format!("{} or {last}", words.join(", "))
}
