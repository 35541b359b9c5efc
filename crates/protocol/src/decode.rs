//! Encoding and decoding of messages. Every error names the part of the message that is wrong.

mod error;
mod fields;

use rusm_text::suggestion;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::{Map, Value};

pub use self::error::DecodeError;
use self::error::truncated;
use crate::{CLIENT_MESSAGE_MAX_BYTES, ClientMessage, SERVER_MESSAGE_MAX_BYTES, ServerMessage};

const SERVER_TYPES: &[&str] = &[
    "hello",
    "tick",
    "rows",
    "tree",
    "engines",
    "time",
    "stores",
    "topics",
    "cpu",
    "schedulers",
    "serve",
    "cluster",
    "results",
    "report",
    "waits",
    "trace",
    "process",
    "inspection",
    "causes",
    "events",
    "past",
    "history",
    "ack",
    "killed",
    "error",
];
/// Messages that are not commands: if they have an `id`, it does not identify a command that the node answers.
const WITHOUT_ANSWER: &[&str] = &[
    "set_observer_detail",
    "watch",
    "view",
    "detail",
    "tree",
    "engines",
    "time",
    "stores",
    "topics",
    "cpu",
    "waits",
    "inspect",
    "causes",
    "schedulers",
    "serve",
    "cluster",
    "results",
    "events",
    "past",
    "history",
];

/// Decodes a message from an observer.
///
/// # Errors
/// Returns a [`DecodeError`]; its text can be sent back to the observer unchanged.
pub fn decode_client(text: &str) -> Result<ClientMessage, DecodeError> {
    decode(text, CLIENT_MESSAGE_MAX_BYTES, |error| match head(text, error, &fields::client_types()) {
        Ok((name, message)) => fields::explain(&name, &message),
        Err(error) => error,
    })
}

/// Decodes a message from a node.
///
/// # Errors
/// Returns [`DecodeError::Unknown`] for a message of a newer version, which a client may skip. Any other error means a
/// broken node.
pub fn decode_server(text: &str) -> Result<ServerMessage, DecodeError> {
    decode(text, SERVER_MESSAGE_MAX_BYTES, |error| match head(text, error, SERVER_TYPES) {
        Ok((name, _)) => DecodeError::Malformed { reason: format!("{name}: {}", excerpt(error)) },
        Err(error) => error,
    })
}

/// Returns the `id` of a command that could not be decoded, so that the error can say which command it was.
pub fn command_id(text: &str) -> Option<u64> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct CommandHead {
        r#type: Value,
        id: Value,
    }
    let head = serde_json::from_str::<CommandHead>(text).ok()?;
    let answered = head.r#type.as_str().is_none_or(|name| !WITHOUT_ANSWER.contains(&name));
    head.id.as_u64().filter(|_| answered)
}

/// Encodes a message as text.
///
/// # Panics
/// Never panics for the messages of this crate: their keys are strings, and numbers that JSON lacks are written as
/// `null`.
pub fn encode<M: Serialize>(message: &M) -> String {
    serde_json::to_string(message).expect("messages have string keys and no failing serializer")
}

fn decode<M: DeserializeOwned>(
    text: &str,
    limit: usize,
    explain: impl FnOnce(&serde_json::Error) -> DecodeError,
) -> Result<M, DecodeError> {
    if text.len() > limit {
        return Err(DecodeError::TooLarge { bytes: text.len(), limit });
    }
    serde_json::from_str(text).map_err(|error| explain(&error))
}

/// Returns the type and the fields of a rejected message, or the error that explains why they cannot be read.
fn head(text: &str, error: &serde_json::Error, known: &[&str]) -> Result<(String, Map<String, Value>), DecodeError> {
    let malformed = |reason: String| DecodeError::Malformed { reason };
    // Parse again only after a data error. A syntax error, for example nesting that is too deep, is reported as it is.
    let message = match error.classify() {
        Category::Data => serde_json::from_str::<Value>(text).map_err(|error| malformed(json_error(&error)))?,
        Category::Io | Category::Syntax | Category::Eof => return Err(malformed(json_error(error))),
    };
    let Value::Object(message) = message else {
        return Err(malformed(format!("send an object with a \"type\", not {}", fields::described(&message))));
    };
    match message.get("type") {
        Some(Value::String(name)) if known.contains(&name.as_str()) => Ok((name.clone(), message)),
        Some(Value::String(name)) => Err(DecodeError::Unknown { name: truncated(name), hint: suggestion(name, known) }),
        Some(other) => Err(malformed(format!("\"type\" must be text, not {}", fields::described(other)))),
        None => Err(malformed(format!("no \"type\": expected one of {}", known.join(", ")))),
    }
}

