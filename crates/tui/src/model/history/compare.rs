//! Changes between two recorded instants: figures of the node, mailboxes, CPU time, and failures.

use std::collections::BTreeMap;

use rusm_protocol::{Causes, Cell, Column, Events, Frame, Past, Rows, ServerMessage};

use crate::model::ends::Ends;
use crate::model::format;

/// Number of processes that are listed of each kind of change.
const SHOWN: usize = 5;
/// Kinds of events that the causes count.
const FAILURES: [&str; 3] = ["crash", "killed", "link"];

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Figure or process.
    pub(crate) what: String,
    /// Values before and after.
    pub(crate) values: String,
    /// Difference, with its sign.
    pub(crate) difference: String,
    /// True for a change that deserves a look.
    pub(crate) is_bad: bool,
}

/// A list of changes with its heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) changes: Vec<Change>,
}

/// Returns what changed, without empty sections.
pub(crate) fn sections(before: &Past, after: &Past) -> Vec<Section> {
    let mut sections = Vec::new();
    if let (Some(old), Some(new)) = (frame(before), frame(after)) {
        sections.push(Section { title: "node", changes: figures(old, new) });
    }
    if let (Some(old), Some(new)) = (rows(before), rows(after)) {
        sections.push(Section { title: "mailboxes", changes: processes(old, new, Column::MailboxLen, 1.0) });
        sections.push(Section { title: "cpu, of a core", changes: processes(old, new, Column::BusyPct, 1.0) });
        sections.push(Section {
            title: "memory of processes",
            changes: processes(old, new, Column::MemoryBytes, 65_536.0),
        });
        sections.push(Section { title: "recorded processes by name", changes: names(old, new) });
    }
    sections.push(Section { title: "failures", changes: failures(before, after) });
    sections.retain(|section| !section.changes.is_empty());
    sections
}

/// Name of a figure, its two values, how it is written, and whether growth is bad.
type Figure<'a> = (&'a str, f64, f64, &'a dyn Fn(f64) -> String, bool);

fn figures(old: &Frame, new: &Frame) -> Vec<Change> {
    let count = |value: f64| format::grouped(value as u64);
    let bytes = |value: f64| format::bytes(value as u64);
    let cores = |value: f64| format!("{value:.2}");
    let (a, b) = (&old.observer, &new.observer);
    let list: [Figure<'_>; 9] = [
        ("processes", a.process_count as f64, b.process_count as f64, &count, false),
        ("crashed in all", Ends::of(a).crashed as f64, Ends::of(b).crashed as f64, &count, true),
        ("restarts in all", a.restarts_total as f64, b.restarts_total as f64, &count, true),
        ("lints", a.lints_total as f64, b.lints_total as f64, &count, true),
        ("cores used", a.cpu_pct / 100.0, b.cpu_pct / 100.0, &cores, false),
        ("messages/s", a.messages_per_sec, b.messages_per_sec, &format::short, false),
        ("operations/s", old.ops_per_sec, new.ops_per_sec, &format::short, false),
        ("rss", a.memory.rss_bytes as f64, b.memory.rss_bytes as f64, &bytes, false),
        ("mailboxes", a.memory.mailbox_bytes as f64, b.memory.mailbox_bytes as f64, &bytes, false),
    ];
    let changed = list.into_iter().map(|(what, old, new, text, warns)| change(what.to_owned(), old, new, text, warns));
    changed.flatten().collect()
}

/// Returns a change, unless both values look equal.
fn change(what: String, old: f64, new: f64, text: &dyn Fn(f64) -> String, warns: bool) -> Option<Change> {
    let (before, after) = (text(old), text(new));
    (before != after).then(|| Change {
        what,
        values: format!("{before} {ARROW} {after}"),
        difference: format!("{}{}", if new >= old { "+" } else { "-" }, text((new - old).abs())),
        is_bad: warns && new > old,
    })
}

/// Stands between two values; a view replaces it on terminals without this character.
pub(crate) const ARROW: &str = "\u{2192}";

