//! Finds the invalid field of a message with a known type, and describes it in the terms of this protocol. It runs
//! only after decoding has failed.
//!
//! `serde_path_to_error` cannot replace this table: serde buffers the content of an internally tagged enum, so the path
//! of every error is `.`, and the error about a missing field does not say which type the field must have.

use rusm_text::suggestion;
use serde_json::{Map, Value};

use super::error::{DecodeError, truncated};
use crate::Column;

/// Type of a field's value.
#[derive(Clone, Copy, Debug)]
enum FieldType {
    Text,
    TextOrNull,
    Number,
    NumberOrNull,
    /// A whole number up to this maximum.
    Whole(u64),
    /// A whole number, or null.
    Id,
    Bool,
    TextMap,
    /// A list of texts.
    TextList,
    Columns,
    Column,
    /// Any of these exit reasons.
    KillReason(&'static [&'static str]),
    /// Any of these words.
    Word(&'static [&'static str]),
    /// An object with these fields.
    Object(&'static [Field]),
    /// An object with these fields, or null.
    ObjectOrNull(&'static [Field]),
}

/// Name of a field, type of its value, and whether it is required.
type Field = (&'static str, FieldType, bool);

const REQUIRED: bool = true;
const OPTIONAL: bool = false;

const SORT: &[Field] = &[("key", FieldType::Column, REQUIRED), ("desc", FieldType::Bool, OPTIONAL)];
const WINDOW: &[Field] =
    &[("offset", FieldType::Whole(u64::MAX), OPTIONAL), ("len", FieldType::Whole(u32::MAX as u64), REQUIRED)];

const TREE: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("open", FieldType::TextList, OPTIONAL),
    ("window", FieldType::Object(WINDOW), OPTIONAL),
    ("selected", FieldType::TextOrNull, OPTIONAL),
    ("sums", FieldType::Bool, OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const FAULT: &[Field] =
    &[("engine", FieldType::Whole(u32::MAX as u64), OPTIONAL), ("seq", FieldType::Whole(u64::MAX), OPTIONAL)];

const TIME: &[Field] = &[("id", FieldType::Whole(u32::MAX as u64), REQUIRED), ("hz", FieldType::Number, OPTIONAL)];

const ENGINES: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("window", FieldType::Object(WINDOW), OPTIONAL),
    ("fault", FieldType::ObjectOrNull(FAULT), OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const KEYS: &[Field] = &[
    ("store", FieldType::Whole(u32::MAX as u64), OPTIONAL),
    ("bucket", FieldType::Text, OPTIONAL),
    ("after", FieldType::Text, OPTIONAL),
    ("len", FieldType::Whole(u32::MAX as u64), OPTIONAL),
];

const STORES: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("window", FieldType::Object(WINDOW), OPTIONAL),
    ("keys", FieldType::ObjectOrNull(KEYS), OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const RESULTS: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("run", FieldType::Id, OPTIONAL),
    ("against", FieldType::Id, OPTIONAL),
    ("rows", FieldType::Object(WINDOW), OPTIONAL),
    ("history", FieldType::Object(WINDOW), OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const TOPICS: &[Field] = &[
    ("sort", FieldType::Text, OPTIONAL),
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("window", FieldType::Object(WINDOW), OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const CPU: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("group", FieldType::Text, OPTIONAL),
    ("window", FieldType::Object(WINDOW), OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const SCHEDULERS: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("window", FieldType::Object(WINDOW), OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const SERVE: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("sort", FieldType::Word(&["rate", "errors", "p99", "in_flight", "bytes", "route"]), OPTIONAL),
    ("window", FieldType::Object(WINDOW), OPTIONAL),
    ("request_sort", FieldType::Word(&["age", "bytes_in", "bytes_out", "route", "client"]), OPTIONAL),
    ("filter", FieldType::Text, OPTIONAL),
    ("requests", FieldType::Object(WINDOW), OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const CLUSTER: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("window", FieldType::Object(WINDOW), OPTIONAL),
    ("names", FieldType::Object(WINDOW), OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const BOND: &[Field] = &[("bond", FieldType::Text, REQUIRED), ("window", FieldType::Object(WINDOW), OPTIONAL)];

const INSPECT: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("pid", FieldType::Text, REQUIRED),
    ("page", FieldType::ObjectOrNull(BOND), OPTIONAL),
    ("reach", FieldType::Bool, OPTIONAL),
    ("values", FieldType::Bool, OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const CAUSES: &[Field] = &[
    ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
    ("window", FieldType::Object(WINDOW), OPTIONAL),
    ("selected", FieldType::Id, OPTIONAL),
    ("hz", FieldType::Number, OPTIONAL),
];

const TRACE: &[Field] = &[
    ("pid", FieldType::Text, REQUIRED),
    ("scope", FieldType::Word(&["process", "kind", "children"]), OPTIONAL),
    ("per_sec", FieldType::Whole(u32::MAX as u64), OPTIONAL),
    ("seconds", FieldType::Whole(u32::MAX as u64), OPTIONAL),
];

/// The fields of each message from an observer.
const CLIENT_MESSAGES: &[(&str, &[Field])] = &[
    (
        "run",
        &[
            ("scenario", FieldType::Text, REQUIRED),
            ("params", FieldType::TextMap, OPTIONAL),
            ("kind", FieldType::TextOrNull, OPTIONAL),
            ("profile", FieldType::TextOrNull, OPTIONAL),
            ("rate_per_sec", FieldType::NumberOrNull, OPTIONAL),
            ("duration_ms", FieldType::Id, OPTIONAL),
            ("warm_up_ms", FieldType::Id, OPTIONAL),
            ("seed", FieldType::Id, OPTIONAL),
            ("runs", FieldType::Whole(u32::MAX as u64), OPTIONAL),
            ("grid", FieldType::TextList, OPTIONAL),
            ("slo_p99_ns", FieldType::Id, OPTIONAL),
            ("baseline", FieldType::Id, OPTIONAL),
            ("id", FieldType::Id, OPTIONAL),
        ],
    ),
    ("stop", &[("id", FieldType::Id, OPTIONAL)]),
    ("pause", &[("paused", FieldType::Bool, REQUIRED), ("id", FieldType::Id, OPTIONAL)]),
    ("set_observer_detail", &[("enabled", FieldType::Bool, REQUIRED)]),
    ("set_resource_profile", &[("profile", FieldType::Text, REQUIRED), ("id", FieldType::Id, OPTIONAL)]),
    ("watch", &[("frame_hz", FieldType::Number, REQUIRED)]),
    (
        "view",
        &[
            ("id", FieldType::Whole(u32::MAX as u64), REQUIRED),
            ("columns", FieldType::Columns, OPTIONAL),
            ("sort", FieldType::Object(SORT), OPTIONAL),
            ("filter", FieldType::Text, OPTIONAL),
            ("window", FieldType::Object(WINDOW), OPTIONAL),
            ("hz", FieldType::Number, OPTIONAL),
            ("around", FieldType::TextOrNull, OPTIONAL),
            ("reorder", FieldType::Bool, OPTIONAL),
            ("waits", FieldType::Bool, OPTIONAL),
        ],
    ),
    ("detail", &[("pid", FieldType::TextOrNull, OPTIONAL)]),
    ("inspect", &[("view", FieldType::ObjectOrNull(INSPECT), OPTIONAL)]),
    ("causes", &[("view", FieldType::ObjectOrNull(CAUSES), OPTIONAL)]),
    ("tree", &[("view", FieldType::ObjectOrNull(TREE), OPTIONAL)]),
    ("engines", &[("view", FieldType::ObjectOrNull(ENGINES), OPTIONAL)]),
    ("time", &[("view", FieldType::ObjectOrNull(TIME), OPTIONAL)]),
    ("stores", &[("view", FieldType::ObjectOrNull(STORES), OPTIONAL)]),
    ("topics", &[("view", FieldType::ObjectOrNull(TOPICS), OPTIONAL)]),
    ("cpu", &[("view", FieldType::ObjectOrNull(CPU), OPTIONAL)]),
    ("schedulers", &[("view", FieldType::ObjectOrNull(SCHEDULERS), OPTIONAL)]),
    ("serve", &[("view", FieldType::ObjectOrNull(SERVE), OPTIONAL)]),
    ("cluster", &[("view", FieldType::ObjectOrNull(CLUSTER), OPTIONAL)]),
    ("waits", &[("view", FieldType::ObjectOrNull(TOPICS), OPTIONAL)]),
    ("trace", &[("trace", FieldType::ObjectOrNull(TRACE), OPTIONAL), ("id", FieldType::Id, OPTIONAL)]),
    (
        "events",
        &[
            ("enabled", FieldType::Bool, REQUIRED),
            ("backlog", FieldType::Whole(u32::MAX as u64), OPTIONAL),
            ("open", FieldType::Whole(u64::MAX), OPTIONAL),
            ("log", FieldType::Bool, OPTIONAL),
        ],
    ),
    ("results", &[("view", FieldType::ObjectOrNull(RESULTS), OPTIONAL)]),
    (
        "report",
        &[
            ("run", FieldType::Whole(u64::MAX), REQUIRED),
            ("offset", FieldType::Whole(u64::MAX), OPTIONAL),
            ("id", FieldType::Whole(u64::MAX), REQUIRED),
        ],
    ),
    ("past", &[("id", FieldType::Whole(u32::MAX as u64), REQUIRED), ("at_ms", FieldType::Whole(u64::MAX), REQUIRED)]),
    ("history", &[("id", FieldType::Whole(u32::MAX as u64), REQUIRED)]),
    ("set_log_filter", &[("filter", FieldType::Text, REQUIRED), ("id", FieldType::Id, OPTIONAL)]),
    ("restart_child", &[("path", FieldType::Text, REQUIRED), ("id", FieldType::Id, OPTIONAL)]),
    (
        "kill_all",
        &[
            ("filter", FieldType::Text, REQUIRED),
            ("reason", FieldType::KillReason(&["shutdown", "kill"]), OPTIONAL),
            ("id", FieldType::Id, OPTIONAL),
        ],
    ),
    (
        "kill",
        &[
            ("pid", FieldType::Text, REQUIRED),
            ("reason", FieldType::KillReason(&["shutdown", "kill", "error"]), OPTIONAL),
            ("text", FieldType::TextOrNull, OPTIONAL),
            ("id", FieldType::Id, OPTIONAL),
        ],
    ),
];

/// Returns the types of these messages.
pub(super) fn client_types() -> Vec<&'static str> {
    CLIENT_MESSAGES.iter().map(|(name, _)| *name).collect()
}

/// Returns the first error in an observer's message of type `name`.
pub(super) fn explain(name: &str, message: &Map<String, Value>) -> DecodeError {
    let fields = CLIENT_MESSAGES.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, fields)| fields);
    first_error("", fields, message)
        .unwrap_or_else(|| malformed(format!("{name:?} has a field twice, or one that cannot be read")))
}

fn malformed(reason: String) -> DecodeError {
    DecodeError::Malformed { reason }
}

fn first_error(path: &str, fields: &[Field], object: &Map<String, Value>) -> Option<DecodeError> {
    fields.iter().find_map(|(name, field_type, required)| {
        let path = format!("{path}{name}");
        match object.get(*name) {
            Some(value) => error_in_value(&path, *field_type, value),
            None => {
                required.then(|| malformed(format!("{path:?} is missing: it must be {}", field_type.description())))
            }
        }
    })
}

fn error_in_value(path: &str, field_type: FieldType, value: &Value) -> Option<DecodeError> {
    let wrong = || Some(malformed(format!("{path:?} must be {}, not {}", field_type.description(), described(value))));
    match (field_type, value) {
        (FieldType::Column, Value::String(name)) => unknown("column", name, &Column::ALL.map(Column::word)),
        (FieldType::KillReason(words), Value::String(name)) => unknown("kill reason", name, words),
        (FieldType::Word(words), Value::String(name)) => unknown("word", name, words),
        (FieldType::Columns, Value::Array(columns)) => columns
            .iter()
            .enumerate()
            .find_map(|(at, column)| error_in_value(&format!("{path}[{at}]"), FieldType::Column, column)),
        (FieldType::TextMap, Value::Object(texts)) => {
            texts.iter().find_map(|(name, text)| error_in_value(&format!("{path}.{name}"), FieldType::Text, text))
        }
        (FieldType::TextList, Value::Array(texts)) => texts
            .iter()
            .enumerate()
            .find_map(|(at, text)| error_in_value(&format!("{path}[{at}]"), FieldType::Text, text)),
        (FieldType::Object(fields) | FieldType::ObjectOrNull(fields), Value::Object(object)) => {
            first_error(&format!("{path}."), fields, object)
        }
        (FieldType::Whole(max), Value::Number(number)) if number.as_u64().is_some_and(|number| number <= max) => None,
        (FieldType::Id, Value::Number(number)) if number.is_u64() => None,
        (FieldType::Text | FieldType::TextOrNull, Value::String(_))
        | (FieldType::TextOrNull | FieldType::Id | FieldType::ObjectOrNull(_), Value::Null)
        | (FieldType::NumberOrNull, Value::Number(_) | Value::Null)
        | (FieldType::Number, Value::Number(_))
        | (FieldType::Bool, Value::Bool(_)) => None,
        _ => wrong(),
    }
}

/// Returns an error if the word is not one of the known ones.
fn unknown(what: &'static str, name: &str, known: &[&str]) -> Option<DecodeError> {
    (!known.contains(&name)).then(|| DecodeError::UnknownWord {
        what,
        name: truncated(name),
        hint: suggestion(name, known),
    })
}

impl FieldType {
    fn description(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::TextOrNull => "text or null".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::NumberOrNull => "a number or null".to_owned(),
            Self::Whole(max) => format!("a whole number from 0 to {max}"),
            Self::Id => format!("a whole number from 0 to {}", u64::MAX),
            Self::Bool => "true or false".to_owned(),
            Self::TextMap => "an object of texts".to_owned(),
            Self::TextList => "a list of texts".to_owned(),
            Self::Columns => "a list of columns".to_owned(),
            Self::Column => "a column, such as \"pid\"".to_owned(),
            Self::KillReason(words) | Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Object(fields) => {
                let names: Vec<&str> = fields.iter().map(|(name, ..)| *name).collect();
                format!("an object of {}", names.join(" and "))
            }
            Self::ObjectOrNull(fields) => format!("{}, or null", Self::Object(fields).description()),
        }
    }
}

/// Describes a value for an error message; small values are shown in full.
pub(super) fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text {:?}", truncated(text)),
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
            (r#"{"type":"pause"}"#, r#"malformed message: "paused" is missing: it must be true or false"#),
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
                r#"malformed message: "view" must be an object of id and open and window and selected and sums and hz, or null, not 7"#,
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
                r#"unknown kill reason "exit": expected one of shutdown, kill, error"#,
            ),
            (
                r#"{"type":"trace","trace":{"pid":"<0.1.1>","scope":"kin"}}"#,
                r#"unknown word "kin": did you mean "kind"?"#,
            ),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
        assert!(error(r#"{"type":"view","id":1,"columns":["colour"]}"#).contains("expected one of pid, name, state"));
    }
}