/// Returns an error in one line of limited length: it repeats words of the message.
fn excerpt(error: &serde_json::Error) -> String {
    rusm_text::escaped(error).to_string().chars().take(1000).collect()
}

/// Describes why a text is not JSON, and at which position.
fn json_error(error: &serde_json::Error) -> String {
    let at = format!("at line {} column {}", error.line(), error.column());
    match error.classify() {
        Category::Eof => format!("the JSON ends too early, {at}"),
        _ if error.to_string().starts_with("recursion limit") => format!("nested too deeply, {at}"),
        _ => format!("not JSON {at}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_message_is_named_in_the_error() {
        let error = decode_client(r#"{"type":"frobnicate"}"#).unwrap_err();

        assert!(error.to_string().starts_with("unknown message \"frobnicate\": expected one of run, stop"), "{error}");
    }

    #[test]
    fn words_of_a_node_are_escaped_and_cut_in_errors() {
        let rows = |column: &str| format!(r#"{{"type":"rows","columns":["{column}"]}}"#);

        let escaped = decode_server(&rows("a\\u007f\\u202eb")).unwrap_err().to_string();
        let long = decode_server(&rows(&"x".repeat(100_000))).unwrap_err().to_string();

        assert!(escaped.contains(r"`a\u{7f}\u{202e}b`"), "{escaped}");
        assert!(long.len() < 1100, "{} bytes", long.len());
    }

    #[test]
    fn a_mistyped_message_comes_with_the_one_that_was_meant() {
        let error = decode_client(r#"{"type":"runn","id":7}"#).unwrap_err();

        assert_eq!(error.to_string(), "unknown message \"runn\": did you mean \"run\"?");
    }

    #[test]
    fn what_is_no_object_with_a_type_is_told_so() {
        let types = "run, stop, pause, set_observer_detail, set_resource_profile, watch, view, detail, inspect, causes, tree, engines, time, stores, topics, cpu, schedulers, serve, cluster, waits, trace, events, results, report, past, history, set_log_filter, restart_child, kill_all, kill";
        for (text, expected) in [
            ("", "malformed message: the JSON ends too early, at line 1 column 0"),
            ("{", "malformed message: the JSON ends too early, at line 1 column 1"),
            ("hello", "malformed message: not JSON at line 1 column 1"),
            ("[1]", "malformed message: send an object with a \"type\", not a list"),
            ("7", "malformed message: send an object with a \"type\", not 7"),
            (r#"{"type":7}"#, "malformed message: \"type\" must be text, not 7"),
            ("{}", &format!("malformed message: no \"type\": expected one of {types}")),
        ] {
            assert_eq!(decode_client(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn the_id_of_a_command_is_found_in_whatever_is_an_object() {
        for (text, id) in [
            (r#"{"type":"runn","id":7}"#, Some(7)),
            (r#"{"id":7,"type":"kill","pid":null}"#, Some(7)),
            (r#"{"type":[1],"id":7}"#, Some(7)),
            (r#"{"id":7}"#, Some(7)),
            (r#"{"type":"run","id":"7"}"#, None),
            (r#"{"type":"run","id":-7}"#, None),
            (r#"{"type":"view","id":7,"hz":"x"}"#, None),
            (r#"{"type":"run","id":7"#, None),
            ("[7]", None),
        ] {
            assert_eq!(command_id(text), id, "{text}");
        }
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let message = decode_client(r#"{"type":"stop","why":{"deep":[1,2]}}"#).unwrap();

        assert_eq!(message, ClientMessage::Stop { id: None });
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = decode_client(r#"{"type":"run"}"#).unwrap_err();

        assert_eq!(error.to_string(), "malformed message: \"scenario\" is missing: it must be text");
    }

    #[test]
    fn deep_nesting_is_refused_without_overflow() {
        let text = format!(r#"{{"type":"stop","x":{}"#, "[".repeat(60_000));

        assert!(matches!(decode_client(&text), Err(DecodeError::Malformed { .. })));
    }

    #[test]
    fn an_oversized_message_is_refused_by_its_size_alone() {
        let text = " ".repeat(CLIENT_MESSAGE_MAX_BYTES + 1);

        assert_eq!(decode_client(&text).unwrap_err().to_string(), "message of 65537 bytes is over the limit of 65536");
    }

    #[test]
    fn numbers_that_json_lacks_do_not_break_a_frame() {
        let frame = crate::Frame { ops_per_sec: f64::NAN, ..Default::default() };

        assert!(encode(&frame).contains(r#""ops_per_sec":null"#));
    }
}
