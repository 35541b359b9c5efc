//! Finds the invalid field of a message with a known type, and describes it in the terms of this protocol. It runs
//! only after decoding has failed.
//!
//! `serde_path_to_error` cannot replace this table: serde buffers the content of an internally tagged enum, so the path
//! of every error is `.`, and the error about a missing field does not say which type the field must have.

use rusm_text::suggestion;
use serde_json::{Map, Value};

use super::error::{DecodeError, shown};
use crate::Column;

/// Type of a field's value.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    TextOrNull,
    Number,
    /// A whole number up to this maximum.
    Whole(u64),
    /// A whole number, or null.
    Id,
    Truth,
    Texts,
    /// A list of texts.
    List,
    Columns,
    Column,
    KillReason,
    /// An object with these fields.
    Object(&'static [Field]),
    /// An object with these fields, or null.
    ObjectOrNull(&'static [Field]),
}

/// Name of a field, type of its value, and whether it is required.
type Field = (&'static str, Kind, bool);

const NEEDED: bool = true;
const OPTIONAL: bool = false;

const SORT: &[Field] = &[("key", Kind::Column, NEEDED), ("desc", Kind::Truth, OPTIONAL)];
const WINDOW: &[Field] = &[("offset", Kind::Whole(u64::MAX), OPTIONAL), ("len", Kind::Whole(u32::MAX as u64), NEEDED)];

const TREE: &[Field] = &[
    ("id", Kind::Whole(u32::MAX as u64), NEEDED),
    ("open", Kind::List, OPTIONAL),
    ("window", Kind::Object(WINDOW), OPTIONAL),
    ("selected", Kind::TextOrNull, OPTIONAL),
    ("hz", Kind::Number, OPTIONAL),
];

const FAULT: &[Field] = &[("engine", Kind::Whole(u32::MAX as u64), OPTIONAL), ("seq", Kind::Whole(u64::MAX), OPTIONAL)];

const TIME: &[Field] = &[("id", Kind::Whole(u32::MAX as u64), NEEDED), ("hz", Kind::Number, OPTIONAL)];

const ENGINES: &[Field] = &[
    ("id", Kind::Whole(u32::MAX as u64), NEEDED),
    ("window", Kind::Object(WINDOW), OPTIONAL),
    ("fault", Kind::ObjectOrNull(FAULT), OPTIONAL),
    ("hz", Kind::Number, OPTIONAL),
];

const KEYS: &[Field] = &[
    ("store", Kind::Whole(u32::MAX as u64), OPTIONAL),
    ("bucket", Kind::Text, OPTIONAL),
    ("after", Kind::Text, OPTIONAL),
    ("len", Kind::Whole(u32::MAX as u64), OPTIONAL),
];

const STORES: &[Field] = &[
    ("id", Kind::Whole(u32::MAX as u64), NEEDED),
    ("window", Kind::Object(WINDOW), OPTIONAL),
    ("keys", Kind::ObjectOrNull(KEYS), OPTIONAL),
    ("hz", Kind::Number, OPTIONAL),
];

const TOPICS: &[Field] = &[
    ("id", Kind::Whole(u32::MAX as u64), NEEDED),
    ("window", Kind::Object(WINDOW), OPTIONAL),
    ("hz", Kind::Number, OPTIONAL),
];

/// The fields of each message from an observer.
const CLIENT_MESSAGES: &[(&str, &[Field])] = &[
    ("run", &[("scenario", Kind::Text, NEEDED), ("params", Kind::Texts, OPTIONAL), ("id", Kind::Id, OPTIONAL)]),
    ("stop", &[("id", Kind::Id, OPTIONAL)]),
    ("set_observer_detail", &[("enabled", Kind::Truth, NEEDED)]),
    ("set_resource_profile", &[("profile", Kind::Text, NEEDED), ("id", Kind::Id, OPTIONAL)]),
    ("watch", &[("frame_hz", Kind::Number, NEEDED)]),
    (
        "view",
        &[
            ("id", Kind::Whole(u32::MAX as u64), NEEDED),
            ("columns", Kind::Columns, OPTIONAL),
            ("sort", Kind::Object(SORT), OPTIONAL),
            ("filter", Kind::Text, OPTIONAL),
            ("window", Kind::Object(WINDOW), OPTIONAL),
            ("hz", Kind::Number, OPTIONAL),
            ("reorder", Kind::Truth, OPTIONAL),
        ],
    ),
    ("detail", &[("pid", Kind::TextOrNull, OPTIONAL)]),
    ("tree", &[("view", Kind::ObjectOrNull(TREE), OPTIONAL)]),
    ("engines", &[("view", Kind::ObjectOrNull(ENGINES), OPTIONAL)]),
    ("time", &[("view", Kind::ObjectOrNull(TIME), OPTIONAL)]),
    ("stores", &[("view", Kind::ObjectOrNull(STORES), OPTIONAL)]),
    ("topics", &[("view", Kind::ObjectOrNull(TOPICS), OPTIONAL)]),
    ("events", &[("enabled", Kind::Truth, NEEDED)]),
    ("kill_all", &[("filter", Kind::Text, NEEDED), ("reason", Kind::KillReason, OPTIONAL), ("id", Kind::Id, OPTIONAL)]),
    ("kill", &[("pid", Kind::Text, NEEDED), ("reason", Kind::KillReason, OPTIONAL), ("id", Kind::Id, OPTIONAL)]),
];

/// Returns the types of these messages.
pub(super) fn client_types() -> Vec<&'static str> {
    CLIENT_MESSAGES.iter().map(|(name, _)| *name).collect()
}

/// Returns the first error in an observer's message of type `name`.
pub(super) fn fault(name: &str, message: &Map<String, Value>) -> DecodeError {
    let fields = CLIENT_MESSAGES.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, fields)| fields);
    first_fault("", fields, message)
        .unwrap_or_else(|| malformed(format!("{name:?} has a field twice, or one that cannot be read")))
}

