//! Checks and converts settings: every value passes the same check, whatever its origin.

use std::time::Duration;

use crate::settings::origin::{AllGiven, did_you_mean};
use crate::settings::size::{bytes_in_words, parse_bytes};
use crate::settings::{SettingsError, parse_duration};

/// The settings as given, before any check.
pub(super) struct Look<'a>(pub(super) &'a AllGiven);

impl Look<'_> {
    /// Returns the value as it was given.
    pub(super) fn text(&self, key: &'static str) -> Option<&str> {
        self.0.get(key).map(|given| given.value.as_str())
    }

    /// Parses a value; an error says what is expected, and which of the `known` words was most likely meant.
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

    /// Returns a number within a range.
    pub(super) fn number(&self, key: &'static str, min: u64, max: u64) -> Result<Option<u64>, SettingsError> {
        let parse = |text: &str| text.replace('_', "").parse().ok().filter(|number| (min..=max).contains(number));
        self.parsed(key, &format!("must be a number between {min} and {max}"), &[], parse)
    }

    /// Returns a number within a range, or the default if it is not set.
    pub(super) fn count(&self, key: &'static str, min: u64, max: u64, default: u64) -> Result<u64, SettingsError> {
        self.number(key, min, max).map(|value| value.unwrap_or(default))
    }

    /// Returns the meaning of one of several words.
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

    /// Returns a duration.
    pub(super) fn time(&self, key: &'static str) -> Result<Option<Duration>, SettingsError> {
        self.parsed(key, "must be a time such as 10s or 500ms", &[], parse_duration)
    }

    /// Returns a duration between 0.1 ms and 1 s.
    pub(super) fn tick(&self, key: &'static str) -> Result<Option<Duration>, SettingsError> {
        let ticks = Duration::from_micros(100)..=Duration::from_secs(1);
        let parse = |text: &str| parse_duration(text).filter(|tick| ticks.contains(tick));
        self.parsed(key, "must be a time between 0.1ms and 1s", &[], parse)
    }

    /// Returns a size of at least one byte.
    pub(super) fn bytes(&self, key: &'static str, max: u64) -> Result<Option<u64>, SettingsError> {
        let wanted = format!("must be a size between 1 and {}", bytes_in_words(max));
        self.parsed(key, &wanted, &[], |text| parse_bytes(text).filter(|bytes| (1..=max).contains(bytes)))
    }
}
