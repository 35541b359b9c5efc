//! Parsers of the values of options.

use std::time::Duration;

use rusm_protocol::{Column, KillReason, Lint, SortKey};
use rusm_text::suggestion;

use crate::model::panes::columns;
use crate::model::tab::Tab;

/// Maximum connection timeout.
const TIMEOUT_MAX: Duration = Duration::from_hours(1);

/// Parses the variable of a flag.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" | "t" | "y" => Ok(true),
        "" | "0" | "false" | "no" | "off" | "f" | "n" => Ok(false),
        _ => Err("expected 1, 0 or nothing".to_owned()),
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.trim_end_matches('s').parse().map_err(|_no_number| "expected seconds, such as 5 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|time| !time.is_zero() && *time <= TIMEOUT_MAX)
        .ok_or_else(|| format!("expected more than 0 and at most {} seconds", TIMEOUT_MAX.as_secs()))
}

/// Checks the form of a pid.
pub(super) fn pid(text: &str) -> Result<String, String> {
    let inner = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(text);
    let is_pid = inner.split('.').count() == 3 && inner.split('.').all(|part| part.parse::<u64>().is_ok());
    // Without the brackets, which a shell would take for redirections.
    if is_pid { Ok(format!("<{inner}>")) } else { Err("expected a pid, such as 0.44.1 or '<0.44.1>'".to_owned()) }
}

/// Parses the reason of a kill.
pub(super) fn reason(text: Option<&str>) -> (KillReason, Option<String>) {
    match text {
        None | Some("kill") => (KillReason::Kill, None),
        Some("shutdown") => (KillReason::Shutdown, None),
        Some(words) => (KillReason::Error, Some(words.to_owned())),
    }
}

pub(super) fn tab(text: &str) -> Result<Tab, String> {
    Tab::from_id(text).ok_or_else(|| suggestion(text, Tab::ALL.iter().map(|tab| tab.id())))
}

pub(super) fn column(text: &str) -> Result<Column, String> {
    let wanted = text.to_ascii_lowercase();
    let short = |column: Column| columns::heading(column).to_ascii_lowercase();
    let known = Column::ALL.into_iter().find(|column| column.word() == wanted || short(*column) == wanted);
    match (known, wanted.as_str()) {
        (Some(column), _) => Ok(column),
        (None, "busy") => Ok(Column::BusyPct),
        (None, "memory") => Ok(Column::MemoryBytes),
        (None, "mailbox") => Ok(Column::MailboxLen),
        _ => Err(suggestion(&wanted, Column::ALL.map(Column::word))),
    }
}

pub(super) fn sort(text: &str) -> Result<SortKey, String> {
    let (name, reversed) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
    let key = column(name)?;
    Ok(SortKey { key, desc: columns::falls(key) != reversed })
}

/// Word for all lints.
const ALL_LINTS: &str = "all";

/// Checks the id of a lint.
pub(super) fn lint(word: &str) -> Result<String, String> {
    let known: Vec<&str> = Lint::ALL.map(Lint::id).into_iter().chain([ALL_LINTS]).collect();
    if known.contains(&word) { Ok(word.to_owned()) } else { Err(suggestion(word, known.iter().copied())) }
}

/// Returns the lints that are hidden.
pub(super) fn hidden_lints(allow: &[String], warn: &[String]) -> Vec<String> {
    let names = |list: &[String], id: &str| list.iter().any(|word| word == id);
    let is_hidden = |id: &&str| (names(allow, id) || names(allow, ALL_LINTS)) && !names(warn, id);
    Lint::ALL.map(Lint::id).into_iter().filter(is_hidden).map(str::to_owned).collect()
}

/// Parses the speed of a replay.
pub(super) fn speed(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('x').parse().ok().filter(|number| (0.1..=1000.0).contains(number));
    number.ok_or_else(|| "expected a factor from 0.1 to 1000".to_owned())
}

/// Maximum span of an exported trace.
const LAST_MAX: Duration = Duration::from_mins(15);

/// Parses the span of an exported trace.
pub(super) fn last(text: &str) -> Result<Duration, String> {
    let time = rusm_text::parse_duration(text).filter(|time| !time.is_zero() && *time <= LAST_MAX);
    time.ok_or_else(|| format!("expected a time up to {} min, such as 60s or 5m", LAST_MAX.as_secs() / 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_known_by_their_word_and_their_heading() {
        assert_eq!(sort("mem").unwrap(), SortKey { key: Column::MemoryBytes, desc: true });
        assert_eq!(sort("name").unwrap(), SortKey { key: Column::Name, desc: false });
        assert_eq!(sort("-age_ms").unwrap(), SortKey { key: Column::AgeMs, desc: false });
        assert!(sort("xyzzy").unwrap_err().starts_with("expected one of pid, name"));
        assert_eq!(sort("mailbx").unwrap_err(), "did you mean \"mailbox_len\"?");
    }

    #[test]
    fn a_timeout_is_a_time_that_can_pass() {
        assert_eq!(seconds("0.5s"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "1e300", "inf", "NaN", "3601"] {
            assert_eq!(seconds(text).unwrap_err(), "expected more than 0 and at most 3600 seconds", "{text}");
        }
        assert_eq!(seconds("soon").unwrap_err(), "expected seconds, such as 5 or 0.5");
    }

    #[test]
    fn a_pid_needs_no_brackets() {
        assert_eq!(pid("0.44.1").unwrap(), "<0.44.1>");
        assert_eq!(pid("<0.44.1>").unwrap(), "<0.44.1>");
        assert!(pid("44").is_err() && pid("<0.44.1").is_err() && pid("kv").is_err());
        assert_eq!(reason(Some("leaks")), (KillReason::Error, Some("leaks".to_owned())));
        assert_eq!(reason(None), (KillReason::Kill, None));
    }
}
