//! Recorded processes as a table: this observer sorts and filters them itself, because the node keeps only these rows of
//! the past.

use std::cmp::Ordering;

use rusm_protocol::{
    Cell, Column, FILTER_FIELDS, FilterField, FilterSubject, ProcessDetail, ProcessFilter, Rows, SortKey,
};

/// Returns the recorded rows that match a filter, in an order.
///
/// # Errors
/// Returns one line if the past cannot be filtered like that.
pub(crate) fn select(recorded: &Rows, sort: SortKey, filter: &str) -> Result<Rows, String> {
    let filter = parse(recorded, filter)?;
    let matches = |row: &&Vec<Cell>| filter.matches(&RecordedProcess { rows: recorded, row });
    let mut rows: Vec<&Vec<Cell>> = recorded.rows.iter().filter(matches).collect();
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

/// Parses a filter of recorded rows, in the language of the process table.
fn parse(recorded: &Rows, filter: &str) -> Result<ProcessFilter, String> {
    let filter = ProcessFilter::parse(filter).map_err(|error| error.to_string())?;
    let is_missing = |field: &FilterField| match field {
        FilterField::BusyNs => true,
        // Nodes of earlier versions did not record them.
        FilterField::Links => !recorded.columns.contains(&Column::Links),
        FilterField::Monitors => !recorded.columns.contains(&Column::Monitors),
        FilterField::MailboxBytes => !recorded.columns.contains(&Column::MailboxBytes),
        _ => false,
    };
    match filter.fields().into_iter().find(is_missing) {
        None => Ok(filter),
        Some(missing) => {
            let word = FILTER_FIELDS.iter().find(|info| info.field == missing).map_or("", |info| info.words[0]);
            Err(format!("{word:?} is not recorded: it cannot filter the past"))
        }
    }
}

/// A recorded process as a filter sees it.
struct RecordedProcess<'a> {
    rows: &'a Rows,
    row: &'a [Cell],
}

impl FilterSubject for RecordedProcess<'_> {
    fn number(&self, field: FilterField) -> u64 {
        let value = |column| cell(self.rows, self.row, column).and_then(number).unwrap_or(0.0).max(0.0) as u64;
        match field {
            FilterField::Mailbox => value(Column::MailboxLen),
            FilterField::MailboxBytes => value(Column::MailboxBytes),
            FilterField::Links => value(Column::Links),
            FilterField::Monitors => value(Column::Monitors),
            FilterField::MemoryBytes => value(Column::MemoryBytes),
            FilterField::LinearBytes => value(Column::LinearMemoryBytes),
            FilterField::Reductions => value(Column::Reds),
            FilterField::Messages => value(Column::Messages),
            FilterField::AgeMs => value(Column::AgeMs),
            FilterField::RedsPerSec => value(Column::RedsPerSec),
            FilterField::MsgsPerSec => value(Column::MsgsPerSec),
            FilterField::ArrivalsPerSec => value(Column::ArrivalsPerSec),
            FilterField::BusyMilliPct => {
                let busy_pct = cell(self.rows, self.row, Column::BusyPct).and_then(number).unwrap_or(0.0);
                (busy_pct.max(0.0) * 1e3) as u64
            }
            FilterField::Parent => pid_slot(text(self.rows, self.row, Column::Parent)),
            _ => 0,
        }
    }

    fn any_text(&self, field: FilterField, matches: &mut dyn FnMut(&str) -> bool) -> bool {
        let column = match field {
            FilterField::Module => Column::Module,
            FilterField::Kind => Column::Kind,
            FilterField::Profile => Column::Profile,
            FilterField::HostCall => Column::LastHostCall,
            _ => Column::Name,
        };
        let text = text(self.rows, self.row, column);
        !text.is_empty() && matches(text)
    }

    fn is_in(&self, state: &str) -> bool {
        let word = match state {
            "run" => "running",
            "wait" => "waiting",
            "sleep" => "sleeping",
            word => word,
        };
        text(self.rows, self.row, Column::State) == word
    }

    fn pid(&self) -> (u32, u32) {
        let pid = text(self.rows, self.row, Column::Pid).trim_matches(['<', '>']);
        let mut numbers = pid.split('.').skip(1).map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
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
        assert_eq!(pids(Column::Pid, false, "busy%>=1"), ["<0.2.1>", "<0.9.1>"]);
        assert_eq!(pids(Column::Pid, false, "name!=kv_*"), ["<0.2.1>"]);
        assert_eq!(pids(Column::Pid, false, "!kv or mailq>1k"), ["<0.2.1>", "<0.10.1>"]);
        assert_eq!(pids(Column::Pid, false, "pid=<0.9.1> and name~READ"), ["<0.9.1>"]);
    }

    #[test]
    fn what_the_past_cannot_answer_is_said_in_one_line() {
        let refused = |filter: &str| select(&recorded(), SortKey::default(), filter).unwrap_err();

        assert_eq!(refused("mailq>x"), ProcessFilter::parse("mailq>x").unwrap_err().to_string());
        assert_eq!(refused("mailq>1 or links>3"), "\"links\" is not recorded: it cannot filter the past");
    }

    #[test]
    fn a_recorded_process_is_shown_in_detail_with_what_was_recorded() {
        let detail = detail(&recorded(), "<0.9.1>").unwrap();

        assert_eq!((detail.name.as_deref(), detail.mailbox_len, detail.busy_pct), (Some("kv_reader"), 3, Some(1.0)));
        assert_eq!(super::detail(&recorded(), "<0.77.1>"), None);
    }
}
