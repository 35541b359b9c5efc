//! The lines of a result: verdict, gates, curve, tables, facts and printed lines, from top to bottom.

use std::fmt::Write as _;

use rusm_protocol::{Cell, GateInfo, ResultColumn, ResultTable, RunComparison, RunResult};

use crate::model::format;
use crate::model::panes::bench::results::curve;

/// Height of a curve, in rows.
const CURVE_ROWS: usize = 12;
/// Width of the names of facts, in cells.
const NAME: usize = 12;

/// Meaning of a text, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    Strong,
    Dim,
    Title,
    Flow,
    Good,
    Warn,
    Bad,
}

/// A line of a sheet.
pub(crate) type SheetLine = Vec<(Ink, String)>;

/// The settings that determine the lines besides the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paper {
    /// Width, in cells.
    pub(crate) width: usize,
    pub(crate) ascii: bool,
    /// Number of columns scrolled away in tables that are too wide.
    pub(crate) shift: usize,
}

impl Paper {
    fn sign(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }

    fn micro(self) -> &'static str {
        self.sign("µ", "u")
    }
}

/// Returns the lines of a result and of its comparison.
pub(crate) fn lines(result: &RunResult, comparison: Option<&RunComparison>, paper: Paper) -> Vec<SheetLine> {
    let mut out = Vec::new();
    if let Some(comparison) = comparison {
        compared(comparison, paper, &mut out);
        out.push(Vec::new());
    }
    out.push(state(result, paper));
    if !result.progress.is_empty() && result.verdict.is_none() {
        out.push(named("progress", &result.progress, Ink::Dim));
    }
    out.extend(result.gates.iter().map(|gate| gate_line(gate, paper)));
    if let Some(drawn) = &result.curve {
        out.push(Vec::new());
        out.push(vec![(Ink::Title, drawn.title.clone())]);
        let rows = curve::draw(drawn, paper.width, CURVE_ROWS, paper.ascii);
        out.extend(rows.into_iter().map(|row| vec![(Ink::Flow, row)]));
    }
    let mut at_once = result.tables.iter().collect::<Vec<_>>();
    // The figures of cases in turn matter most; in any other run they follow the rate.
    let tables_first = result.takes_turns || result.kind != "run";
    let mut facts = Vec::new();
    for fact in &result.facts {
        facts.extend(wrapped(&fact.name, &fact.text, paper));
    }
    if !tables_first && !facts.is_empty() {
        out.push(Vec::new());
        out.append(&mut facts);
    }
    for table in at_once.drain(..) {
        out.push(Vec::new());
        self::table(table, paper, &mut out);
    }
    if !facts.is_empty() {
        out.push(Vec::new());
        out.append(&mut facts);
    }
    if !result.lines.is_empty() {
        out.push(Vec::new());
        out.extend(result.lines.iter().map(|line| vec![(Ink::Text, line.clone())]));
    }
    out
}

/// Returns the state of a measurement, or its verdict.
pub(crate) fn state(result: &RunResult, paper: Paper) -> SheetLine {
    if let Some(word) = &result.verdict {
        let ink = verdict_ink(word);
        let text = if result.verdict_text.is_empty() { word } else { &result.verdict_text };
        return named("verdict", text, ink);
    }
    let word = result.state.replace('_', " ");
    let mut text = word;
    if result.measured_ms > 0 || result.planned_ms > 0 {
        let seconds = |ms: u64| format!("{:.1}", ms as f64 / 1e3);
        text.push(' ');
        text.push_str(&seconds(result.measured_ms));
        if result.planned_ms > 0 {
            _ = write!(text, " of {}", seconds(result.planned_ms));
        }
        text.push_str(" s");
    }
    if result.steps > 1 {
        _ = write!(text, " {} step {} of {}", paper.sign("·", "-"), result.step, result.steps);
    }
    named("state", &text, Ink::Good)
}

/// Returns the style of a verdict or of the outcome of a comparison.
pub(crate) fn verdict_ink(word: &str) -> Ink {
    match word {
        "steady" | "level" | "conclusive" | "better" | "same" | "saturated" => Ink::Good,
        "failed" | "growing" | "worse" => Ink::Bad,
        _ => Ink::Warn,
    }
}

fn named(name: &str, text: &str, ink: Ink) -> SheetLine {
    vec![(Ink::Dim, format!("{name:<NAME$}")), (ink, text.to_owned())]
}

