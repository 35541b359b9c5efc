//! Words, comparisons and errors of the query language.

use std::fmt;
use std::ops::Range;

use crate::escape::escape;

/// A word of a query. Two words are equal if their texts are, wherever they are.
#[derive(Clone, Debug, Eq)]
pub struct QueryWord {
    /// The text, without quotes and escapes.
    pub text: String,
    /// True if the word was in quotes: all its characters stand for themselves.
    pub is_quoted: bool,
    /// Position in the query, in bytes, with the quotes.
    pub at: Range<usize>,
}

impl PartialEq for QueryWord {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.is_quoted) == (&other.text, other.is_quoted)
    }
}

/// How a field is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `~`: contains
    Contains,
    /// `!~`: does not contain
    ContainsNot,
}

impl Comparison {
    /// All comparisons. A sign that begins like another one comes before it.
    pub const ALL: [Self; 8] = [
        Self::NotEqual,
        Self::ContainsNot,
        Self::LessOrEqual,
        Self::GreaterOrEqual,
        Self::Equal,
        Self::Less,
        Self::Greater,
        Self::Contains,
    ];

    /// Returns the sign of the comparison.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Contains => "~",
            Self::ContainsNot => "!~",
        }
    }

    /// Compares two numbers; a number contains only itself.
    #[inline]
    pub const fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Equal | Self::Contains => left == right,
            Self::NotEqual | Self::ContainsNot => left != right,
            Self::GreaterOrEqual => left >= right,
            Self::Greater => left > right,
        }
    }
}

/// Error returned when a query is not valid: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// The problem and its remedy, in one line.
    pub message: String,
    /// Position of the wrong word in the query, in bytes; empty at the end of the query.
    pub at: Range<usize>,
}

impl QueryError {
    /// Creates an error about a part of a query; the message is [escaped](crate::escape).
    pub fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message: escape(&message).into_owned(), at }
    }

    /// Returns the position of the wrong word and its length, in characters.
    pub fn characters(&self, query: &str) -> (usize, usize) {
        let upto = |at: usize| query.get(..at).unwrap_or(query).chars().count();
        let start = upto(self.at.start);
        (start, upto(self.at.end) - start)
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for QueryError {}

impl fmt::Display for QueryWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_quoted { f.write_str(&quoted(&self.text)) } else { f.write_str(&self.text) }
    }
}

/// Returns a text in quotes, for use as a value or as a text to search for.
///
/// ```
/// assert_eq!(rusm_text::quoted(r#"a "b""#), r#""a \"b\"""#);
/// ```
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
