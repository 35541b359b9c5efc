//! Errors of decoding, which name the part of the message that is wrong.

use thiserror::Error;

/// Error returned for a text that is not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The message is too large: send it in smaller parts, or request less.
    #[error("message of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Size of the message, in bytes.
        bytes: usize,
        /// Maximum size, in bytes.
        limit: usize,
    },
    /// The text is not JSON, or a field is missing or of the wrong type; the reason names it.
    #[error("malformed message: {reason}")]
    Malformed {
        /// The problem, and the expected form.
        reason: String,
    },
    /// The message is JSON, but this version does not know its type.
    #[error("unknown message {name:?}: {hint}")]
    Unknown {
        /// The `type` of the message, cut to 64 characters.
        name: String,
        /// The type that was most likely meant, or all known types.
        hint: String,
    },
    /// A field holds a word that this version does not know.
    #[error("unknown {what} {name:?}: {hint}")]
    UnknownWord {
        /// Kind of word that was expected.
        what: &'static str,
        /// The word, cut to 64 characters.
        name: String,
        /// The word that was most likely meant, or all known words.
        hint: String,
    },
}

/// Returns the part of a name that an error shows.
pub(super) fn truncated(name: &str) -> String {
    name.chars().take(64).collect()
}