fn malformed(reason: String) -> DecodeError {
    DecodeError::Malformed { reason }
}

fn first_fault(path: &str, fields: &[Field], object: &Map<String, Value>) -> Option<DecodeError> {
    fields.iter().find_map(|(name, kind, needed)| {
        let path = format!("{path}{name}");
        match object.get(*name) {
            Some(value) => fault_of(&path, *kind, value),
            None => needed.then(|| malformed(format!("{path:?} is missing: it must be {}", kind.words()))),
        }
    })
}

fn fault_of(path: &str, kind: Kind, value: &Value) -> Option<DecodeError> {
    let wrong = || Some(malformed(format!("{path:?} must be {}, not {}", kind.words(), said(value))));
    match (kind, value) {
        (Kind::Column, Value::String(name)) => unknown("column", name, &Column::ALL.map(Column::word)),
        (Kind::KillReason, Value::String(name)) => unknown("kill reason", name, &["shutdown", "kill"]),
        (Kind::Columns, Value::Array(columns)) => {
            columns.iter().enumerate().find_map(|(at, column)| fault_of(&format!("{path}[{at}]"), Kind::Column, column))
        }
        (Kind::Texts, Value::Object(texts)) => {
            texts.iter().find_map(|(name, text)| fault_of(&format!("{path}.{name}"), Kind::Text, text))
        }
        (Kind::List, Value::Array(texts)) => {
            texts.iter().enumerate().find_map(|(at, text)| fault_of(&format!("{path}[{at}]"), Kind::Text, text))
        }
        (Kind::Object(fields) | Kind::ObjectOrNull(fields), Value::Object(object)) => {
            first_fault(&format!("{path}."), fields, object)
        }
        (Kind::Whole(max), Value::Number(number)) if number.as_u64().is_some_and(|number| number <= max) => None,
        (Kind::Id, Value::Number(number)) if number.is_u64() => None,
        (Kind::Text | Kind::TextOrNull, Value::String(_))
        | (Kind::TextOrNull | Kind::Id | Kind::ObjectOrNull(_), Value::Null)
        | (Kind::Number, Value::Number(_))
        | (Kind::Truth, Value::Bool(_)) => None,
        _ => wrong(),
    }
}

