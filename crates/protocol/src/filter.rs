//! Filters of the process table: the meaning of a [query](rusm_text::Query) about processes.
//!
//! ```text
//!   "name=kv* and (mem>1MB or reds/s>1k)" ──▶ ProcessFilter::parse ──▶ matches(&process) ──▶ true or false
//! ```
//!
//! A node evaluates filters, and an observer parses them before it sends them: both find the same errors. Conditions on
//! numbers compare integers; a condition that is cheap to evaluate comes before an expensive one.

mod fields;
pub(crate) mod requests;

use rusm_text::{Comparison, Query, QueryCondition, QueryError, QueryWord, suggestion};

pub use self::fields::{FILTER_FIELDS, FilterField, FilterFieldInfo, FilterValues, STATES};
use self::fields::{field_of, parse_value};

/// A filter of processes; the default matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFilter(Option<Term>);

#[derive(Clone, Debug, PartialEq)]
enum Term {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Number(FilterField, Comparison, u64),
    Name(FilterField, Pattern),
    State(String),
    Pid(u32, Option<u32>),
    /// A text in lower case, in names, labels and modules.
    Text(String),
}

/// A pattern of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// The whole text.
    Exact(String),
    /// The whole text, where `*` stands for any text.
    Glob(String),
    /// A part of the text, in lower case.
    Part(String),
    /// The whole text in lower case, where `*` stands for any text.
    LowerGlob(String),
}

/// A process, as far as a filter asks about it.
pub trait FilterSubject {
    /// Returns a number of the process, in the unit of the field.
    fn number(&self, field: FilterField) -> u64;

    /// Returns true if one of the texts of a field matches: a process may have a name and a label.
    fn any_text(&self, field: FilterField, matches: &mut dyn FnMut(&str) -> bool) -> bool;

    /// Returns true if the process is in a state.
    fn is_in(&self, state: &str) -> bool;

    /// Returns slot and generation of its pid.
    fn pid(&self) -> (u32, u32);
}

impl ProcessFilter {
    /// Parses a filter.
    ///
    /// # Errors
    /// [`QueryError`] with the position of the word that is wrong.
    ///
    /// ```
    /// use rusm_protocol::ProcessFilter;
    ///
    /// assert!(ProcessFilter::parse("name=kv* and !(mem>1MB or age<2s)").is_ok());
    /// let error = ProcessFilter::parse("mailqq>1").unwrap_err();
    /// assert_eq!((error.to_string().as_str(), error.at), ("unknown filter field \"mailqq\": did you mean \"mailq\"?", 0..6));
    /// ```
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        Query::parse(text)?.map(term).transpose().map(Self)
    }

    /// Returns true for a filter without conditions, which every process matches.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns true if the process matches.
    #[inline]
    pub fn matches(&self, subject: &impl FilterSubject) -> bool {
        self.0.as_ref().is_none_or(|term| term.holds(subject))
    }

    /// Returns the fields that the filter compares, each once. A text compares the name.
    pub fn fields(&self) -> Vec<FilterField> {
        let mut found = Vec::new();
        if let Some(term) = &self.0 {
            term.fields(&mut found);
        }
        found
    }

    /// Returns the fields of the filter that are rates, each once.
    pub fn rates(&self) -> Vec<FilterField> {
        self.fields().into_iter().filter(|field| field.is_rate()).collect()
    }
}

impl Term {
    fn holds(&self, subject: &impl FilterSubject) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.holds(subject)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(subject)),
            Self::Not(part) => !part.holds(subject),
            Self::Number(field, comparison, value) => comparison.holds(subject.number(*field), *value),
            Self::Name(field, pattern) => subject.any_text(*field, &mut |text| pattern.matches(text)),
            Self::State(state) => subject.is_in(state),
            Self::Pid(slot, generation) => {
                let (own_slot, own_generation) = subject.pid();
                own_slot == *slot && generation.is_none_or(|generation| generation == own_generation)
            }
            Self::Text(part) => subject.any_text(FilterField::Name, &mut |text| contains(text, part)),
        }
    }

    /// Returns the relative cost of an evaluation.
    fn cost(&self) -> u32 {
        match self {
            Self::Number(FilterField::Links | FilterField::Monitors | FilterField::LinearBytes, ..) => 4,
            Self::Number(..) | Self::Pid(..) => 1,
            Self::State(_) => 2,
            Self::Name(..) | Self::Text(_) => 8,
            Self::Not(part) => part.cost(),
            Self::And(parts) | Self::Or(parts) => parts.iter().map(Self::cost).max().unwrap_or(0) + 1,
        }
    }

    fn fields(&self, found: &mut Vec<FilterField>) {
        let field = match self {
            Self::And(parts) | Self::Or(parts) => return parts.iter().for_each(|part| part.fields(found)),
            Self::Not(part) => return part.fields(found),
            Self::Number(field, ..) | Self::Name(field, _) => *field,
            Self::State(_) => FilterField::State,
            Self::Pid(..) => FilterField::Pid,
            Self::Text(_) => FilterField::Name,
        };
        if !found.contains(&field) {
            found.push(field);
        }
    }
}

fn term(query: Query) -> Result<Term, QueryError> {
    let all = |parts: Vec<Query>| -> Result<Vec<Term>, QueryError> {
        let mut terms = parts.into_iter().map(term).collect::<Result<Vec<_>, _>>()?;
        terms.sort_by_key(Term::cost);
        Ok(terms)
    };
    Ok(match query {
        Query::And(parts) => Term::And(all(parts)?),
        Query::Or(parts) => Term::Or(all(parts)?),
        Query::Not(part) => Term::Not(Box::new(term(*part)?)),
        Query::Condition(condition) => self::condition(&condition)?,
        Query::Text(word) => match parse_pid(&word.text).filter(|_| !word.is_quoted) {
            Some((slot, generation)) => Term::Pid(slot, generation),
            None => text(word)?,
        },
    })
}

