//! Deserializes settings from their origins, with errors that name the key, the value and its origin.
//!
//! ```text
//!   RawSettings ──▶ section ──▶ struct with #[derive(Deserialize)], by section
//!                   └──▶ Entry: one value; adds its key and origin to the error
//! ```

use std::fmt::Display;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use toml::Value;

use crate::settings::error::SettingsError;
use crate::settings::layers::{RawSetting, RawSettings, one_line, unknown};

/// Error of a deserialization.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("unknown {0}")]
    Unknown(String, &'static [&'static str]),
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The value does not have this type.
    #[error("must be {0}")]
    Type(String),
    /// The value has the right type, but is not valid.
    #[error("{0}")]
    Value(String),
    /// The complete error, with key and origin.
    #[error("{0}")]
    Complete(SettingsError),
}

impl Error for Fault {
    fn custom<T: Display>(wanted: T) -> Self {
        Self::Value(wanted.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, due: &dyn Expected) -> Self {
        Self::Type(due.to_string())
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown(field.to_owned(), known)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }
}

/// Deserializes the settings whose keys start with the name of this section.
pub(super) fn section<T: DeserializeOwned>(given: &RawSettings, name: &str, origin: &str) -> Result<T, SettingsError> {
    let word = |key: &str| key.strip_prefix(name)?.strip_prefix('.').map(ToOwned::to_owned);
    let entries = given.iter().filter_map(|(key, given)| Some((word(key)?, Entry::new(key, given))));
    T::deserialize(MapDeserializer::new(entries)).map_err(|fault| match fault {
        Fault::Complete(error) => error,
        Fault::Unknown(word, known) => {
            let known: Vec<String> = known.iter().map(|known| format!("{name}.{known}")).collect();
            unknown(&format!("{name}.{word}"), origin, known.iter().map(String::as_str))
        }
        Fault::Missing(word) => SettingsError::Missing { key: format!("{name}.{word}"), origin: origin.to_owned() },
        Fault::Type(due) | Fault::Value(due) => {
            SettingsError::Shape { key: name.to_owned(), origin: origin.to_owned(), due }
        }
    })
}

/// Deserializes one value.
pub(super) fn value<T: DeserializeOwned>(key: &str, given: &RawSetting) -> Result<T, SettingsError> {
    let entry = Entry::new(key, given);
    T::deserialize(entry).map_err(|fault| entry.complete(fault))
}

/// Returns the error for a value that is not valid together with others.
pub(super) fn invalid(given: &RawSettings, key: &str, wanted: String) -> SettingsError {
    let given = given.get(key);
    let (value, origin) = given.map(|given| (text(&given.value), given.origin.clone())).unwrap_or_default();
    SettingsError::Value { key: key.to_owned(), value, origin, wanted }
}

/// A value to deserialize, with its key and its origin.
#[derive(Clone, Copy)]
struct Entry<'a> {
    key: &'a str,
    value: &'a Value,
    given: &'a RawSetting,
}

impl<'a> Entry<'a> {
    const fn new(key: &'a str, given: &'a RawSetting) -> Self {
        Self { key, value: &given.value, given }
    }

    /// Adds the key, the value and the origin to an error.
    fn complete(self, fault: Fault) -> SettingsError {
        let (key, origin) = (self.key.to_owned(), self.given.origin.clone());
        match fault {
            Fault::Complete(error) => error,
            Fault::Value(wanted) => SettingsError::Value { key, value: text(self.value), origin, wanted },
            Fault::Type(due) => SettingsError::Type { key, value: one_line(self.value), origin, due },
            other => SettingsError::Type { key, value: one_line(self.value), origin, due: other.to_string() },
        }
    }
}

/// Returns a value as a user would write it in the environment.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

impl<'de> Deserializer<'de> for Entry<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let read = match self.value {
            Value::String(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(flag) => visitor.visit_bool(*flag),
            Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
                Err(Fault::invalid_type(Unexpected::Other(self.value.type_str()), &visitor))
            }
        };
        read.map_err(|fault| Fault::Complete(self.complete(fault)))
    }

    /// Text from the environment may be a number; text in the file is not.
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Some(text) = self.value.as_str().filter(|_| self.given.is_text) else {
            return self.deserialize_any(visitor);
        };
        // Other text is not within any range either, like -1.
        let read = match text.replace('_', "").parse() {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => visitor.visit_i64(-1),
        };
        read.map_err(|fault| Fault::Complete(self.complete(fault)))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let wrong = || Fault::Complete(self.complete(Fault::Type("a list of strings".to_owned())));
        let Value::Array(items) = self.value else { return Err(wrong()) };
        let entries = items.iter().map(|value| Entry { value, ..self });
        visitor.visit_seq(SeqDeserializer::new(entries)).map_err(|fault| match fault {
            Fault::Complete(SettingsError::Type { .. }) => wrong(),
            other => other,
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value {
            Value::Boolean(flag) => visitor.visit_bool(*flag),
            _ => Err(Fault::Complete(self.complete(Fault::Type("true or false".to_owned())))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl IntoDeserializer<'_, Fault> for Entry<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