fn gate_line(gate: &GateInfo, paper: Paper) -> SheetLine {
    let (sign, ink) = match gate.met {
        Some(true) => (paper.sign("✓", "ok"), Ink::Good),
        Some(false) => (paper.sign("✗", "NO"), Ink::Bad),
        None => (paper.sign("○", "-"), Ink::Dim),
    };
    let value = gate.value.as_deref().unwrap_or("not in this result");
    vec![
        (Ink::Dim, format!("{:<NAME$}", "gate")),
        (ink, format!("{sign} ")),
        (Ink::Text, format!("{}: ", gate.name)),
        (if gate.met.is_some() { Ink::Strong } else { Ink::Dim }, value.to_owned()),
        (Ink::Dim, format!(" ({})", gate.limit)),
    ]
}

/// Returns a fact, with the rest of a long text below its beginning. Aligned columns of numbers are not wrapped.
fn wrapped(name: &str, text: &str, paper: Paper) -> Vec<SheetLine> {
    let room = paper.width.saturating_sub(NAME).max(20);
    let shown_name = if name.chars().count() >= NAME { format!("{name} ") } else { format!("{name:<NAME$}") };
    if name.is_empty() || text.chars().count() <= room {
        return vec![vec![(Ink::Dim, shown_name), (Ink::Text, text.to_owned())]];
    }
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let used = rows.last().map_or(0, |row| row.chars().count());
        if used > 0 && used + 1 + word.chars().count() > room {
            rows.push(String::new());
        }
        if let Some(row) = rows.last_mut() {
            if !row.is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
    }
    let of_row = |(at, row): (usize, String)| {
        let name = if at == 0 { shown_name.clone() } else { " ".repeat(NAME) };
        vec![(Ink::Dim, name), (Ink::Text, row)]
    };
    rows.into_iter().enumerate().map(of_row).collect()
}

fn compared(comparison: &RunComparison, paper: Paper, out: &mut Vec<SheetLine>) {
    let arrow = paper.sign("→", "->");
    let mut head = vec![
        (Ink::Title, format!("#{} {arrow} #{}  ", comparison.before, comparison.after)),
        (verdict_ink(&comparison.outcome), comparison.outcome.clone()),
    ];
    if !comparison.decides.is_empty() {
        let plus_minus = paper.sign("±", "+-");
        head.push((Ink::Dim, format!(" by {} at {plus_minus}{} %", comparison.decides, comparison.threshold * 100.0)));
    }
    out.push(head);
    if !comparison.table.columns.is_empty() {
        table(&comparison.table, paper, out);
    }
    for note in &comparison.notes {
        out.extend(wrapped("note", note, paper));
    }
}

