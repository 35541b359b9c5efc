//! Parameters of a scenario: typed, with a range, checked once.
//!
//! ```text
//!   "pairs=64" ──▶ ("pairs", "64") ──▶ Params::check(card's parameters) ──▶ valid values, defaults filled in
//!                                            └──▶ ParameterError: the nearest name, or the range
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rusm_protocol::ParameterMeta;
use rusm_text::{parse_duration, parse_size, suggestion};
use thiserror::Error;

/// A parameter of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name, in kebab-case.
    pub name: &'static str,
    /// Description, one sentence.
    pub description: &'static str,
    /// Type, range and default of the value.
    pub kind: Kind,
}

/// Type, range and default of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number: `64`, `10_000`, `10k`, `2M`.
    Count {
        /// Smallest valid value.
        min: u64,
        /// Largest valid value.
        max: u64,
        /// Default value.
        default: u64,
    },
    /// A number, or `auto`: the resource profile decides.
    AutoCount {
        /// Smallest valid value.
        min: u64,
        /// Largest valid value.
        max: u64,
    },
    /// A size in bytes: `512`, `64KiB`, `1MiB`.
    Bytes {
        /// Smallest valid value.
        min: u64,
        /// Largest valid value.
        max: u64,
        /// Default value.
        default: u64,
    },
    /// A duration: `0`, `50us`, `1.5ms`, `2s`, `1m`.
    Time {
        /// Smallest valid value.
        min: Duration,
        /// Largest valid value.
        max: Duration,
        /// Default value.
        default: Duration,
    },
    /// One word of a list; the first is the default.
    Choice {
        /// The valid words.
        words: &'static [&'static str],
    },
}

/// A checked value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A count or a size.
    Number(u64),
    /// The resource profile decides.
    Auto,
    /// A duration.
    Time(Duration),
    /// A word of the list.
    Word(&'static str),
}

/// Error returned when a parameter is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// The text lacks an equals sign or a name. Give it as `name=value`.
    #[error("parameter {text:?} is not of the form name=value")]
    Form {
        /// The text given.
        text: String,
    },
    /// A parameter of this name does not exist. Use a name from the card of the scenario.
    #[error("unknown parameter {name:?} of {scenario}: {suggestion}")]
    Unknown {
        /// The name given.
        name: String,
        /// Id of the scenario.
        scenario: String,
        /// The nearest known name, or all of them.
        suggestion: String,
    },
    /// The value is not in the valid range.
    #[error("{name} of {value} is not in {range}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// The value given.
        value: String,
        /// The valid values.
        range: String,
    },
    /// The values are valid by themselves but not together; the text says which.
    #[error("{0}")]
    Together(String),
}

/// Splits `name=value`.
///
/// # Errors
/// [`ParameterError::Form`] without an equals sign or a name.
pub fn parse_assignment(text: &str) -> Result<(String, String), ParameterError> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err(ParameterError::Form { text: text.to_owned() }),
    }
}

impl Parameter {
    /// Parses `text` and checks its range.
    fn parse(&self, text: &str) -> Result<Value, ParameterError> {
        let within = |number: Option<u64>, min: u64, max: u64| number.filter(|number| (min..=max).contains(number));
        let value = match self.kind {
            Kind::AutoCount { .. } if text == "auto" => Some(Value::Auto),
            Kind::Count { min, max, .. } | Kind::AutoCount { min, max } => {
                within(parse_count(text), min, max).map(Value::Number)
            }
            Kind::Bytes { min, max, .. } => within(parse_bytes(text), min, max).map(Value::Number),
            Kind::Time { min, max, .. } => parse_time(text).filter(|time| (min..=max).contains(time)).map(Value::Time),
            Kind::Choice { words } => words.iter().find(|word| **word == text).copied().map(Value::Word),
        };
        let needs_unit = matches!(self.kind, Kind::Time { .. }) && parse_time(text).is_none();
        let hint = if needs_unit { ": a time has a unit, for example 50ms" } else { "" };
        value.ok_or_else(|| ParameterError::OutOfRange {
            name: self.name,
            value: format!("{text:?}"),
            range: format!("{}{hint}", self.kind),
        })
    }

    /// Returns the default value.
    const fn default(&self) -> Value {
        match self.kind {
            Kind::Count { default, .. } | Kind::Bytes { default, .. } => Value::Number(default),
            Kind::AutoCount { .. } => Value::Auto,
            Kind::Time { default, .. } => Value::Time(default),
            Kind::Choice { words } => Value::Word(words[0]),
        }
    }

    /// Returns the description of this parameter for clients.
    pub fn meta(&self) -> ParameterMeta {
        ParameterMeta {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            default: self.default().to_string(),
            range: self.kind.to_string(),
        }
    }
}

/// Parses digits with optional underscores, and `k` or `M` for thousands or millions.
fn parse_count(text: &str) -> Option<u64> {
    scaled(text, &[("k", 1_000), ("M", 1_000_000)])
}

/// Parses a number of bytes with an optional unit: `B`, `KiB`, `MiB` and so on.
fn parse_bytes(text: &str) -> Option<u64> {
    begins_with_digit(text).and_then(parse_size)
}

/// Parses digits, optionally with a fraction, and a unit. Only `0` needs no unit.
fn parse_time(text: &str) -> Option<Duration> {
    begins_with_digit(text).filter(|text| *text == "0" || text.ends_with(char::is_alphabetic)).and_then(parse_duration)
}

