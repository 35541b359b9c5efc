//! Format of messages and fields in a text log: `started guests=2 reason="trap: unreachable"`.
//!
//! Invariant: outside quotes, only the program writes `name=`. Text from a guest may contain `reason=` or a quote, and
//! a log reader must not mistake it for a field.

use std::fmt::{self, Debug, Write};

use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Formats fields as `name=value` words, and the message without a name.
pub(crate) fn quoting() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        // Skip the fields of events from the `log` crate: they repeat what the line begins with.
        if field.name().starts_with("log.") {
            return Ok(());
        }
        let is_message = field.name() == "message";
        if !is_message {
            write!(writer, "{}=", field.name())?;
        }
        write_value(writer, &format!("{value:?}"), is_message)
    })
    .delimited(" ")
}

/// Writes a value, quoted if a reader could take it for more than one value.
pub(crate) fn write_value(out: &mut dyn Write, value: &str, is_message: bool) -> fmt::Result {
    let must_quote = if is_message {
        // Leave paired quotes as they are: many error messages put names in quotes. A backslash matters before a quote.
        let quotes = value.matches('"').count();
        value.contains('=') || quotes % 2 == 1 || (quotes > 0 && value.contains('\\'))
    } else {
        value.is_empty() || value.contains(|character: char| character.is_whitespace() || "=\"".contains(character))
    };
    if !must_quote || is_quoted(value) {
        return out.write_str(value);
    }
    out.write_char('"')?;
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            out.write_char('\\')?;
        }
        out.write_char(character)?;
    }
    out.write_char('"')
}

/// Returns true if the value is a single quoted string, as `Debug` writes strings.
fn is_quoted(value: &str) -> bool {
    let Some(within) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return false };
    let mut is_escaped = false;
    let ends_early = within.chars().any(|character| {
        let is_end = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_end
    });
    !ends_early && !is_escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &str, is_message: bool) -> String {
        let mut out = String::new();
        write_value(&mut out, value, is_message).unwrap();
        out
    }

    #[test]
    fn words_of_a_guest_do_not_imitate_fields() {
        assert_eq!(written("normal", false), "normal");
        assert_eq!(written("trap: unreachable", false), "\"trap: unreachable\"");
        assert_eq!(written("x guest=other", false), "\"x guest=other\"");
        assert_eq!(written("\"a\" guest=\"b\"", false), "\"\\\"a\\\" guest=\\\"b\\\"\"");
        assert_eq!(written("\"a\\\" guest=\\\"b\"", false), "\"a\\\" guest=\\\"b\"", "one string already");
        assert_eq!(written("\"a guest=b\\\"", false), "\"\\\"a guest=b\\\\\\\"\"", "its last quote is escaped");
        assert_eq!(written("", false), "\"\"");
    }

    #[test]
    fn a_message_is_quoted_where_it_could_end_early() {
        assert_eq!(written("the node is up", true), "the node is up");
        assert_eq!(written("done pid=<0.1.1>", true), "\"done pid=<0.1.1>\"");
        assert_eq!(written("say \"hi", true), "\"say \\\"hi\"");
        assert_eq!(written("guest \"a\" has ended", true), "guest \"a\" has ended");
        assert_eq!(written("panicked at a.rs:1:2:\\nno change", true), "panicked at a.rs:1:2:\\nno change");
        assert_eq!(written("\"\\\"", true), r#""\"\\\"""#, "an escaped quote is no end");
    }
}
