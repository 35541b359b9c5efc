//! Values and attributes in the JSON of OTLP.
//!
//! In it, 64-bit integers are strings, and bytes of identifiers are hexadecimal.

use std::fmt::{self, Debug, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};

/// Maximum number of attributes of a record.
const ATTRIBUTES_MAX: usize = 64;
/// Maximum number of bytes of a value; the rest is cut off.
const VALUE_BYTES_MAX: usize = 4096;

/// Returns the time since 1970 in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "records of OTLP are stamped with wall time")]
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Returns an attribute with a text.
pub(crate) fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// The fields of an event or a span.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) message: Option<String>,
    /// Target of an event of the `log` crate.
    pub(crate) target: Option<String>,
    pub(crate) attributes: Vec<Value>,
    pub(crate) dropped: u32,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &Value) {
        let key = field.name();
        if key.starts_with("log.") {
            return;
        }
        // A span may record a field again.
        self.attributes.retain(|attribute| attribute["key"] != key);
        if self.attributes.len() == ATTRIBUTES_MAX {
            self.dropped += 1;
        } else {
            self.attributes.push(json!({ "key": key, "value": value }));
        }
    }

    fn add_text(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = Some(text),
            "log.target" => self.target = Some(text),
            _ => self.add(field, &json!({ "stringValue": text })),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, &double(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, &json!({ "intValue": value.to_string() }));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.record_i64(field, value),
            Err(_) => self.add_text(field, value.to_string()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, &json!({ "boolValue": value }));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = Bounded(String::new());
        // It fails when the value is cut off.
        _ = write!(text, "{value:?}");
        self.add_text(field, text.0);
    }
}

fn double(value: f64) -> Value {
    json!({ "doubleValue": number(value) })
}

/// Returns a number as OTLP has it: JSON lacks infinity.
pub(crate) fn number(value: f64) -> Value {
    if value.is_finite() {
        return json!(value);
    }
    let word = if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    json!(word)
}

/// A text that accepts [`VALUE_BYTES_MAX`] bytes.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = VALUE_BYTES_MAX - self.0.len();
        let kept = &text[..text.floor_char_boundary(room)];
        self.0.push_str(kept);
        if kept.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
