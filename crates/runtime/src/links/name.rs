//! The rule for names: the same for processes, groups, topics and their subscriptions, and buckets, in memory, on disk
//! and between nodes. A name is checked where a caller gives it.

use std::sync::Arc;

use thiserror::Error;

/// Maximum length of a name or a label, in bytes. A longer name is an error; a longer label is truncated.
pub const NAME_MAX_BYTES: usize = 255;

/// Error returned for a text that is not valid as a name: it is empty, or longer than [`NAME_MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the name of a {what} has 1 to {NAME_MAX_BYTES} bytes, not {bytes}")]
pub struct NameError {
    /// Kind of the named thing: `process`, `group`, `topic`, `subscription`, `bucket`, …
    pub what: &'static str,
    /// Length of the text, in bytes.
    pub bytes: usize,
}

/// Checks a name: a text of 1 to [`NAME_MAX_BYTES`] bytes of UTF-8, with any characters. `what` is the kind of thing that
/// is named, for the error.
///
/// This is the only rule for names of processes, groups, topics, subscriptions, queues of jobs and buckets.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::check_name;
///
/// assert!(check_name("topic", "orders of 北京").is_ok());
/// let error = check_name("topic", "").unwrap_err();
/// assert_eq!(error.to_string(), "the name of a topic has 1 to 255 bytes, not 0");
/// ```
///
/// # Errors
/// [`NameError`] with the length of the text.
pub const fn check_name(what: &'static str, name: &str) -> Result<(), NameError> {
    let bytes = name.len();
    if bytes == 0 || bytes > NAME_MAX_BYTES { Err(NameError { what, bytes }) } else { Ok(()) }
}

/// Returns a label within its limit: one that is longer is truncated.
pub(crate) fn label_of(text: Arc<str>) -> Arc<str> {
    if text.len() <= NAME_MAX_BYTES { text } else { text[..text.floor_char_boundary(NAME_MAX_BYTES)].into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_to_255_bytes_of_any_characters() {
        for valid in ["a", "with space", "a/b:c", "line\nbreak", "\0", &"x".repeat(255), &"é".repeat(127)] {
            assert_eq!(check_name("group", valid), Ok(()), "{valid:?}");
        }
        for (wrong, bytes) in [("", 0), (&*"x".repeat(256), 256), (&*"é".repeat(128), 256)] {
            assert_eq!(check_name("group", wrong), Err(NameError { what: "group", bytes }));
        }
    }

    #[test]
    fn a_label_is_truncated_between_two_characters() {
        assert_eq!(&*label_of("x".repeat(255).into()), "x".repeat(255));
        assert_eq!(&*label_of("é".repeat(128).into()), "é".repeat(127));
    }

    #[test]
    fn the_error_is_one_line_that_says_the_rule() {
        let error = check_name("bucket", &"x".repeat(300)).unwrap_err();

        assert_eq!(error.to_string(), "the name of a bucket has 1 to 255 bytes, not 300");
    }
}
