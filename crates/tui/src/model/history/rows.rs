//! Recorded processes as a table: this observer sorts and filters them itself, because the node keeps only these rows of
//! the past.

use std::cmp::Ordering;

use rusm_protocol::{Cell, Column, ProcessDetail, Rows, SortKey};

/// Comparisons of a condition, longest first.
const OPERATORS: [&str; 6] = ["!=", "<=", ">=", "=", "<", ">"];

/// Returns the recorded rows that match a filter, in an order.
///
/// # Errors
/// Returns one line if the past cannot be filtered like that.
pub(crate) fn select(recorded: &Rows, sort: SortKey, filter: &str) -> Result<Rows, String> {
    let conditions = parse(filter)?;
    let mut rows: Vec<&Vec<Cell>> = recorded
        .rows
        .iter()
        .filter(|row| conditions.iter().all(|condition| condition.matches(recorded, row)))
        .collect();
    let key = |row: &[Cell]| cell(recorded, row, sort.key).cloned().unwrap_or(Cell::Empty(()));
    rows.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        // Rows without a value come last in both directions.
        match (matches!(a, Cell::Empty(())), matches!(b, Cell::Empty(()))) {
            (false, false) if sort.desc => compare(&b, &a),
            (false, false) => compare(&a, &b),
            (a, b) => a.cmp(&b),
        }
    });
    let rows: Vec<Vec<Cell>> = rows.into_iter().cloned().collect();
    Ok(Rows { matched: rows.len() as u64, offset: 0, columns: recorded.columns.clone(), rows, ..recorded.clone() })
}

/// Returns what a recorded row says about a process.
pub(crate) fn detail(recorded: &Rows, pid: &str) -> Option<ProcessDetail> {
    let row = recorded.rows.iter().find(|row| text(recorded, row, Column::Pid) == pid)?;
    let count = |column| match cell(recorded, row, column) {
        Some(Cell::Count(count)) => *count,
        Some(Cell::Rate(rate)) => *rate as u64,
        _ => 0,
    };
    let rate = |column| cell(recorded, row, column).and_then(number);
    let word = |column| Some(text(recorded, row, column).to_owned()).filter(|text| !text.is_empty());
    Some(ProcessDetail {
        pid: pid.to_owned(),
        name: word(Column::Name),
        state: word(Column::State).unwrap_or_default(),
        stuck: text(recorded, row, Column::State) == "stuck",
        kind: word(Column::Kind).unwrap_or_else(|| "native".to_owned()),
        parent: word(Column::Parent),
        age_ms: count(Column::AgeMs),
        reductions: count(Column::Reds),
        reds_per_sec: rate(Column::RedsPerSec),
        busy_pct: rate(Column::BusyPct),
        mailbox_len: count(Column::MailboxLen),
        messages: count(Column::Messages),
        msgs_per_sec: rate(Column::MsgsPerSec),
        memory_bytes: count(Column::MemoryBytes),
        module: word(Column::Module),
        ..ProcessDetail::default()
    })
}

/// A condition on one column, or a text in the name or the pid.
enum Condition {
    Text(String),
    Compared { column: Column, operator: &'static str, value: String, number: Option<f64> },
}

fn parse(filter: &str) -> Result<Vec<Condition>, String> {
    let terms = filter.split(" and ").map(str::trim).filter(|term| !term.is_empty());
    terms.map(condition).collect()
}

fn condition(term: &str) -> Result<Condition, String> {
    let found = OPERATORS.into_iter().filter_map(|operator| Some((term.find(operator)?, operator)));
    let Some((at, operator)) = found.min_by_key(|(at, operator)| (*at, usize::MAX - operator.len())) else {
        if term.contains(" or ") || term.starts_with('!') || term.contains('~') {
            return Err(format!("{term:?}: the past can be filtered by text, and by conditions joined by and"));
        }
        return Ok(Condition::Text(term.to_lowercase()));
    };
    let (name, value) = (term[..at].trim(), term[at + operator.len()..].trim());
    let Some(column) = column(name) else {
        return Err(format!(
            "{name:?}: not recorded; the past has name, state, pid, parent, module, kind, mailq, mem, reds, msgs, age and busy"
        ));
    };
    let number = quantity(value, column == Column::AgeMs);
    let is_text =
        matches!(column, Column::Name | Column::State | Column::Pid | Column::Parent | Column::Module | Column::Kind);
    if !is_text && number.is_none() {
        return Err(format!("{value:?} is not a number"));
    }
    Ok(Condition::Compared { column, operator, value: value.to_lowercase(), number })
}

fn column(name: &str) -> Option<Column> {
    Some(match name {
        "name" | "label" => Column::Name,
        "state" => Column::State,
        "pid" => Column::Pid,
        "parent" => Column::Parent,
        "module" => Column::Module,
        "kind" => Column::Kind,
        "mailq" => Column::MailboxLen,
        "mem" => Column::MemoryBytes,
        "reds" => Column::Reds,
        "msgs" => Column::Messages,
        "age" => Column::AgeMs,
        "busy" | "cpu" => Column::BusyPct,
        _ => return None,
    })
}

/// Parses `12k`, `1.5MB`, `250ms`, `5m` or `40%`; an age is in milliseconds.
fn quantity(text: &str, is_age: bool) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim().to_ascii_lowercase();
    let factor = match (is_age, unit.as_str()) {
        (true, "ms") | (false, "" | "%" | "b") => 1.0,
        (true, "" | "s") | (false, "k" | "kb") => 1e3,
        (true, "m") => 6e4,
        (true, "h") => 3.6e6,
        (false, "m" | "mb") => 1e6,
        (false, "g" | "gb") => 1e9,
        (false, "kib") => 1024.0,
        (false, "mib") => 1_048_576.0,
        (false, "gib") => 1_073_741_824.0,
        _ => return None,
    };
    Some(number * factor)
}