/// Adds a table: title, heading, the rows that were sent, notes.
fn table(table: &ResultTable, paper: Paper, out: &mut Vec<SheetLine>) {
    if !table.title.is_empty() {
        out.push(vec![(Ink::Title, table.title.clone())]);
    }
    let shown: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| table.columns.iter().zip(row).map(|(column, cell)| cell_text(column, cell, paper)).collect())
        .collect();
    let width = |at: usize, column: &ResultColumn| {
        let cells = shown.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([column.name.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = table.columns.iter().enumerate().map(|(at, column)| width(at, column)).collect();
    let visible = visible_columns(&widths, paper);
    let cut = visible.len() < table.columns.len();
    let line = |cells: &dyn Fn(usize) -> String| {
        let mut text = String::new();
        for &at in &visible {
            let cell = cells(at);
            let filler = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
            let is_text = table.columns[at].unit == "text";
            let parts = if is_text { [cell, filler] } else { [filler, cell] };
            if !text.is_empty() {
                text.push_str("  ");
            }
            text.push_str(&parts.concat());
        }
        text
    };
    let mut heading = line(&|at| table.columns[at].name.clone());
    if cut {
        heading.push_str(paper.sign(" …", " ~"));
    }
    out.push(vec![(Ink::Dim, heading.trim_end().to_owned())]);
    let waiting = || vec![(Ink::Dim, paper.sign("…", "~").to_owned())];
    out.extend((0..table.rows_offset).map(|_| waiting()));
    out.extend(shown.iter().map(|row| {
        let text = line(&|at| row.get(at).cloned().unwrap_or_default());
        vec![(Ink::Text, text.trim_end().to_owned())]
    }));
    let sent = table.rows_offset + shown.len() as u64;
    out.extend((sent..table.rows_total).map(|_| waiting()));
    for note in &table.notes {
        let room = Paper { width: paper.width + NAME - 2, ..paper };
        let rows = wrapped("x", note, room);
        out.extend(rows.into_iter().map(|row| vec![(Ink::Dim, format!("  {}", row[1].1))]));
    }
}

/// Returns the columns that fit: the first one always, then those after the columns that are scrolled away.
fn visible_columns(widths: &[usize], paper: Paper) -> Vec<usize> {
    let total: usize = widths.iter().map(|width| width + 2).sum::<usize>().saturating_sub(2);
    if total <= paper.width || widths.is_empty() {
        return (0..widths.len()).collect();
    }
    let shift = paper.shift.min(widths.len().saturating_sub(2));
    let mut used = widths[0];
    let mut visible = vec![0];
    for (at, width) in widths.iter().enumerate().skip(1 + shift) {
        // Two cells for the sign that there is more.
        if used + 2 + width + 2 > paper.width {
            break;
        }
        used += 2 + width;
        visible.push(at);
    }
    visible
}

fn cell_text(column: &ResultColumn, cell: &Cell, paper: Paper) -> String {
    let number = |value: f64| format::in_unit(value, &column.unit, paper.micro());
    match cell {
        Cell::Empty(()) => paper.sign("–", "-").to_owned(),
        Cell::Count(count) => number(*count as f64),
        Cell::Rate(value) => number(*value),
        Cell::Text(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::NamedText;

    use super::*;

    fn text(lines: &[SheetLine]) -> String {
        let line = |line: &SheetLine| line.iter().map(|(_, text)| text.as_str()).collect::<String>();
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn result() -> RunResult {
        let column = |name: &str, unit: &str| ResultColumn { name: name.to_owned(), unit: unit.to_owned() };
        let table = ResultTable {
            title: "Round trips".to_owned(),
            columns: vec![column("mode", "text"), column("p50", "ns"), column("trips", "count")],
            rows_total: 3,
            rows_offset: 0,
            rows: vec![
                vec![Cell::Text("futex".to_owned()), Cell::Rate(4_130.0), Cell::Rate(12_345.0)],
                vec![Cell::Text("processes".to_owned()), Cell::Rate(910.0), Cell::Empty(())],
            ],
            notes: vec!["medians".to_owned()],
        };
        RunResult {
            number: 3,
            kind: "run".to_owned(),
            verdict: Some("steady".to_owned()),
            verdict_text: "steady".to_owned(),
            takes_turns: true,
            gates: vec![
                GateInfo { name: "a".into(), limit: "at most 1".into(), value: Some("0.5".into()), met: Some(true) },
                GateInfo { name: "b".into(), limit: "at least 1".into(), value: None, met: None },
            ],
            facts: vec![NamedText { name: "rate".to_owned(), text: "1.2 M trips/s".to_owned() }],
            tables: vec![table],
            rows_total: 3,
            lines: vec!["T: 0".to_owned()],
            ..RunResult::default()
        }
    }

    const PAPER: Paper = Paper { width: 60, ascii: false, shift: 0 };

    #[test]
    fn a_result_reads_like_this() {
        insta::assert_snapshot!(text(&lines(&result(), None, PAPER)));
    }

    #[test]
    fn a_run_in_progress_says_how_far_it_is() {
        let live = RunResult {
            verdict: None,
            state: "measuring".to_owned(),
            measured_ms: 1_500,
            planned_ms: 5_000,
            step: 2,
            steps: 6,
            ..result()
        };

        assert_eq!(text(&[state(&live, PAPER)]), "state       measuring 1.5 of 5.0 s · step 2 of 6");
    }

    #[test]
    fn a_table_that_is_too_wide_keeps_its_first_column_and_scrolls_the_rest() {
        let narrow = |shift| {
            let shown = lines(&result(), None, Paper { width: 20, ascii: true, shift });
            text(&shown).lines().find(|line| line.starts_with("mode")).unwrap_or_default().to_owned()
        };

        assert_eq!((narrow(0).as_str(), narrow(1).as_str()), ("mode           p50 ~", "mode        trips ~"));
    }

    #[test]
    fn two_results_are_side_by_side_above_the_result() {
        let comparison = RunComparison {
            before: 1,
            after: 3,
            outcome: "inconclusive".to_owned(),
            notes: vec!["#1 has 1 runs; an interval needs at least 6".to_owned()],
            ..RunComparison::default()
        };

        let shown = text(&lines(&result(), Some(&comparison), PAPER));

        assert!(shown.starts_with("#1 → #3  inconclusive\nnote        #1 has 1 runs"), "{shown}");
    }
}
