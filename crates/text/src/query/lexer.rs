//! Splits a query into words and signs. What a word may contain depends on its place: a value begins after a
//! comparison, and a pid such as `<0.17.1>` begins like a comparison.

use std::ops::Range;

use super::word::{Comparison, QueryError, QueryWord};

/// Characters that end a word without quotes.
const ENDS: [char; 11] = ['(', ')', '"', '\'', '!', '=', '<', '>', '~', '&', '|'];

/// The next sign of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    And,
    Or,
    Not,
    Open,
    Close,
    Comparison(Comparison),
    /// Any other word.
    Word,
}

/// Reads a query from left to right.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// End of the last sign or word.
    last: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, last: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Returns the empty range after the last word.
    pub(super) fn end(&self) -> Range<usize> {
        self.last..self.last
    }

    /// Returns the text of a range.
    pub(super) fn text(&self, at: &Range<usize>) -> &'a str {
        self.text.get(at.clone()).unwrap_or_default()
    }

    /// Returns the error for an end of the query where a condition must follow.
    pub(super) fn missing(&self) -> String {
        let before = self.text[..self.last].rsplit(char::is_whitespace).next().unwrap_or_default();
        format!("a condition is missing after {before:?}")
    }

    fn rest(&self) -> &'a str {
        self.text[self.at..].trim_start()
    }

    /// Returns the next sign and its range; `None` at the end.
    pub(super) fn peek(&self) -> Option<(Sign, Range<usize>)> {
        let rest = self.rest();
        let start = self.text.len() - rest.len();
        let first = rest.chars().next()?;
        let (sign, len) = match first {
            '(' => (Sign::Open, 1),
            ')' => (Sign::Close, 1),
            '<' if pid_len(rest) > 0 && !self.follows_word() => (Sign::Word, pid_len(rest)),
            '&' => (Sign::And, 1 + usize::from(rest.starts_with("&&"))),
            '|' => (Sign::Or, 1 + usize::from(rest.starts_with("||"))),
            _ => match Comparison::ALL.into_iter().find(|comparison| rest.starts_with(comparison.sign())) {
                Some(comparison) => (Sign::Comparison(comparison), comparison.sign().len()),
                None if first == '!' => (Sign::Not, 1),
                None => (word_sign(rest), word_len(rest)),
            },
        };
        Some((sign, start..start + len))
    }

    /// Returns true if the last word ends right here, so that `<` is a comparison even before digits: `mailq<0.5`.
    fn follows_word(&self) -> bool {
        self.last > 0 && self.text[..self.last].ends_with(|c: char| !ENDS.contains(&c)) && {
            let before = self.text[..self.last].rsplit(|c: char| c.is_whitespace() || ENDS.contains(&c)).next();
            !matches!(before.map(str::to_lowercase).as_deref(), Some("and" | "or" | "not"))
        }
    }

    /// Skips the next sign.
    pub(super) fn skip(&mut self) {
        if let Some((_, at)) = self.peek() {
            (self.at, self.last) = (at.end, at.end);
        }
    }

    /// Skips the next sign if it is this one.
    pub(super) fn take(&mut self, sign: Sign) -> bool {
        let is_next = self.peek().is_some_and(|(next, _)| next == sign);
        if is_next {
            self.skip();
        }
        is_next
    }

    /// Reads a word.
    pub(super) fn word(&mut self) -> Result<QueryWord, QueryError> {
        let rest = self.rest();
        let start = self.text.len() - rest.len();
        if rest.starts_with(['"', '\'']) {
            return self.quoted(start);
        }
        let len = match pid_len(rest) {
            0 => word_len(rest),
            len => len,
        };
        Ok(self.plain(start..start + len))
    }

    /// Reads a value.
    pub(super) fn value(&mut self, missing: &str) -> Result<QueryWord, QueryError> {
        let rest = self.rest();
        let start = self.text.len() - rest.len();
        let len = match pid_len(rest) {
            0 => value_len(rest),
            len => len,
        };
        match rest.chars().next() {
            Some('"' | '\'') => self.quoted(start),
            Some(_) if len > 0 && word_sign(rest) == Sign::Word => Ok(self.plain(start..start + len)),
            Some(_) if Comparison::ALL.iter().any(|comparison| rest.starts_with(comparison.sign())) => {
                let message = format!("{missing}; quote a value that contains {:?}", &rest[..1]);
                Err(QueryError::new(start..start + 1, message))
            }
            _ => Err(QueryError::new(self.end(), missing)),
        }
    }

    fn plain(&mut self, at: Range<usize>) -> QueryWord {
        (self.at, self.last) = (at.end, at.end);
        QueryWord { text: self.text[at.clone()].to_owned(), is_quoted: false, at }
    }

    fn quoted(&mut self, start: usize) -> Result<QueryWord, QueryError> {
        let mut text = String::new();
        let mut characters = self.text[start..].char_indices();
        let quote = characters.next().map_or('"', |(_, quote)| quote);
        let mut is_escaped = false;
        for (offset, character) in characters {
            if is_escaped {
                text.push(character);
                is_escaped = false;
            } else if character == '\\' {
                is_escaped = true;
            } else if character == quote {
                let at = start..start + offset + character.len_utf8();
                (self.at, self.last) = (at.end, at.end);
                return Ok(QueryWord { text, is_quoted: true, at });
            } else {
                text.push(character);
            }
        }
        Err(QueryError::new(start..self.text.len(), format!("this {quote} is not closed")))
    }
}

/// Returns what a word without quotes stands for.
fn word_sign(rest: &str) -> Sign {
    match &rest[..word_len(rest)] {
        word if word.eq_ignore_ascii_case("and") => Sign::And,
        word if word.eq_ignore_ascii_case("or") => Sign::Or,
        word if word.eq_ignore_ascii_case("not") => Sign::Not,
        _ => Sign::Word,
    }
}

/// Returns the length of a word without quotes, in bytes. A quote at its start begins a quoted word of unknown length.
fn word_len(rest: &str) -> usize {
    let len = rest.find(|c: char| c.is_whitespace() || ENDS.contains(&c)).unwrap_or(rest.len());
    if len == 0 { rest.chars().next().map_or(0, char::len_utf8) } else { len }
}

/// Returns the length of a value without quotes, in bytes.
fn value_len(rest: &str) -> usize {
    rest.find(|c: char| c.is_whitespace() || ENDS.contains(&c)).unwrap_or(rest.len())
}

/// Returns the length of a pid such as `<0.17.1>` at the start, in bytes; 0 without one.
fn pid_len(rest: &str) -> usize {
    let Some(inside) = rest.strip_prefix('<') else { return 0 };
    let len = inside.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(inside.len());
    if len > 0 && inside[len..].starts_with('>') { len + 2 } else { 0 }
}