/// Returns an error if the word is not one of the known ones.
fn unknown(what: &'static str, name: &str, known: &[&str]) -> Option<DecodeError> {
    (!known.contains(&name)).then(|| DecodeError::UnknownWord {
        what,
        name: shown(name),
        hint: suggestion(name, known),
    })
}

impl Kind {
    fn words(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::TextOrNull => "text or null".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Whole(max) => format!("a whole number from 0 to {max}"),
            Self::Id => format!("a whole number from 0 to {}", u64::MAX),
            Self::Truth => "true or false".to_owned(),
            Self::Texts => "an object of texts".to_owned(),
            Self::List => "a list of texts".to_owned(),
            Self::Columns => "a list of columns".to_owned(),
            Self::Column => "a column, such as \"pid\"".to_owned(),
            Self::KillReason => "\"kill\" or \"shutdown\"".to_owned(),
            Self::Object(fields) => {
                let names: Vec<&str> = fields.iter().map(|(name, ..)| *name).collect();
                format!("an object of {}", names.join(" and "))
            }
            Self::ObjectOrNull(fields) => format!("{}, or null", Self::Object(fields).words()),
        }
    }
}

/// Describes a value for an error message; small values are shown in full.
pub(super) fn said(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text {:?}", shown(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode_client;

    fn error(text: &str) -> String {
        decode_client(text).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_field_is_named_with_what_it_must_be_and_what_it_was() {
        for (text, expected) in [
            (r#"{"type":"run"}"#, r#"malformed message: "scenario" is missing: it must be text"#),
            (r#"{"type":"run","scenario":7}"#, r#"malformed message: "scenario" must be text, not 7"#),
            (
                r#"{"type":"run","scenario":"x","params":{"cap":7}}"#,
                r#"malformed message: "params.cap" must be text, not 7"#,
            ),
            (
                r#"{"type":"watch","frame_hz":"fast"}"#,
                r#"malformed message: "frame_hz" must be a number, not the text "fast""#,
            ),
            (
                r#"{"type":"view","id":1,"window":{"offset":-1,"len":5}}"#,
                r#"malformed message: "window.offset" must be a whole number from 0 to 18446744073709551615, not -1"#,
            ),
            (
                r#"{"type":"view","id":1,"window":{"offset":1}}"#,
                r#"malformed message: "window.len" is missing: it must be a whole number from 0 to 4294967295"#,
            ),
            (
                r#"{"type":"view","id":1,"sort":"pid"}"#,
                r#"malformed message: "sort" must be an object of key and desc, not the text "pid""#,
            ),
            (
                r#"{"type":"tree","view":{"id":1,"open":["<0.1.1>",7]}}"#,
                r#"malformed message: "view.open[1]" must be text, not 7"#,
            ),
            (
                r#"{"type":"tree","view":7}"#,
                r#"malformed message: "view" must be an object of id and open and window and selected and hz, or null, not 7"#,
            ),
            (r#"{"type":"kill","pid":null}"#, r#"malformed message: "pid" must be text, not null"#),
            (
                r#"{"type":"set_observer_detail","enabled":1}"#,
                r#"malformed message: "enabled" must be true or false, not 1"#,
            ),
            (
                r#"{"type":"stop","id":1,"id":2}"#,
                r#"malformed message: "stop" has a field twice, or one that cannot be read"#,
            ),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_word_comes_with_the_nearest_known_one() {
        for (text, expected) in [
            (
                r#"{"type":"view","id":1,"sort":{"key":"mailbox_length"}}"#,
                r#"unknown column "mailbox_length": did you mean "mailbox_len"?"#,
            ),
            (r#"{"type":"view","id":1,"columns":["pid","nmae"]}"#, r#"unknown column "nmae": did you mean "name"?"#),
            (
                r#"{"type":"kill","pid":"<0.1.1>","reason":"exit"}"#,
                r#"unknown kill reason "exit": expected one of shutdown, kill"#,
            ),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
        assert!(error(r#"{"type":"view","id":1,"columns":["colour"]}"#).contains("expected one of pid, name, state"));
    }
}