impl Condition {
    fn matches(&self, rows: &Rows, row: &[Cell]) -> bool {
        match self {
            Self::Text(wanted) => [Column::Name, Column::Pid]
                .into_iter()
                .any(|column| text(rows, row, column).to_lowercase().contains(wanted)),
            Self::Compared { column, operator, value, number } => match (cell(rows, row, *column), number) {
                (Some(Cell::Text(text)), _) => is_like(&text.to_lowercase(), value) == (*operator == "="),
                (Some(found), Some(due)) => {
                    let order = self::number(found).unwrap_or(0.0).partial_cmp(due).unwrap_or(Ordering::Equal);
                    match *operator {
                        "=" => order.is_eq(),
                        "!=" => order.is_ne(),
                        "<" => order.is_lt(),
                        "<=" => order.is_le(),
                        ">" => order.is_gt(),
                        _ => order.is_ge(),
                    }
                }
                _ => *operator == "!=",
            },
        }
    }
}

/// Returns true if a text equals a pattern in which `*` matches anything.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return text == pattern };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let Some((last, middle)) = parts.split_last() else { return true };
    for part in middle {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.len() >= last.len() && left.ends_with(last)
}

fn cell<'a>(rows: &Rows, row: &'a [Cell], column: Column) -> Option<&'a Cell> {
    rows.columns.iter().position(|other| *other == column).and_then(|at| row.get(at))
}

fn text<'a>(rows: &Rows, row: &'a [Cell], column: Column) -> &'a str {
    match cell(rows, row, column) {
        Some(Cell::Text(text)) => text,
        _ => "",
    }
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Count(count) => Some(*count as f64),
        Cell::Rate(rate) => Some(*rate),
        _ => None,
    }
}

fn compare(a: &Cell, b: &Cell) -> Ordering {
    match (a, b) {
        (Cell::Text(a), Cell::Text(b)) => {
            pid_slot(a).cmp(&pid_slot(b)).then_with(|| a.to_lowercase().cmp(&b.to_lowercase()))
        }
        (a, b) => number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal),
    }
}

/// Returns the slot of a pid such as `<0.44.1>`; 0 for any other text.
fn pid_slot(text: &str) -> u64 {
    let slot = text.strip_prefix('<').and_then(|text| text.split('.').nth(1)?.parse().ok());
    slot.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Rows {
        let row = |pid: u64, name: &str, mailq: u64, busy: Option<f64>| {
            let name = if name.is_empty() { Cell::Empty(()) } else { Cell::Text(name.to_owned()) };
            let busy = busy.map_or(Cell::Empty(()), Cell::Rate);
            vec![Cell::Text(format!("<0.{pid}.1>")), name, Cell::Count(mailq), busy]
        };
        Rows {
            columns: vec![Column::Pid, Column::Name, Column::MailboxLen, Column::BusyPct],
            rows: vec![row(9, "kv_reader", 3, Some(1.0)), row(10, "kv_writer", 2_000, None), row(2, "", 0, Some(40.0))],
            total: 900,
            ..Rows::default()
        }
    }

    fn pids(key: Column, desc: bool, filter: &str) -> Vec<String> {
        let recorded = recorded();
        let rows = select(&recorded, SortKey { key, desc }, filter).unwrap();
        rows.rows.iter().map(|row| text(&rows, row, Column::Pid).to_owned()).collect()
    }

    #[test]
    fn recorded_rows_are_sorted_by_any_column_and_those_without_a_value_come_last() {
        assert_eq!(pids(Column::MailboxLen, true, ""), ["<0.10.1>", "<0.9.1>", "<0.2.1>"]);
        assert_eq!(pids(Column::BusyPct, true, ""), ["<0.2.1>", "<0.9.1>", "<0.10.1>"]);
        assert_eq!(pids(Column::BusyPct, false, ""), ["<0.9.1>", "<0.2.1>", "<0.10.1>"]);
        assert_eq!(pids(Column::Pid, false, ""), ["<0.2.1>", "<0.9.1>", "<0.10.1>"], "by number, not by letter");
    }

    #[test]
    fn recorded_rows_are_filtered_by_conditions_and_by_text() {
        assert_eq!(pids(Column::Pid, false, "name=kv* and mailq>1k"), ["<0.10.1>"]);
        assert_eq!(pids(Column::Pid, false, "writer"), ["<0.10.1>"]);
        assert_eq!(pids(Column::Pid, false, "busy>=1"), ["<0.2.1>", "<0.9.1>"]);
        assert_eq!(pids(Column::Pid, false, "name!=kv_*"), ["<0.2.1>"]);
    }

    #[test]
    fn what_the_past_cannot_answer_is_said_in_one_line() {
        let refused = |filter: &str| select(&recorded(), SortKey::default(), filter).unwrap_err();

        assert!(refused("mailq>1 or name=x").contains("not a number"), "{}", refused("mailq>1 or name=x"));
        assert!(refused("links>3").starts_with("\"links\": not recorded"));
        assert!(refused("!kv").contains("joined by and"));
    }

    #[test]
    fn a_recorded_process_is_shown_in_detail_with_what_was_recorded() {
        let detail = detail(&recorded(), "<0.9.1>").unwrap();

        assert_eq!((detail.name.as_deref(), detail.mailbox_len, detail.busy_pct), (Some("kv_reader"), 3, Some(1.0)));
        assert_eq!(super::detail(&recorded(), "<0.77.1>"), None);
    }
}