fn processes(old: &Rows, new: &Rows, column: Column, least: f64) -> Vec<Change> {
    let (before, after) = (values(old, column), values(new, column));
    let mut changed: Vec<(f64, Change)> = after
        .iter()
        .filter_map(|(pid, (name, now))| {
            let (_, then) = *before.get(pid)?;
            let grown = now - then;
            let text: &dyn Fn(f64) -> String = match column {
                Column::MemoryBytes => &|value| format::bytes(value as u64),
                Column::BusyPct => &format::percent,
                _ => &|value| format::grouped(value as u64),
            };
            let change = change(format!("{pid} {name}"), then, *now, text, column == Column::MailboxLen)?;
            (grown.abs() >= least).then_some((grown, change))
        })
        .collect();
    changed.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    changed.truncate(SHOWN);
    changed.into_iter().map(|(_, change)| change).collect()
}

/// Returns name and value of each process by pid.
fn values(rows: &Rows, column: Column) -> BTreeMap<&str, (&str, f64)> {
    let at = |column: Column| rows.columns.iter().position(|other| *other == column);
    let (Some(pid), Some(value)) = (at(Column::Pid), at(column)) else { return BTreeMap::new() };
    let name = at(Column::Name);
    rows.rows
        .iter()
        .filter_map(|row| {
            let number = match row.get(value)? {
                Cell::Count(count) => *count as f64,
                Cell::Rate(rate) => *rate,
                Cell::Empty(()) | Cell::Text(_) => return None,
            };
            let Some(Cell::Text(pid)) = row.get(pid) else { return None };
            let name = match name.and_then(|at| row.get(at)) {
                Some(Cell::Text(name)) => name.as_str(),
                _ => "",
            };
            Some((pid.as_str(), (name, number)))
        })
        .collect()
}