fn begins_with_digit(text: &str) -> Option<&str> {
    text.starts_with(|first: char| first.is_ascii_digit()).then_some(text)
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (digits, scale) =
        units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?.trim_end(), *scale))).unwrap_or((text, 1));
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(scale)
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { min, max, .. } => write!(f, "{min}–{max}"),
            Self::AutoCount { min, max } => write!(f, "auto, {min}–{max}"),
            Self::Bytes { min, max, .. } => write!(f, "{min}–{max} bytes"),
            Self::Time { min, max, .. } => write!(f, "{min:?}–{max:?}"),
            Self::Choice { words } => f.write_str(&words.join(", ")),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Auto => f.write_str("auto"),
            Self::Time(time) => write!(f, "{time:?}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

/// Checked values of all parameters of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Vec<(&'static str, Value)>);

impl Params {
    /// Checks the given values against a scenario's parameters and fills in the defaults.
    ///
    /// # Errors
    /// [`ParameterError`] for the first parameter that is not valid.
    pub fn check(
        scenario: &str,
        parameters: &[Parameter],
        given: &BTreeMap<String, String>,
    ) -> Result<Self, ParameterError> {
        let known = || parameters.iter().map(|parameter| parameter.name);
        if let Some(name) = given.keys().find(|name| !known().any(|known| known == name.as_str())) {
            return Err(ParameterError::Unknown {
                name: name.clone(),
                scenario: scenario.to_owned(),
                suggestion: suggestion(name, &known().collect::<Vec<_>>()),
            });
        }
        let value = |parameter: &Parameter| match given.get(parameter.name) {
            Some(text) => Ok((parameter.name, parameter.parse(text)?)),
            None => Ok((parameter.name, parameter.default())),
        };
        parameters.iter().map(value).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the value of a number parameter.
    ///
    /// # Panics
    /// If the scenario's card lacks a parameter of this name and type: a bug in the scenario.
    pub fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Number(number) => number,
            other => panic!("parameter {name} is {other}, not a number"),
        }
    }

    /// Returns the value of a number parameter; `None` is `auto`.
    ///
    /// # Panics
    /// As [`number`](Self::number).
    pub fn auto_number(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            Value::Auto => None,
            _ => Some(self.number(name)),
        }
    }

    /// Returns the value of a duration parameter.
    ///
    /// # Panics
    /// As [`number`](Self::number).
    pub fn time(&self, name: &str) -> Duration {
        match self.value(name) {
            Value::Time(time) => time,
            other => panic!("parameter {name} is {other}, not a time"),
        }
    }

    /// Returns the value of a word parameter.
    ///
    /// # Panics
    /// As [`number`](Self::number).
    pub fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Word(word) => word,
            other => panic!("parameter {name} is {other}, not a word"),
        }
    }

    fn value(&self, name: &str) -> Value {
        match self.0.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => *value,
            None => panic!("the card has no parameter {name}"),
        }
    }

    /// Returns all names and values as text, including those that have their defaults.
    pub fn said(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARAMETERS: &[Parameter] = &[
        Parameter { name: "pairs", description: "Pairs.", kind: Kind::AutoCount { min: 1, max: 1_000 } },
        Parameter { name: "payload", description: "Bytes.", kind: Kind::Bytes { min: 0, max: 1 << 20, default: 0 } },
        Parameter {
            name: "strategy",
            description: "How.",
            kind: Kind::Choice { words: &["one-for-one", "one-for-all"] },
        },
    ];

    fn check(given: &[(&str, &str)]) -> Result<Params, ParameterError> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Params::check("demo", PARAMETERS, &given)
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let params = check(&[]).unwrap();

        assert_eq!(params.auto_number("pairs"), None);
        assert_eq!(params.number("payload"), 0);
        assert_eq!(params.word("strategy"), "one-for-one");
    }

    #[test]
    fn sizes_and_counts_take_units() {
        let params = check(&[("pairs", "1k"), ("payload", "64KiB")]).unwrap();

        assert_eq!(params.auto_number("pairs"), Some(1_000));
        assert_eq!(params.number("payload"), 65_536);
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest() {
        let error = check(&[("paylod", "1")]).unwrap_err();

        assert_eq!(error.to_string(), r#"unknown parameter "paylod" of demo: did you mean "payload"?"#);
    }

    #[test]
    fn a_value_out_of_range_is_answered_with_the_range() {
        let error = |name, value| check(&[(name, value)]).unwrap_err().to_string();

        assert_eq!(error("pairs", "0"), r#"pairs of "0" is not in auto, 1–1000"#);
        assert_eq!(error("payload", "2MiB"), r#"payload of "2MiB" is not in 0–1048576 bytes"#);
        assert_eq!(error("strategy", "all"), r#"strategy of "all" is not in one-for-one, one-for-all"#);
    }

    #[test]
    fn an_assignment_needs_a_name_and_an_equals_sign() {
        assert_eq!(parse_assignment("pairs = 64"), Ok(("pairs".to_owned(), "64".to_owned())));
        assert_eq!(
            parse_assignment("pairs").unwrap_err().to_string(),
            r#"parameter "pairs" is not of the form name=value"#
        );
        assert!(parse_assignment("=64").is_err());
    }

    proptest! {
        #[test]
        fn every_number_in_range_survives_its_text_and_no_other_does(number: u64) {
            let checked = check(&[("payload", &number.to_string())]).map(|params| params.number("payload"));

            prop_assert_eq!(checked.ok(), (number <= 1 << 20).then_some(number));
        }

        #[test]
        fn no_text_makes_a_parameter_panic(text in "\\PC{0,20}") {
            for name in ["pairs", "payload", "strategy"] {
                if let Err(error) = check(&[(name, &text)]) {
                    prop_assert!(error.to_string().starts_with(name));
                }
            }
            if let Ok((name, value)) = parse_assignment(&text) {
                prop_assert!(text.contains(&name) && text.contains(&value));
            }
        }
    }
}
