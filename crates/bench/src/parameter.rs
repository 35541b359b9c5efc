//! What can be set about a scenario: typed, with a range, checked once.
//!
//! ```text
//!   "pairs=64" ──▶ ("pairs", "64") ──▶ Params::check(card's parameters) ──▶ valid values, defaults filled in
//!                                            └──▶ ParameterError: the nearest name, or the range
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rusm_protocol::ParameterMeta;
use thiserror::Error;

use crate::nearest::suggestion;

/// One thing that can be set about a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name, in kebab-case.
    pub name: &'static str,
    /// One sentence.
    pub description: &'static str,
    /// What values it takes.
    pub kind: Kind,
}

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number: `64`, `10_000`, `10k`, `2M`.
    Count {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
        /// The value when nothing is said.
        default: u64,
    },
    /// A number, or `auto`: as the resource profile says.
    AutoCount {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A size in bytes: `512`, `64KiB`, `1MiB`.
    Bytes {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
        /// The value when nothing is said.
        default: u64,
    },
    /// A time: `0`, `50us`, `1.5ms`, `2s`, `1m`.
    Time {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
        /// The value when nothing is said.
        default: Duration,
    },
    /// One of some words; the first is the default.
    Choice {
        /// The words.
        words: &'static [&'static str],
    },
}

/// A checked value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A count or a size.
    Number(u64),
    /// As the resource profile says.
    Auto,
    /// A time.
    Time(Duration),
    /// One of the words.
    Word(&'static str),
}

/// Why a parameter was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// Give it as `name=value`.
    #[error("parameter {text:?} is not of the form name=value")]
    Form {
        /// What was given.
        text: String,
    },
    /// Use a name of the scenario's card.
    #[error("unknown parameter {name:?} of {scenario}: {suggestion}")]
    Unknown {
        /// The name given.
        name: String,
        /// The scenario.
        scenario: String,
        /// The nearest name, or all.
        suggestion: String,
    },
    /// Use a value of the range.
    #[error("{name} of {value} is not in {range}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// The value given.
        value: String,
        /// The values allowed.
        range: String,
    },
    /// Use values that go together; the text says which do not.
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
    /// The value that a text stands for.
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
        value.ok_or_else(|| ParameterError::OutOfRange {
            name: self.name,
            value: format!("{text:?}"),
            range: self.kind.to_string(),
        })
    }

    /// The value when nothing is said.
    const fn default(&self) -> Value {
        match self.kind {
            Kind::Count { default, .. } | Kind::Bytes { default, .. } => Value::Number(default),
            Kind::AutoCount { .. } => Value::Auto,
            Kind::Time { default, .. } => Value::Time(default),
            Kind::Choice { words } => Value::Word(words[0]),
        }
    }

    /// What a person reads.
    pub fn meta(&self) -> ParameterMeta {
        ParameterMeta {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            default: self.default().to_string(),
            range: self.kind.to_string(),
        }
    }
}

/// Digits with optional underscores, and `k` or `M` for thousands or millions.
fn parse_count(text: &str) -> Option<u64> {
    scaled(text, &[("k", 1_000), ("M", 1_000_000)])
}

/// The same in bytes, with `KiB` or `MiB`.
fn parse_bytes(text: &str) -> Option<u64> {
    scaled(text, &[("KiB", 1 << 10), ("MiB", 1 << 20), ("B", 1)])
}

/// Digits, maybe with a fraction, and a unit; nothing is zero without one.
fn parse_time(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (digits, scale) = UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?.trim_end(), *scale)))?;
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * scale).ok()
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

/// The checked values of all parameters of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Vec<(&'static str, Value)>);

impl Params {
    /// Checks what was given against a scenario's parameters, and fills in defaults.
    ///
    /// # Errors
    /// [`ParameterError`] for the first that is wrong.
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
                suggestion: suggestion(name, known().collect::<Vec<_>>()),
            });
        }
        let value = |parameter: &Parameter| match given.get(parameter.name) {
            Some(text) => Ok((parameter.name, parameter.parse(text)?)),
            None => Ok((parameter.name, parameter.default())),
        };
        parameters.iter().map(value).collect::<Result<_, _>>().map(Self)
    }

    /// A number.
    ///
    /// # Panics
    /// When the scenario's card has no such parameter, or of another kind: a mistake in the scenario.
    pub fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Number(number) => number,
            other => panic!("parameter {name} is {other}, and no number"),
        }
    }

    /// A number; `None` is `auto`.
    ///
    /// # Panics
    /// As [`number`](Self::number).
    pub fn auto_number(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            Value::Auto => None,
            _ => Some(self.number(name)),
        }
    }

    /// A time.
    ///
    /// # Panics
    /// As [`number`](Self::number).
    pub fn time(&self, name: &str) -> Duration {
        match self.value(name) {
            Value::Time(time) => time,
            other => panic!("parameter {name} is {other}, and no time"),
        }
    }

    /// A word.
    ///
    /// # Panics
    /// As [`number`](Self::number).
    pub fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Word(word) => word,
            other => panic!("parameter {name} is {other}, and no word"),
        }
    }

    fn value(&self, name: &str) -> Value {
        match self.0.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => *value,
            None => panic!("the card has no parameter {name}"),
        }
    }

    /// Names and values as they are written, those that were left to defaults among them.
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
