//! From what was said to what is meant: every value passes the same check wherever it comes from.

use std::time::Duration;

use crate::settings::origin::{AllGiven, did_you_mean};
use crate::settings::size::{bytes_in_words, parse_bytes};
use crate::settings::{SettingsError, parse_duration};

/// What was said, to be checked.
pub(super) struct Look<'a>(pub(super) &'a AllGiven);

impl Look<'_> {
    /// The value as it was said.
    pub(super) fn text(&self, key: &'static str) -> Option<&str> {
        self.0.get(key).map(|given| given.value.as_str())
    }

    /// The value; an error says what is wanted and which of the `known` words was most likely meant.
    pub(super) fn parsed<T>(
        &self,
        key: &'static str,
        wanted: &str,
        known: &[&str],
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, SettingsError> {
        let Some(given) = self.0.get(key) else { return Ok(None) };
        match parse(&given.value) {
            Some(value) => Ok(Some(value)),
            None => Err(SettingsError::Value {
                key,
                value: given.value.clone(),
                origin: given.origin.clone(),
                wanted: format!("{wanted}{}", did_you_mean(&given.value, known.iter().copied())),
            }),
        }
    }

    /// A number in a range.
    pub(super) fn number(&self, key: &'static str, min: u64, max: u64) -> Result<Option<u64>, SettingsError> {
        let parse = |text: &str| text.replace('_', "").parse().ok().filter(|number| (min..=max).contains(number));
        self.parsed(key, &format!("is no number between {min} and {max}"), &[], parse)
    }

    /// The same; the default if nobody said one.
    pub(super) fn count(&self, key: &'static str, min: u64, max: u64, default: u64) -> Result<u64, SettingsError> {
        self.number(key, min, max).map(|value| value.unwrap_or(default))
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &self,
        key: &'static str,
        wanted: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, SettingsError> {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let meaning = |text: &str| words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        self.parsed(key, wanted, &known, meaning)
    }

    /// A time.
    pub(super) fn time(&self, key: &'static str) -> Result<Option<Duration>, SettingsError> {
        self.parsed(key, "is no time such as 10s or 500ms", &[], parse_duration)
    }

    /// A time between 0.1 ms and a second.
    pub(super) fn tick(&self, key: &'static str) -> Result<Option<Duration>, SettingsError> {
        let ticks = Duration::from_micros(100)..=Duration::from_secs(1);
        let parse = |text: &str| parse_duration(text).filter(|tick| ticks.contains(tick));
        self.parsed(key, "is no time between 0.1ms and 1s", &[], parse)
    }

    /// A size of at least one byte.
    pub(super) fn bytes(&self, key: &'static str, max: u64) -> Result<Option<u64>, SettingsError> {
        let wanted = format!("is no size between 1 and {}", bytes_in_words(max));
        self.parsed(key, &wanted, &[], |text| parse_bytes(text).filter(|bytes| (1..=max).contains(bytes)))
    }
}
