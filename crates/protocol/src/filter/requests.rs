//! Filters of live requests: the meaning of a [query](rusm_text::Query) about requests and sockets.

use rusm_text::{
    Comparison, Query, QueryCondition, QueryError, QueryWord, matches_glob, parse_duration, parse_size, suggestion,
};

/// Fields of a live request.
pub const REQUEST_FIELDS: [&str; 9] = ["route", "method", "path", "client", "state", "pid", "age", "in", "out"];

/// States of a live request.
pub const REQUEST_STATES: [&str; 4] = ["handling", "responding", "websocket", "events"];

/// A filter of live requests; the default matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestFilter(Option<Query>);

/// A live request as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub struct RequestSubject<'a> {
    /// Its route.
    pub route: &'a str,
    /// Its method.
    pub method: &'a str,
    /// The path of its target.
    pub path: &'a str,
    /// Address of its client.
    pub client: &'a str,
    /// Its state, as in [`REQUEST_STATES`].
    pub state: &'a str,
    /// Its process.
    pub pid: &'a str,
    /// Time since its head arrived, in milliseconds.
    pub age_ms: u64,
    /// Number of bytes received for it.
    pub bytes_in: u64,
    /// Number of bytes sent for it.
    pub bytes_out: u64,
}

impl RequestFilter {
    /// Parses a filter.
    ///
    /// # Errors
    /// [`QueryError`] with the position of the word that is wrong.
    ///
    /// ```
    /// use rusm_protocol::RequestFilter;
    ///
    /// assert!(RequestFilter::parse("route~users and (age>1s or state=websocket)").is_ok());
    /// let error = RequestFilter::parse("rout=x").unwrap_err();
    /// assert_eq!(error.to_string(), "unknown field \"rout\": did you mean \"route\"?");
    /// ```
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let query = Query::parse(text)?;
        let mut first = Ok(());
        if let Some(query) = &query {
            query.for_each_term(&mut |term| {
                if first.is_ok() {
                    first = match term {
                        Query::Condition(condition) => check(condition),
                        Query::Text(word) => check_text(word),
                        _ => Ok(()),
                    };
                }
            });
        }
        first.map(|()| Self(query))
    }

    /// Returns true if every request matches.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns true if the request matches.
    pub fn matches(&self, subject: &RequestSubject<'_>) -> bool {
        self.0.as_ref().is_none_or(|query| holds(query, subject))
    }
}

/// Returns the value of a field that is a number, in the unit of the subject.
fn number(field: &str, text: &str) -> Option<u64> {
    match field {
        "age" => parse_duration(text).map(|age| age.as_millis() as u64),
        _ => parse_size(text),
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
        "age" if number("age", &value.text).is_none() => {
            error(&value.at, format!("{:?} is not a duration: for example 250ms or 2s", value.text))
        }
        name @ ("in" | "out") if number(name, &value.text).is_none() => {
            error(&value.at, format!("{:?} is not a size: for example 64KiB or 1MB", value.text))
        }
        "age" | "in" | "out" => Ok(()),
        "state" if !value.text.contains('*') && !REQUEST_STATES.contains(&value.text.as_str()) => {
            error(&value.at, format!("unknown state {:?}: {}", value.text, suggestion(&value.text, &REQUEST_STATES)))
        }
        name if REQUEST_FIELDS.contains(&name) && is_order => {
            error(&(field.at.end..value.at.start), format!("field {name:?} has no order: use =, !=, ~ or !~"))
        }
        name if REQUEST_FIELDS.contains(&name) => Ok(()),
        unknown => error(&field.at, format!("unknown field {unknown:?}: {}", suggestion(unknown, &REQUEST_FIELDS))),
    }
}

/// Refuses the name of a field alone: it is more likely the beginning of a condition.
fn check_text(word: &QueryWord) -> Result<(), QueryError> {
    let name = &word.text;
    if word.is_quoted || !REQUEST_FIELDS.contains(&name.as_str()) {
        return Ok(());
    }
    let example = match name.as_str() {
        "age" => "age>1s",
        "in" | "out" => "out>1MB",
        "state" => "state=websocket",
        _ => "route~users",
    };
    let message = format!("{name:?} is a field: compare it, for example {example}, or quote it to search for it");
    Err(QueryError::new(word.at.clone(), message))
}

fn holds(query: &Query, subject: &RequestSubject<'_>) -> bool {
    let RequestSubject { route, method, path, client, state, pid, age_ms, bytes_in, bytes_out } = *subject;
    match query {
        Query::And(parts) => parts.iter().all(|part| holds(part, subject)),
        Query::Or(parts) => parts.iter().any(|part| holds(part, subject)),
        Query::Not(part) => !holds(part, subject),
        Query::Text(word) => {
            [route, method, path, client, state, pid].into_iter().any(|text| contains(text, &word.text))
        }
        Query::Condition(QueryCondition { field, comparison, value }) => {
            let compared = |of: u64| number(&field.text, &value.text).is_some_and(|value| comparison.holds(of, value));
            let text = match field.text.as_str() {
                "age" => return compared(age_ms),
                "in" => return compared(bytes_in),
                "out" => return compared(bytes_out),
                "route" => route,
                "method" => method,
                "path" => path,
                "client" => client,
                "state" => state,
                _ => pid,
            };
            match comparison {
                Comparison::Contains => contains(text, &value.text),
                Comparison::ContainsNot => !contains(text, &value.text),
                Comparison::NotEqual => !is(text, value),
                _ => is(text, value),
            }
        }
    }
}

/// Returns true if a text is a value; in a value without quotes, `*` stands for any text.
fn is(text: &str, value: &QueryWord) -> bool {
    if value.is_quoted { text == value.text } else { matches_glob(&value.text, text) }
}

fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_by_their_fields() {
        let subject = RequestSubject {
            route: "GET /users/:id",
            method: "GET",
            path: "/users/7",
            client: "10.0.0.1:5000",
            state: "handling",
            pid: "<0.44.1>",
            age_ms: 1_500,
            bytes_in: 120,
            bytes_out: 70_000,
        };
        let matches = |text: &str| RequestFilter::parse(text).unwrap().matches(&subject);

        for text in [
            "",
            "users",
            "route~USERS",
            "route=\"GET /users/:id\"",
            "route=GET*",
            "method=GET and age>1s",
            "age>=1500ms",
            "client=10.0.0.1:*",
            "state=handling",
            "out>64KiB",
            "pid=<0.44.1>",
            "!in>1kB",
        ] {
            assert!(matches(text), "{text}");
        }
        for text in ["route=\"GET*\"", "posts", "method!=GET", "age<1s", "state=events", "out<64KiB", "client!~10.0"] {
            assert!(!matches(text), "{text}");
        }
    }

    #[test]
    fn errors_point_at_the_word() {
        let error = |text: &str| RequestFilter::parse(text).map_err(|error| (error.to_string(), error.at)).unwrap_err();

        assert_eq!(error("x and pth=a"), ("unknown field \"pth\": did you mean \"path\"?".to_owned(), 6..9));
        assert_eq!(error("age>fast"), ("\"fast\" is not a duration: for example 250ms or 2s".to_owned(), 4..8));
        assert_eq!(error("state=event"), ("unknown state \"event\": did you mean \"events\"?".to_owned(), 6..11));
        let field = "\"state\" is a field: compare it, for example state=websocket, or quote it to search for it";
        assert_eq!(error("state"), (field.to_owned(), 0..5));
        assert_eq!(error("path>x"), ("field \"path\" has no order: use =, !=, ~ or !~".to_owned(), 4..5));
    }
}
