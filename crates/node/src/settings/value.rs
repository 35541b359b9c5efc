//! The types of the values. Each of them says what it accepts, in the file and in general; a value that exists is valid.

use std::fmt::{self, Formatter};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use rusm_protocol::DEFAULT_PORT;
use rusm_text::parse_size;
use serde::de::{Error, Unexpected, Visitor};

use crate::settings::layers::did_you_mean;
use crate::settings::size::format_bytes;

/// A value of a simple type. The environment and flags only have text, and integers where those are due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'a> {
    Text(&'a str),
    Integer(i128),
    Float(f64),
    Flag(bool),
}

/// Reason why a value is rejected: the types that it may have in the file, or the rule that it breaks.
#[derive(Debug)]
pub(super) enum Rejected {
    Type(String),
    Value(String),
}

impl Rejected {
    pub(super) fn kind(due: &str) -> Self {
        Self::Type(due.to_owned())
    }
}

/// A setting that is written as one simple value.
pub(super) trait Setting: Sized {
    /// Parses a value.
    fn parse(value: Scalar<'_>) -> Result<Self, Rejected>;
}

/// Deserializes a setting.
pub(super) struct SettingVisitor<T>(pub(super) PhantomData<T>);

impl<T: Setting> SettingVisitor<T> {
    fn visit<E: Error>(value: Scalar<'_>) -> Result<T, E> {
        T::parse(value).map_err(|rejected| match rejected {
            Rejected::Type(due) => E::invalid_type(Unexpected::Other("value"), &due.as_str()),
            Rejected::Value(rule) => E::custom(rule),
        })
    }
}

impl<T: Setting> Visitor<'_> for SettingVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a simple value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Self::visit(Scalar::Text(text))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Self::visit(Scalar::Integer(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        Self::visit(Scalar::Integer(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Self::visit(Scalar::Float(number))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<T, E> {
        Self::visit(Scalar::Flag(flag))
    }
}

/// Implements `Deserialize` for settings: `method` is the hint about the type that the deserializer receives.
macro_rules! deserialize {
    ($method:ident: $([$($generics:tt)*] $type:ty),+ $(,)?) => {$(
        impl<'de, $($generics)*> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.$method($crate::settings::value::SettingVisitor(std::marker::PhantomData))
            }
        }
    )+};
}
pub(super) use deserialize;

deserialize!(deserialize_u64: [const MIN: u64, const MAX: u64] Number<MIN, MAX>);
deserialize!(deserialize_any: [const MAX: u64] Size<MAX>, [] Time, [] Address, [T: Words] Word<T>);

/// A number within a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<const MIN: u64, const MAX: u64>(pub(super) u64);

impl<const MIN: u64, const MAX: u64> Setting for Number<MIN, MAX> {
    fn parse(value: Scalar<'_>) -> Result<Self, Rejected> {
        let Scalar::Integer(number) = value else { return Err(Rejected::kind("a whole number")) };
        let number = u64::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number));
        number.map(Self).ok_or_else(|| Rejected::Value(format!("must be a number between {MIN} and {MAX}")))
    }
}

/// A number of bytes, at least one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size<const MAX: u64>(pub(super) u64);

impl<const MAX: u64> Setting for Size<MAX> {
    fn parse(value: Scalar<'_>) -> Result<Self, Rejected> {
        let bytes = size(value)?.filter(|bytes| (1..=MAX).contains(bytes));
        bytes.map(Self).ok_or_else(|| Rejected::Value(format!("must be a size between 1 and {}", format_bytes(MAX))))
    }
}

/// Parses `"16MiB"`, or a number of bytes; `None` if the text is not a size.
pub(super) fn size(value: Scalar<'_>) -> Result<Option<u64>, Rejected> {
    match value {
        Scalar::Text(text) => Ok(parse_size(text)),
        Scalar::Integer(number) => Ok(u64::try_from(number).ok()),
        _ => Err(Rejected::kind("a number of bytes or a string such as \"16MiB\"")),
    }
}

/// A duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

impl Setting for Time {
    fn parse(value: Scalar<'_>) -> Result<Self, Rejected> {
        time(value, "must be a time such as 10s or 500ms").map(Self)
    }
}

/// Parses `"10s"`, or a number of seconds.
pub(super) fn time(value: Scalar<'_>, rule: &str) -> Result<Duration, Rejected> {
    let time = match value {
        Scalar::Text(text) => parse_duration(text),
        Scalar::Integer(number) => Duration::try_from_secs_f64(number as f64).ok(),
        Scalar::Float(number) => Duration::try_from_secs_f64(number).ok(),
        Scalar::Flag(_) => return Err(Rejected::kind("a string or a number")),
    };
    time.filter(|time| *time <= DURATION_MAX).ok_or_else(|| Rejected::Value(rule.to_owned()))
}

/// Maximum duration of a setting.
const DURATION_MAX: Duration = Duration::from_hours(7 * 24);

/// Parses `500ms`, `10s`, `2m`, `1h`; a bare number is in seconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    rusm_text::parse_duration(text).filter(|duration| *duration <= DURATION_MAX)
}

/// `"127.0.0.1:4000"`, a port, true for the default port, or false for none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address(pub(super) Option<SocketAddr>);

impl Setting for Address {
    fn parse(value: Scalar<'_>) -> Result<Self, Rejected> {
        let loopback = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let address = match value {
            Scalar::Text(text) => match text.parse() {
                Ok(port) => Some(loopback(port)),
                Err(_) => text.replace("localhost:", "127.0.0.1:").parse().ok(),
            },
            Scalar::Integer(port) => u16::try_from(port).ok().map(loopback),
            Scalar::Flag(true) => Some(loopback(DEFAULT_PORT)),
            Scalar::Flag(false) => return Ok(Self(None)),
            Scalar::Float(_) => return Err(Rejected::kind("a string, a port, true or false")),
        };
        let rule = || Rejected::Value("must be a loopback address such as 127.0.0.1:4000".to_owned());
        address.map(|address| Self(Some(address))).ok_or_else(rule)
    }
}

/// The meanings of a few words.
pub(super) trait Words: Copy + 'static {
    /// Returns the words, each with its meaning.
    fn words() -> Vec<(&'static str, Self)>;
}

/// One of a few words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<T>(pub(super) T);

impl<T: Words> Setting for Word<T> {
    fn parse(value: Scalar<'_>) -> Result<Self, Rejected> {
        let (mut words, meanings): (Vec<&str>, Vec<T>) = T::words().into_iter().unzip();
        let Scalar::Text(text) = value else {
            let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            return Err(Rejected::Type(quoted.join(" or ")));
        };
        if let Some(index) = words.iter().position(|word| *word == text) {
            return Ok(Self(meanings[index]));
        }
        let meant = did_you_mean(text, words.iter().copied());
        let last = words.pop().unwrap_or_default();
        Err(Rejected::Value(format!("must be {} or {last}{meant}", words.join(", "))))
    }
}
