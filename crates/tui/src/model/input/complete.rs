//! Completion of a query by the tab key: fields, values that are known, and the words that join conditions.

use rusm_protocol::{FILTER_FIELDS, FilterValues, REQUEST_FIELDS, REQUEST_STATES};
use rusm_text::{Query, quoted};

use crate::model::input::line_edit::LineEdit;
use crate::model::panes::events::item::Level;
use crate::model::panes::events::query::{FIELDS, KINDS};

/// Maximum number of candidates.
const CANDIDATES_MAX: usize = 64;

/// The candidates for the word before the cursor, and the one in the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Index of the first character of the word.
    start: usize,
    pub(crate) candidates: Vec<String>,
    pub(crate) at: usize,
}

/// Fields and values of a kind of query.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Vocabulary<'a> {
    /// Of processes, with the names and the modules on the page.
    Processes { names: &'a [String], modules: &'a [String] },
    /// Of events.
    Events,
    /// Of live requests.
    Requests,
}

impl Vocabulary<'_> {
    fn fields(self) -> Vec<&'static str> {
        match self {
            Self::Processes { .. } => FILTER_FIELDS.iter().map(|info| info.words[0]).collect(),
            Self::Events => FIELDS.to_vec(),
            Self::Requests => REQUEST_FIELDS.to_vec(),
        }
    }

    /// Returns the known values of a field.
    fn values(self, field: &str) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Self::Events if field == "level" => Level::ALL.map(|level| level.word().to_owned()).to_vec(),
            Self::Events if field == "kind" => words(&KINDS),
            Self::Requests if field == "state" => words(&REQUEST_STATES),
            Self::Events | Self::Requests => Vec::new(),
            Self::Processes { names, .. } if field == "name" => names.iter().map(|name| as_value(name)).collect(),
            Self::Processes { modules, .. } if field == "module" => modules.iter().map(|name| as_value(name)).collect(),
            Self::Processes { .. } => {
                let info = FILTER_FIELDS.iter().find(|info| info.words.contains(&field));
                let words_of = |values: FilterValues| match values {
                    FilterValues::State | FilterValues::Kind => words(values.examples()),
                    _ => Vec::new(),
                };
                info.map(|info| words_of(info.values)).unwrap_or_default()
            }
        }
    }

    /// Returns a few words about a field.
    pub(crate) fn about(self, field: &str) -> &'static str {
        let info = FILTER_FIELDS.iter().find(|info| info.words[0] == field);
        info.filter(|_| matches!(self, Self::Processes { .. })).map_or("", |info| info.about)
    }
}

/// Returns a name as the value of a condition, in quotes if it needs them.
pub(crate) fn as_value(name: &str) -> String {
    let is_plain = Query::parse(&format!("name={name}")).is_ok_and(|query| {
        matches!(query, Some(Query::Condition(condition)) if condition.value.text == *name && !condition.value.is_quoted)
    });
    if is_plain { name.to_owned() } else { quoted(name) }
}

/// Puts the next candidate into a field, or an earlier one. Returns `None` without candidates.
pub(crate) fn complete(
    field: &mut LineEdit,
    current: Option<Completion>,
    steps: isize,
    vocabulary: Vocabulary<'_>,
) -> Option<Completion> {
    let completion = if let Some(Completion { start, candidates, at }) = current {
        let at = crate::model::selection::wrapped(at, steps, candidates.len());
        Completion { start, candidates, at }
    } else {
        let text: String = field.text().chars().take(field.cursor()).collect();
        let (start, candidates) = candidates(&text, vocabulary);
        Completion { start, at: if steps < 0 { candidates.len().saturating_sub(1) } else { 0 }, candidates }
    };
    let word = completion.candidates.get(completion.at)?;
    field.replace_before(completion.start, word);
    Some(completion)
}

/// Returns the candidates for the last word of a text, and the index of its first character.
fn candidates(text: &str, vocabulary: Vocabulary<'_>) -> (usize, Vec<String>) {
    let is_end = |c: char| c.is_whitespace() || "()!=<>~\"'&|".contains(c);
    let word_at = text.rfind(is_end).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let (before, word) = text.split_at(word_at);
    let lower = word.to_lowercase();
    let before = before.trim_end();
    let sign = before.trim_end_matches(['=', '<', '>', '~', '!']);
    let known = if before.ends_with(['=', '<', '>', '~']) {
        let field = sign.trim_end().rsplit(is_end).next().unwrap_or_default();
        vocabulary.values(&field.to_lowercase())
    } else if matches!(Query::parse(before), Ok(Some(_))) {
        ["and", "or"].map(str::to_owned).to_vec()
    } else {
        let fields = vocabulary.fields().into_iter();
        fields.chain(["not"]).map(str::to_owned).collect()
    };
    let begins = |candidate: &String| candidate.trim_start_matches('"').to_lowercase().starts_with(&lower);
    let found = known.into_iter().filter(begins).take(CANDIDATES_MAX).collect();
    (text[..word_at].chars().count(), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str, presses: usize) -> String {
        let names = ["kv_writer".to_owned(), "kv index".to_owned(), "acceptor".to_owned()];
        let vocabulary = Vocabulary::Processes { names: &names, modules: &[] };
        let (mut field, mut completion) = (LineEdit::new(text), None);
        for _ in 0..presses {
            completion = complete(&mut field, completion, 1, vocabulary);
        }
        field.text()
    }

    #[test]
    fn fields_values_and_joining_words_are_completed() {
        let cases = [
            ("mai", 1, "mailq"),
            ("m", 1, "module"),
            ("m", 2, "mailq"),
            ("m", 3, "mem"),
            ("x and !st", 1, "x and !state"),
            ("state=w", 1, "state=waiting"),
            ("state != w", 2, "state != wait"),
            ("name=k", 1, "name=kv_writer"),
            ("name=k", 2, "name=\"kv index\""),
            ("name=k", 3, "name=kv_writer"),
            ("kind=", 2, "kind=wasm"),
            ("mailq>1 a", 1, "mailq>1 and"),
            ("mailq>1 ", 2, "mailq>1 or"),
            ("zzz", 1, "zzz"),
            ("ä and na", 1, "ä and name"),
        ];
        for (text, presses, after) in cases {
            assert_eq!(completed(text, presses), after, "{text}");
        }
    }

    #[test]
    fn fields_of_events_are_their_own() {
        let mut field = LineEdit::new("level=e");
        assert!(complete(&mut field, None, 1, Vocabulary::Events).is_some());
        assert_eq!(field.text(), "level=error");
        let mut field = LineEdit::new("mailq");
        assert_eq!(complete(&mut field, None, 1, Vocabulary::Events), None);
    }
}
