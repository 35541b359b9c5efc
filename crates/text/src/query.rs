//! The query language of filters: its syntax, without the meaning of its fields.
//!
//! ```text
//!   "name=kv* and !(mem>1MB or age < 2s)" ──▶ parse ──▶ Query: and, or, not, conditions, texts
//!                                                └─▶ QueryError: what is wrong, and where
//! ```
//!
//! A caller gives fields and values their meaning; see `docs/reference.md` for the grammar. Invariant: a text is only
//! searched for if it contains no operator, so a mistyped condition is an error and never an empty result.

mod glob;
mod lexer;
mod word;

use std::fmt;
use std::ops::Range;

pub use self::glob::matches_glob;
use self::lexer::{Lexer, Sign};
pub use self::word::{Comparison, QueryError, QueryWord, quoted};

/// Maximum length of a query, in bytes.
pub const QUERY_BYTES_MAX: usize = 1024;
/// Maximum number of conditions and texts in a query.
const TERMS_MAX: usize = 64;
/// Maximum depth of parentheses and negations.
const DEPTH_MAX: usize = 32;

/// A parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// All of these match; two or more.
    And(Vec<Self>),
    /// At least one of these matches; two or more.
    Or(Vec<Self>),
    /// This does not match.
    Not(Box<Self>),
    /// A field is compared with a value.
    Condition(QueryCondition),
    /// A text to search for.
    Text(QueryWord),
}

/// A condition: `mem>=64KiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryCondition {
    /// Name of the field.
    pub field: QueryWord,
    /// The comparison.
    pub comparison: Comparison,
    /// The value.
    pub value: QueryWord,
}

impl Query {
    /// Parses a query; `None` if it is empty.
    ///
    /// # Errors
    /// [`QueryError`] if the text is not a query, with the position of the word that is wrong.
    ///
    /// ```
    /// use rusm_text::Query;
    ///
    /// let query = Query::parse("name=kv* and (mem>1MB or !idle)").unwrap().unwrap();
    /// assert_eq!(query.to_string(), "name=kv* and (mem>1MB or !idle)");
    ///
    /// let error = Query::parse("mem>").unwrap_err();
    /// assert_eq!((error.to_string().as_str(), error.at), ("a value is missing after mem>", 4..4));
    /// ```
    pub fn parse(text: &str) -> Result<Option<Self>, QueryError> {
        if text.len() > QUERY_BYTES_MAX {
            let message = format!("filter of {} bytes is over the limit of {QUERY_BYTES_MAX}", text.len());
            return Err(QueryError::new(0..0, message));
        }
        let mut parser = Parser { lexer: Lexer::new(text), terms: 0, depth: 0 };
        if parser.lexer.is_at_end() {
            return Ok(None);
        }
        let query = parser.any()?;
        match parser.lexer.peek() {
            None => Ok(Some(query)),
            Some((Sign::Close, at)) => Err(QueryError::new(at, "this ) closes nothing: remove it, or add a (")),
            Some((_, at)) => Err(parser.joins(at)),
        }
    }

    /// Calls `visit` for each condition and each text, from left to right.
    pub fn for_each_term<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.for_each_term(visit)),
            Self::Not(part) => part.for_each_term(visit),
            Self::Condition(_) | Self::Text(_) => visit(self),
        }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    terms: usize,
    depth: usize,
}