/// Counts recorded processes by name.
fn names(old: &Rows, new: &Rows) -> Vec<Change> {
    let counts = |rows: &Rows| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (name, _) in values(rows, Column::Reds).into_values() {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        counts
    };
    let (before, after) = (counts(old), counts(new));
    let mut all: Vec<&String> = before.keys().chain(after.keys()).filter(|name| !name.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    let of = |counts: &BTreeMap<String, u64>, name: &String| counts.get(name).copied().unwrap_or(0) as f64;
    let mut changed: Vec<(f64, Change)> = all
        .into_iter()
        .filter_map(|name| {
            let (then, now) = (of(&before, name), of(&after, name));
            Some((now - then, change(name.clone(), then, now, &|value| format::grouped(value as u64), false)?))
        })
        .collect();
    changed.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    changed.truncate(SHOWN);
    changed.into_iter().map(|(_, change)| change).collect()
}

/// Counts failures by process and reason. The events are only the last few; the causes count every failure.
fn failures(before: &Past, after: &Past) -> Vec<Change> {
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    let causes = causes(before).zip(causes(after));
    if let Some((old, new)) = causes {
        for cause in &new.causes {
            let known = old.causes.iter().find(|known| known.cause == cause.cause).map_or(0, |known| known.count);
            let what = (format!("{} {}", cause.kind, cause.who), cause.why.clone());
            *counts.entry(what).or_default() += cause.count.saturating_sub(known);
        }
        counts.retain(|_, count| *count > 0);
    }
    let known = events(before).map_or(0, |events| events.noted);
    for event in events(after).into_iter().flat_map(|events| &events.events) {
        let is_counted = event.kind == "restart" || (causes.is_some() && FAILURES.contains(&event.kind.as_str()));
        if event.seq > known && !is_counted {
            let who = event.name.as_deref().unwrap_or("without a name");
            let reason = event.reason.clone().unwrap_or_default();
            *counts.entry((format!("{} {who}", event.kind), reason)).or_default() += 1;
        }
    }
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(SHOWN);
    all.into_iter()
        .map(|((what, reason), count)| Change {
            what,
            values: reason,
            difference: format!("+{}", format::grouped(count)),
            is_bad: true,
        })
        .collect()
}

fn frame(past: &Past) -> Option<&Frame> {
    past.messages.iter().find_map(|message| match message {
        ServerMessage::Tick { frame } => Some(&**frame),
        _ => None,
    })
}

fn rows(past: &Past) -> Option<&Rows> {
    past.messages.iter().find_map(|message| match message {
        ServerMessage::Rows(rows) => Some(rows),
        _ => None,
    })
}

fn causes(past: &Past) -> Option<&Causes> {
    past.messages.iter().find_map(|message| match message {
        ServerMessage::Causes(causes) => Some(causes),
        _ => None,
    })
}

fn events(past: &Past) -> Option<&Events> {
    past.messages.iter().find_map(|message| match message {
        ServerMessage::Events(events) => Some(events),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use rusm_protocol::{CauseInfo, EventInfo};

    use super::*;

    fn instant(crashed: u64, mailq: u64, noted: u64) -> Past {
        let mut frame = Frame::default();
        frame.observer.crashed_total = crashed;
        frame.observer.memory.rss_bytes = 128 << 20;
        let row = |pid: &str, name: &str, mailq: u64| {
            vec![Cell::Text(pid.to_owned()), Cell::Text(name.to_owned()), Cell::Count(9), Cell::Count(mailq)]
        };
        let rows = Rows {
            columns: vec![Column::Pid, Column::Name, Column::Reds, Column::MailboxLen],
            rows: vec![row("<0.1.1>", "consumer", mailq), row("<0.2.1>", "producer", 0)],
            ..Rows::default()
        };
        let event = |seq| EventInfo {
            seq,
            kind: "crash".to_owned(),
            name: Some("courier".to_owned()),
            reason: Some("disk full".to_owned()),
            ..EventInfo::default()
        };
        let events = Events { events: (1..=noted).map(event).collect(), noted, ..Events::default() };
        let messages = vec![
            ServerMessage::Tick { frame: Box::new(frame) },
            ServerMessage::Rows(rows),
            ServerMessage::Events(events),
        ];
        Past { messages, ..Past::default() }
    }

    #[test]
    fn only_what_changed_is_listed_and_the_largest_change_first() {
        let sections = sections(&instant(1, 0, 1), &instant(8, 1_024, 8));

        let titles: Vec<&str> = sections.iter().map(|section| section.title).collect();
        assert_eq!(titles, ["node", "mailboxes", "failures"]);
        let crashed = &sections[0].changes[0];
        assert_eq!(
            (crashed.what.as_str(), crashed.difference.as_str(), crashed.is_bad),
            ("crashed in all", "+7", true)
        );
        assert_eq!(sections[1].changes[0].values, "0 \u{2192} 1,024");
        assert_eq!(sections[2].changes[0].what, "crash courier");
        assert_eq!(sections[2].changes[0].difference, "+7");
    }

    #[test]
    fn a_storm_of_failures_is_counted_by_its_causes_and_not_by_the_few_events() {
        let with = |crashed: u64, noted: u64| {
            let cause =
                CauseInfo { cause: 4, kind: "crash".to_owned(), who: "courier".to_owned(), ..CauseInfo::default() };
            let causes = Causes { causes: vec![CauseInfo { count: crashed, ..cause }], ..Causes::default() };
            let mut instant = instant(crashed, 0, noted);
            instant.messages.push(ServerMessage::Causes(causes));
            instant
        };

        let sections = sections(&with(1, 1), &with(34_200_001, 64));

        let failures = &sections.iter().find(|section| section.title == "failures").unwrap().changes;
        assert_eq!((failures[0].what.as_str(), failures[0].difference.as_str()), ("crash courier", "+34,200,000"));
        assert_eq!(failures.len(), 1);
    }

    #[test]
    fn equal_instants_have_no_changes() {
        assert_eq!(sections(&instant(1, 5, 1), &instant(1, 5, 1)), []);
    }
}
