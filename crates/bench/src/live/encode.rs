//! Encodes a result for observers, within the limits of the protocol.

use rusm_protocol::{
    Cell as WireCell, NamedText, RESULT_COLUMNS_MAX, RESULT_LINES_MAX, RESULT_TABLES_MAX, ResultColumn, ResultTable,
    RunEntry, RunResult, RunSettings, ViewWindow,
};

use crate::catalogue::find;
use crate::live::measurement::Head;
use crate::live::sheet::Sheet;
use crate::report::document::DocumentKind;
use crate::report::figure::{CPU, P99, RATE, usual};
use crate::report::history::{Entry, STABLE_RATE};
use crate::report::table::{Cell, ColumnUnit, Table};
use crate::run::plan::{Plan, Request};
use crate::run::recipe::Recipe;

/// Maximum length of a text, in bytes; it is cut beyond it.
pub(crate) const TEXT_MAX: usize = 300;
/// Maximum length of a text in a table.
const CELL_MAX: usize = 64;
/// Maximum number of parameters in a summary.
const PARAMS_MAX: usize = 8;
/// Maximum number of notes of a table.
const NOTES_MAX: usize = 16;

/// Encodes a result with one page of its rows.
pub(crate) fn page(head: &Head, sheet: &Sheet, rows: ViewWindow) -> RunResult {
    let from = usize::try_from(rows.offset).unwrap_or(usize::MAX);
    let to = from.saturating_add(rows.len as usize);
    let mut tables = Vec::new();
    let mut before = 0;
    for table in sheet.tables.iter().take(RESULT_TABLES_MAX) {
        tables.push(table_page(table, from.saturating_sub(before), to.saturating_sub(before)));
        before += table.rows.len();
    }
    let (word, line, conclusive) = sheet.verdict.clone().unzip3();
    RunResult {
        number: head.number,
        kind: head.kind.to_owned(),
        scenario: head.recipe.scenario.clone(),
        state: "ended".to_owned(),
        settings: settings(head),
        params: head.recipe.params.clone(),
        takes_turns: head.takes_turns,
        verdict: word,
        verdict_text: cut(&line.unwrap_or_default(), TEXT_MAX),
        conclusive: conclusive.unwrap_or_default(),
        gates: sheet.gates.clone(),
        facts: sheet
            .facts
            .iter()
            .take(RESULT_LINES_MAX)
            .map(|(name, text)| NamedText { name: cut(name, CELL_MAX), text: cut(text, TEXT_MAX) })
            .collect(),
        rows_total: before as u64,
        rows_offset: from.min(before) as u64,
        tables,
        lines: sheet.lines.iter().take(RESULT_LINES_MAX).map(|line| cut(line, TEXT_MAX)).collect(),
        curve: sheet.curve.clone(),
        ..RunResult::default()
    }
}

/// Splits an optional triple.
trait Unzip3<A, B, C> {
    fn unzip3(self) -> (Option<A>, Option<B>, Option<C>);
}

impl<A, B, C> Unzip3<A, B, C> for Option<(A, B, C)> {
    fn unzip3(self) -> (Option<A>, Option<B>, Option<C>) {
        match self {
            Some((a, b, c)) => (Some(a), Some(b), Some(c)),
            None => (None, None, None),
        }
    }
}

/// Returns the settings that repeat a result.
fn settings(head: &Head) -> RunSettings {
    let Recipe { profile, rate_per_sec, seed, runs, duration_ms, warm_up_max_ms, .. } = head.recipe.clone();
    RunSettings {
        profile: Some(profile),
        rate_per_sec,
        duration_ms: Some(duration_ms),
        warm_up_ms: Some(warm_up_max_ms),
        seed: Some(seed),
        runs: head.settings.runs.or(Some(runs)),
        ..head.settings.clone()
    }
}

/// Encodes a table with its rows `from..to`.
pub(crate) fn table_page(table: &Table, from: usize, to: usize) -> ResultTable {
    let columns = &table.columns[..table.columns.len().min(RESULT_COLUMNS_MAX)];
    let rows = table.rows.len();
    let shown = &table.rows[from.min(rows)..to.min(rows).max(from.min(rows))];
    let column = |column: &crate::report::table::Column| ResultColumn {
        name: cut(&column.name, CELL_MAX),
        unit: unit(column.unit).to_owned(),
    };
    let row = |row: &Vec<Cell>| row.iter().take(columns.len()).map(cell).collect();
    ResultTable {
        title: cut(&table.title, TEXT_MAX),
        columns: columns.iter().map(column).collect(),
        rows_total: rows as u64,
        rows_offset: from.min(rows) as u64,
        rows: shown.iter().map(row).collect(),
        notes: table.notes.iter().take(NOTES_MAX).map(|note| cut(note, TEXT_MAX)).collect(),
    }
}

fn cell(cell: &Cell) -> WireCell {
    match cell {
        Cell::Number(number) if number.is_finite() => WireCell::Rate(*number),
        Cell::Number(_) | Cell::Missing => WireCell::Empty(()),
        Cell::Text(text) => WireCell::Text(cut(text, CELL_MAX)),
    }
}

const fn unit(unit: ColumnUnit) -> &'static str {
    match unit {
        ColumnUnit::Text => "text",
        ColumnUnit::Count => "count",
        ColumnUnit::Amount => "amount",
        ColumnUnit::Ns => "ns",
        ColumnUnit::Percent => "percent",
        ColumnUnit::Ratio => "ratio",
        ColumnUnit::Bytes => "bytes",
    }
}