impl Parser<'_> {
    /// Parses parts joined by `or`.
    fn any(&mut self) -> Result<Query, QueryError> {
        let mut parts = vec![self.all()?];
        while self.lexer.take(Sign::Or) {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            Query::Or(flat(parts, |part| match part {
                Query::Or(inner) => Ok(inner),
                other => Err(other),
            }))
        })
    }

    /// Parses parts joined by `and`.
    fn all(&mut self) -> Result<Query, QueryError> {
        let mut parts = vec![self.part()?];
        while self.lexer.take(Sign::And) {
            parts.push(self.part()?);
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            Query::And(flat(parts, |part| match part {
                Query::And(inner) => Ok(inner),
                other => Err(other),
            }))
        })
    }

    /// Parses a negation, a group, a condition or a text.
    fn part(&mut self) -> Result<Query, QueryError> {
        let Some((sign, at)) = self.lexer.peek() else {
            return Err(QueryError::new(self.lexer.end(), self.lexer.missing()));
        };
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(QueryError::new(at, format!("more than {DEPTH_MAX} levels of ( and !")));
        }
        let part = match sign {
            Sign::Not => {
                self.lexer.skip();
                Query::Not(Box::new(self.part()?))
            }
            Sign::Open => {
                self.lexer.skip();
                let inner = self.any()?;
                if !self.lexer.take(Sign::Close) {
                    return Err(match self.lexer.peek() {
                        None => QueryError::new(at, "this ( is not closed: add a )"),
                        Some((_, next)) => self.joins(next),
                    });
                }
                inner
            }
            Sign::Word => self.term()?,
            Sign::And | Sign::Or => {
                let message =
                    format!("a condition is missing before {:?}: to search for it, quote it", self.lexer.text(&at));
                return Err(QueryError::new(at, message));
            }
            Sign::Close => return Err(QueryError::new(at, "a condition is missing before this )")),
            Sign::Comparison(comparison) => {
                let message =
                    format!("a field is missing before {}, for example mem{}", comparison.sign(), comparison.sign());
                return Err(QueryError::new(at, message));
            }
        };
        self.depth -= 1;
        Ok(part)
    }

    /// Parses a condition, or a text to search for.
    fn term(&mut self) -> Result<Query, QueryError> {
        let mut word = self.lexer.word()?;
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return Err(QueryError::new(word.at, format!("more than {TERMS_MAX} conditions")));
        }
        if let Some((Sign::Comparison(comparison), at)) = self.lexer.peek() {
            if word.is_quoted {
                return Err(QueryError::new(word.at, "a field is not quoted: remove the quotes"));
            }
            self.lexer.skip();
            let field = word;
            let value =
                self.lexer.value(&format!("a value is missing after {}{}", field.text, self.lexer.text(&at)))?;
            return Ok(Query::Condition(QueryCondition { field, comparison, value }));
        }
        // Words in a row are one text, as they are written.
        while !word.is_quoted && matches!(self.lexer.peek(), Some((Sign::Word, _))) {
            let next = self.lexer.word()?;
            if next.is_quoted {
                return Err(self.joins(next.at));
            }
            if let Some((Sign::Comparison(_), _)) = self.lexer.peek() {
                return Err(self.joins(next.at));
            }
            word.at.end = next.at.end;
            self.lexer.text(&word.at).clone_into(&mut word.text);
        }
        Ok(Query::Text(word))
    }

    /// Returns the error for a word that no `and` or `or` joins to the one before.
    fn joins(&self, at: Range<usize>) -> QueryError {
        let next = self.lexer.text(&at);
        QueryError::new(at, format!("\"and\" or \"or\" is missing before {next:?}; quote a value that contains blanks"))
    }
}

/// Replaces parts that are of the same kind by their own parts, so that `(a and b) and c` equals `a and b and c`.
fn flat(parts: Vec<Query>, open: impl Fn(Query) -> Result<Vec<Query>, Query>) -> Vec<Query> {
    parts.into_iter().flat_map(|part| open(part).unwrap_or_else(|other| vec![other])).collect()
}

/// Writes the query so that parsing it gives an equal one.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, parts: &[Self], word: &str, wrap: fn(&Self) -> bool| {
            for (at, part) in parts.iter().enumerate() {
                f.write_str(if at == 0 { "" } else { word })?;
                if wrap(part) { write!(f, "({part})")? } else { write!(f, "{part}")? }
            }
            Ok(())
        };
        match self {
            Self::And(parts) => join(f, parts, " and ", |part| matches!(part, Self::Or(_) | Self::And(_))),
            Self::Or(parts) => join(f, parts, " or ", |part| matches!(part, Self::Or(_))),
            Self::Not(part) if matches!(**part, Self::And(_) | Self::Or(_)) => write!(f, "!({part})"),
            Self::Not(part) => write!(f, "!{part}"),
            Self::Condition(QueryCondition { field, comparison, value }) => {
                write!(f, "{}{}{value}", field.text, comparison.sign())
            }
            Self::Text(word) => write!(f, "{word}"),
        }
    }
}

#[cfg(test)]
mod tests;
