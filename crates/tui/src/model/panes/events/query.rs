//! The meaning of a query in the Events view: `level>=warn and !kind=restart and name~kv`.

use rusm_text::{Comparison, Query, QueryCondition, QueryError, suggestion};

use super::item::{Item, Level};

/// Fields of an event or a line.
pub(crate) const FIELDS: [&str; 6] = ["level", "kind", "pid", "name", "reason", "target"];

/// Kinds of events.
pub(crate) const KINDS: [&str; 9] =
    ["crash", "killed", "link", "restart", "restart_failed", "gave_up", "child_lost", "stuck", "refused"];

/// A filter of events and lines; the default matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventQuery(Option<Query>);

impl EventQuery {
    /// Parses a filter.
    ///
    /// # Errors
    /// [`QueryError`] with the position of the word that is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, QueryError> {
        let query = Query::parse(text)?;
        let mut first = Ok(());
        if let Some(query) = &query {
            query.for_each_term(&mut |term| {
                if let (Query::Condition(condition), Ok(())) = (term, &first) {
                    first = check(condition);
                }
            });
        }
        first.map(|()| Self(query))
    }

    /// Returns true if the item passes the filter.
    pub(crate) fn matches(&self, item: Item<'_>) -> bool {
        self.0.as_ref().is_none_or(|query| holds(query, item))
    }
}

fn check(condition: &QueryCondition) -> Result<(), QueryError> {
    let QueryCondition { field, comparison, value } = condition;
    let is_order = !matches!(
        comparison,
        Comparison::Equal | Comparison::NotEqual | Comparison::Contains | Comparison::ContainsNot
    );
    let error = |at: &std::ops::Range<usize>, message: String| Err(QueryError::new(at.clone(), message));
    match field.text.as_str() {
        "level" if Level::parse(&value.text).is_none() => {
            let levels = Level::ALL.map(Level::word);
            error(&value.at, format!("unknown level {:?}: {}", value.text, suggestion(&value.text, &levels)))
        }
        "level" => Ok(()),
        name if FIELDS.contains(&name) && is_order => {
            error(&(field.at.end..value.at.start), format!("field {name:?} has no order: use =, !=, ~ or !~"))
        }
        name if FIELDS.contains(&name) => Ok(()),
        unknown => error(&field.at, format!("unknown field {unknown:?}: {}", suggestion(unknown, &FIELDS))),
    }
}

fn holds(query: &Query, item: Item<'_>) -> bool {
    match query {
        Query::And(parts) => parts.iter().all(|part| holds(part, item)),
        Query::Or(parts) => parts.iter().any(|part| holds(part, item)),
        Query::Not(part) => !holds(part, item),
        Query::Text(word) => {
            let texts = [item.kind(), item.pid(), item.name(), item.text()];
            texts.into_iter().any(|text| contains(text, &word.text))
                || item.processes().iter().any(|(_, pid)| *pid == word.text)
        }
        Query::Condition(QueryCondition { field, comparison, value }) => match field.text.as_str() {
            "level" => {
                let wanted = Level::parse(&value.text).unwrap_or_default();
                comparison.holds(item.level() as u64, wanted as u64)
            }
            "pid" => {
                let is_named = item.processes().iter().any(|(_, pid)| same(*comparison, pid, &value.text));
                is_named != matches!(comparison, Comparison::NotEqual | Comparison::ContainsNot)
            }
            name => {
                let text = match name {
                    "kind" => item.kind(),
                    "reason" => item.text(),
                    "target" => match item {
                        Item::Line(line) => &line.target,
                        Item::Event(_) => "",
                    },
                    _ => item.name(),
                };
                same(*comparison, text, &value.text)
                    != matches!(comparison, Comparison::NotEqual | Comparison::ContainsNot)
            }
        },
    }
}

/// Compares without regard to a negation.
fn same(comparison: Comparison, text: &str, value: &str) -> bool {
    match comparison {
        Comparison::Contains | Comparison::ContainsNot => contains(text, value),
        _ => rusm_text::matches_glob(value, text),
    }
}

fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

#[cfg(test)]
mod tests {
    use rusm_protocol::EventInfo;

    use super::*;

    #[test]
    fn events_are_found_by_their_fields() {
        let event = EventInfo {
            kind: "restart".to_owned(),
            pid: "<0.12.1>".to_owned(),
            name: Some("kv_writer".to_owned()),
            old: Some("<0.40.1>".to_owned()),
            new: Some("<0.40.2>".to_owned()),
            reason: Some("Disk full".to_owned()),
            ..EventInfo::default()
        };
        let matches = |text: &str| EventQuery::parse(text).unwrap().matches(Item::Event(&event));

        for text in [
            "",
            "disk",
            "kind=restart",
            "kind=re*",
            "level=info",
            "level<warn",
            "name~KV and !crash",
            "<0.40.1>",
            "pid=<0.40.2>",
            "reason~full",
        ] {
            assert!(matches(text), "{text}");
        }
        for text in ["crash", "kind!=restart", "level>=warn", "name=kv", "pid!=<0.40.2>", "!disk", "target=rusm"] {
            assert!(!matches(text), "{text}");
        }
    }

    #[test]
    fn errors_point_at_the_word() {
        let error = |text: &str| EventQuery::parse(text).map_err(|error| (error.to_string(), error.at)).unwrap_err();

        assert_eq!(error("x and knd=crash"), ("unknown field \"knd\": did you mean \"kind\"?".to_owned(), 6..9));
        assert_eq!(error("level=eror"), ("unknown level \"eror\": did you mean \"error\"?".to_owned(), 6..10));
        assert_eq!(error("name>x"), ("field \"name\" has no order: use =, !=, ~ or !~".to_owned(), 4..5));
    }
}