/// Summarises a result of this node for the list.
pub(crate) fn entry_of(head: &Head, sheet: &Sheet, saved: Option<&Entry>) -> RunEntry {
    let judged: Vec<bool> = sheet.gates.iter().filter_map(|gate| gate.met).collect();
    let met = judged.iter().filter(|met| **met).count();
    RunEntry {
        number: head.number,
        kind: head.kind.to_owned(),
        verdict: sheet.verdict.as_ref().map_or_else(String::new, |(word, ..)| word.clone()),
        gates: (!judged.is_empty()).then_some([met as u32, judged.len() as u32]),
        ..saved.map(summary).unwrap_or_default()
    }
}

/// Summarises an entry of the history file for the list.
pub(crate) fn summary(entry: &Entry) -> RunEntry {
    let recipe = &entry.recipe;
    let is_search = entry.kind == DocumentKind::Saturate;
    let decides =
        if is_search { STABLE_RATE } else { usual(recipe.rate_per_sec.is_some(), entry.figure(RATE).is_some()) };
    let figure = entry.figure(decides);
    let median = |name: &str| entry.figure(name).map(|figure| figure.median);
    let commit: String = entry.commit.as_deref().unwrap_or_default().chars().take(9).collect();
    RunEntry {
        recorded_at: entry.recorded_at.clone(),
        kind: if is_search { "saturate" } else { "run" }.to_owned(),
        scenario: cut(&recipe.scenario, CELL_MAX),
        profile: cut(&recipe.profile, CELL_MAX),
        params: other_than_default(recipe),
        rate_per_sec: recipe.rate_per_sec,
        runs: recipe.runs,
        duration_ms: recipe.duration_ms,
        figure: figure.map_or_else(String::new, |figure| figure.name.clone()),
        unit: figure.map_or("", |figure| unit(figure.unit)).to_owned(),
        median: figure.map(|figure| figure.median),
        low: figure.and_then(|figure| figure.low),
        high: figure.and_then(|figure| figure.high),
        cpu_ns_per_op: median(CPU),
        latency_ns_p99: median(P99),
        verdict: entry.verdict.word().to_owned(),
        version: format!("{} {commit}", entry.version).trim_end().to_owned(),
        ..RunEntry::default()
    }
}

/// Returns the parameters that differ from their defaults.
fn other_than_default(recipe: &Recipe) -> Vec<String> {
    let bare = find(&recipe.scenario)
        .ok()
        .and_then(|_| Plan::of(&Request { scenario: recipe.scenario.clone(), ..Request::default() }).ok());
    let defaults = bare.map(|plan| plan.params.said()).unwrap_or_default();
    let differs = |(name, value): &(&String, &String)| !value.is_empty() && defaults.get(*name) != Some(*value);
    recipe
        .params
        .iter()
        .filter(differs)
        .take(PARAMS_MAX)
        .map(|(name, value)| cut(&format!("{name}={value}"), CELL_MAX))
        .collect()
}

pub(crate) fn cut(text: &str, max: usize) -> String {
    text[..text.floor_char_boundary(max)].to_owned()
}

#[cfg(test)]
mod tests {
    use rusm_protocol::{GateInfo, Results, SERVER_MESSAGE_MAX_BYTES, ServerMessage, VIEW_ROWS_MAX, encode};

    use super::*;

    fn head(number: u64) -> Head {
        let recipe = Recipe { scenario: "ping-pong".to_owned(), ..Recipe::default() };
        Head { number, kind: "run", recipe, settings: RunSettings::default(), takes_turns: true }
    }

    fn large_table(at: usize) -> Table {
        let names: Vec<String> = (0..40).map(|column| format!("column {column} {}", "x".repeat(200))).collect();
        let columns: Vec<(&str, ColumnUnit)> = names.iter().map(|name| (name.as_str(), ColumnUnit::Text)).collect();
        let mut table = Table::new(&format!("table {at} {}", "t".repeat(500)), &columns);
        table.rows = vec![vec![Cell::Text("µ".repeat(500)); 40]; 100];
        table.notes = vec!["n".repeat(1_000); 100];
        table
    }

    #[test]
    fn the_largest_result_fits_into_a_message() {
        let sheet = Sheet {
            facts: vec![("f".repeat(500), "t".repeat(5_000)); 1_000],
            tables: (0..100).map(large_table).collect(),
            lines: vec!["l".repeat(5_000); 1_000],
            gates: vec![GateInfo::default(); 8],
            verdict: Some(("steady".to_owned(), "s".repeat(9_000), true)),
            ..Sheet::default()
        };
        let rows = ViewWindow { offset: 150, len: VIEW_ROWS_MAX };

        let result = page(&head(1), &sheet, rows);

        let shown: Vec<usize> = result.tables.iter().map(|table| table.rows.len()).collect();
        assert_eq!((shown[0], shown[1], shown[2], shown[3], shown[4]), (0, 50, 100, 50, 0));
        assert_eq!(
            (result.rows_total, result.rows_offset, result.tables.len()),
            (100 * RESULT_TABLES_MAX as u64, 150, RESULT_TABLES_MAX)
        );
        let entry = RunEntry { params: vec!["p".repeat(CELL_MAX); PARAMS_MAX], ..RunEntry::default() };
        let history = vec![entry; VIEW_ROWS_MAX as usize];
        let results = Results { result: Some(Box::new(result)), history, ..Results::default() };
        let message = ServerMessage::Results(Box::new(results));
        let bytes = encode(&message).len();
        assert!(bytes < SERVER_MESSAGE_MAX_BYTES, "{bytes}");
    }
}