/// Returns the search for a text. The name of a field alone, in its usual letters, is more likely the beginning of a
/// condition.
fn text(word: QueryWord) -> Result<Term, QueryError> {
    match FILTER_FIELDS.iter().find(|info| info.words.contains(&word.text.as_str())).filter(|_| !word.is_quoted) {
        Some(info) => {
            let name = &word.text;
            let example = info.values.examples().first().unwrap_or(&"kv*");
            let message =
                format!("{name:?} is a field: compare it, for example {name}={example}, or quote it to search for it");
            Err(QueryError::new(word.at, message))
        }
        None => Ok(Term::Text(word.text.to_lowercase())),
    }
}

fn condition(condition: &QueryCondition) -> Result<Term, QueryError> {
    let QueryCondition { field, comparison, value } = condition;
    let info = field_of(&field.text).ok_or_else(|| {
        let known: Vec<&str> = FILTER_FIELDS.iter().map(|info| info.words[0]).collect();
        let message = format!("unknown filter field {:?}: {}", field.text, suggestion(&field.text, known.iter()));
        QueryError::new(field.at.clone(), message)
    })?;
    let wrong = |message: String| QueryError::new(value.at.clone(), message);
    let has_order =
        !matches!(info.values, FilterValues::Text | FilterValues::State | FilterValues::Kind | FilterValues::Pid);
    let is_negated = matches!(comparison, Comparison::NotEqual | Comparison::ContainsNot);
    let is_part = matches!(comparison, Comparison::Contains | Comparison::ContainsNot);
    let is_order = !is_negated && !is_part && *comparison != Comparison::Equal;
    let sign_at = field.at.end..value.at.start;
    if is_order && !has_order {
        let signs =
            if matches!(info.values, FilterValues::Pid | FilterValues::State) { "= and !=" } else { "=, !=, ~ and !~" };
        return Err(QueryError::new(sign_at, format!("filter field {:?} supports only {signs}", field.text)));
    }
    if is_part && !matches!(info.values, FilterValues::Text | FilterValues::Kind) {
        let signs = if has_order { "=, !=, <, <=, > and >=" } else { "= and !=" };
        return Err(QueryError::new(sign_at, format!("filter field {:?} supports only {signs}", field.text)));
    }
    let term = match info.values {
        FilterValues::Text | FilterValues::Kind => Term::Name(info.field, Pattern::new(value, is_part)),
        FilterValues::State => match STATES.iter().find(|state| state.eq_ignore_ascii_case(&value.text)) {
            Some(state) => Term::State((*state).to_owned()),
            None => return Err(wrong(format!("unknown state {:?}: {}", value.text, suggestion(&value.text, &STATES)))),
        },
        FilterValues::Pid => match parse_pid(&value.text) {
            Some((slot, generation)) => Term::Pid(slot, generation),
            None => return Err(wrong(format!("filter value {:?} is not a pid such as <0.17.1>", value.text))),
        },
        FilterValues::Slot => match parse_pid(&value.text) {
            Some((slot, _)) => return Ok(Term::Number(info.field, *comparison, slot.into())),
            None => return Err(wrong(format!("filter value {:?} is not a pid such as <0.17.1>", value.text))),
        },
        values => {
            let number = parse_value(values, &value.text).ok_or_else(|| {
                let examples = values.examples().join(", ");
                wrong(format!("filter value {:?} is not {}: for example {examples}", value.text, values.article()))
            })?;
            return Ok(Term::Number(info.field, *comparison, number));
        }
    };
    Ok(if is_negated { Term::Not(Box::new(term)) } else { term })
}

/// Parses a pid: `<0.17.1>`, or a slot as in `<0.17>`, `<17>` and `17`. Returns the slot and, if given, the generation.
fn parse_pid(text: &str) -> Option<(u32, Option<u32>)> {
    let inside = text.strip_prefix('<').map_or(Some(text), |rest| rest.strip_suffix('>'))?;
    let parts: Vec<&str> = inside.split('.').collect();
    match parts[..] {
        [slot] => Some((slot.parse().ok()?, None)),
        ["0", slot] if text.starts_with('<') => Some((slot.parse().ok()?, None)),
        ["0", slot, generation] if text.starts_with('<') => Some((slot.parse().ok()?, Some(generation.parse().ok()?))),
        _ => None,
    }
}

impl Pattern {
    fn new(value: &QueryWord, is_part: bool) -> Self {
        let has_star = value.text.contains('*') && !value.is_quoted;
        match (is_part, has_star) {
            (false, false) => Self::Exact(value.text.clone()),
            (false, true) => Self::Glob(value.text.clone()),
            (true, false) => Self::Part(value.text.to_lowercase()),
            (true, true) => Self::LowerGlob(value.text.to_lowercase()),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(whole) => text == whole,
            Self::Glob(glob) => rusm_text::matches_glob(glob, text),
            Self::Part(part) => contains(text, part),
            Self::LowerGlob(glob) => rusm_text::matches_glob(glob, &text.to_lowercase()),
        }
    }
}

/// Returns true if a text contains a part that is in lower case, whatever the case of the text.
fn contains(text: &str, part: &str) -> bool {
    if text.is_ascii() && part.is_ascii() {
        let (text, part) = (text.as_bytes(), part.as_bytes());
        return part.is_empty() || text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part));
    }
    text.to_lowercase().contains(part)
}

#[cfg(test)]
mod tests;
