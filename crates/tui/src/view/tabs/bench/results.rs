//! Results on Bench: one in full, the list of all, and both in small beside a run.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{RunEntry, RunResult};

use crate::model::panes::bench::results::sheet::{self, Ink, Paper, SheetLine};
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Draws the chosen result in full.
pub(super) fn sheet(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let lines = model.sheet_lines();
    let visible = area.height.saturating_sub(2);
    let hidden = lines.len().saturating_sub(visible.into());
    let scroll = model.results.scroll.min(hidden);
    let title = title(model.results.result(), theme);
    let right = if hidden > 0 {
        format!(" {}-{} of {} ", scroll + 1, scroll + usize::from(visible), lines.len())
    } else {
        String::new()
    };
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    let inner = painter::inset(painter.panel(area, &title, &right));
    let Some(_) = model.results.result() else {
        return painter.note(inner, waiting(model));
    };
    for (at, line) in lines.iter().skip(scroll).take(inner.height.into()).enumerate() {
        painter.line(inner, at as u16, &styled(line, theme));
    }
}

/// Returns true if the tables of the current result take the place of the chart.
pub(super) fn replace_chart(model: &Model) -> bool {
    model.results.result().is_some_and(|result| {
        (result.takes_turns || result.kind != "run" || result.verdict.is_some()) && result.number > 0
    })
}

/// Draws the beginning of the current result.
pub(super) fn beside(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let Some(result) = model.results.result() else { return };
    let title = title(Some(result), theme);
    let more =
        Line::from(vec![Span::styled(" o", theme.style(Role::Key)), Span::styled(" in full ", theme.style(Role::Dim))]);
    let inner = painter::inset(painter.panel(area, &title, &more));
    let paper = Paper { width: inner.width.into(), ascii: theme.is_ascii(), shift: 0 };
    let lines = sheet::lines(result, None, paper);
    for (at, line) in lines.iter().take(inner.height.into()).enumerate() {
        painter.line(inner, at as u16, &styled(line, theme));
    }
}

fn title(result: Option<&RunResult>, theme: Theme) -> Line<'static> {
    let Some(result) = result else {
        return Line::from(Span::styled(" result ", theme.style(Role::Title)));
    };
    let kind = if result.kind == "run" { String::new() } else { format!("{} {} ", theme.dot(), result.kind) };
    let number = format!("#{} ", result.number);
    Line::from(vec![
        Span::styled(format!(" {} ", result.scenario), theme.style(Role::Title)),
        Span::styled(kind, theme.style(Role::Accent)),
        Span::styled(number, theme.style(Role::Dim)),
    ])
}

fn waiting(model: &Model) -> &'static str {
    match (model.scenarios().is_empty(), model.has_results()) {
        (true, _) => "no scenarios on this node",
        (_, true) => "no result yet: a run has one once its warm-up is over",
        (_, false) => "waiting",
    }
}

fn styled(line: &SheetLine, theme: Theme) -> Line<'static> {
    let span = |(ink, text): &(Ink, String)| {
        let role = match ink {
            Ink::Text => Role::Text,
            Ink::Strong => Role::Strong,
            Ink::Dim => Role::Dim,
            Ink::Title => Role::Title,
            Ink::Flow => Role::Flow,
            Ink::Good => Role::Good,
            Ink::Warn => Role::Warn,
            Ink::Bad => Role::Bad,
        };
        Span::styled(ascii(text, theme), theme.style(role))
    };
    Line::from(line.iter().map(span).collect::<Vec<_>>())
}

/// Replaces the signs of reports on a screen that has only ASCII.
fn ascii(text: &str, theme: Theme) -> String {
    if !theme.is_ascii() || text.is_ascii() {
        return text.to_owned();
    }
    let of = |c: char| match c {
        'µ' => 'u',
        '–' | '—' | '·' => '-',
        '÷' => '/',
        '×' => 'x',
        '≤' => '<',
        '≥' => '>',
        'σ' => 's',
        'κ' => 'k',
        'Δ' => 'd',
        c if c.is_ascii() => c,
        _ => '?',
    };
    text.chars().map(of).collect()
}

/// Draws the list of results.
pub(super) fn history(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let results = &model.results;
    let total = results.newest.as_ref().map_or(0, |newest| newest.history_total);
    let title = Line::from(Span::styled(" results ", theme.style(Role::Title)));
    let marked = results.marked.map_or_else(String::new, |marked| format!("marked #{marked}  "));
    let position = format!(" {marked}{}/{total} ", if total == 0 { 0 } else { results.list.at + 1 });
    let inner = painter.panel(area, &title, &Line::from(Span::styled(position, theme.style(Role::Dim))));
    if let Some(why) = results.newest.as_ref().and_then(|newest| newest.history_error.as_deref()) {
        let text = painter::cut(&format!(" {why} "), area.width.saturating_sub(4), theme);
        let width = painter::width(&text);
        painter.on_border(
            area.x + 2,
            area.bottom() - 1,
            &Line::from(Span::styled(text, theme.style(Role::Warn))),
            width,
        );
    }
    if total == 0 {
        return painter.note(inner, if model.has_results() { "no results yet" } else { waiting(model) });
    }
    painter.line(inner, 0, &heading(inner.width, theme));
    for row in 0..inner.height.saturating_sub(1) {
        let position = results.list.top + u64::from(row);
        if position >= total {
            break;
        }
        let area = painter::row(inner, row + 1);
        match results.entry_at(position) {
            Some(entry) => {
                let is_marked = entry.number > 0 && results.marked == Some(entry.number);
                painter.line(area, 0, &entry_line(entry, is_marked, inner.width, theme));
            }
            None => painter.line(area, 0, &Line::from(Span::styled(theme.sign("  …", "  ~"), theme.style(Role::Dim)))),
        }
        if position == results.list.at {
            painter.select(area);
        }
    }
}

/// Draws the newest results in a small panel.
pub(super) fn latest(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    if area.height < 4 {
        return;
    }
    let theme = painter.theme;
    let title = Line::from(Span::styled(" results ", theme.style(Role::Title)));
    let more =
        Line::from(vec![Span::styled(" H", theme.style(Role::Key)), Span::styled(" all ", theme.style(Role::Dim))]);
    let inner = painter.panel(area, &title, &more);
    let entries = model.results.newest.as_ref().map_or(&[][..], |newest| &newest.history);
    if entries.is_empty() {
        return painter.note(inner, if model.has_results() { "no results yet" } else { waiting(model) });
    }
    painter.line(inner, 0, &heading(inner.width, theme));
    for (row, entry) in entries.iter().take(inner.height.saturating_sub(1).into()).enumerate() {
        painter.line(inner, row as u16 + 1, &entry_line(entry, false, inner.width, theme));
    }
}

/// Columns of the list: heading, width, and minimum width of the list that shows it.
const COLUMNS: [(&str, usize, u16); 11] = [
    ("#", 5, 0),
    ("scenario", 18, 0),
    ("kind", 9, 102),
    ("profile", 9, 82),
    ("runs", 5, 108),
    ("figure", 10, 0),
    ("95 %", 17, 133),
    ("cpu/op", 9, 72),
    ("p99", 9, 92),
    ("gates", 6, 115),
    ("verdict", 12, 0),
];
/// Width of the date and the time of a result, with the gap before it.
const WHEN: usize = 13;
/// Fewer cells than these say nothing about parameters.
const PARAMS_MIN: usize = 8;

fn heading(width: u16, theme: Theme) -> Line<'static> {
    let mut text = String::new();
    for (at, (name, cells, least)) in COLUMNS.iter().enumerate() {
        if width >= *least {
            text.push_str(&aligned(name, *cells, is_text(at)));
        }
    }
    if text.len() + WHEN <= width.into() {
        text.push_str("  when");
    }
    Line::from(Span::styled(text, theme.style(Role::Dim)))
}

const fn is_text(column: usize) -> bool {
    matches!(column, 1..=3 | 10)
}

fn aligned(text: &str, cells: usize, is_text: bool) -> String {
    if is_text { format!(" {text:<cells$}") } else { format!(" {text:>cells$}") }
}

fn entry_line(entry: &RunEntry, is_marked: bool, width: u16, theme: Theme) -> Line<'static> {
    let micro = theme.micro();
    let dash = || theme.sign("–", "-").to_owned();
    let shown = |value: Option<f64>, unit: &str| value.map_or_else(dash, |value| format::in_unit(value, unit, micro));
    let interval = match (entry.low, entry.high) {
        (Some(low), Some(high)) => {
            format!("{}-{}", format::in_unit(low, &entry.unit, micro), format::in_unit(high, &entry.unit, micro))
        }
        _ => dash(),
    };
    let number = match (entry.number, is_marked) {
        (0, _) => dash(),
        (number, true) => format!("{}{number}", theme.sign("◆", "*")),
        (number, false) => number.to_string(),
    };
    let gates = entry.gates.map_or_else(dash, |[met, judged]| format!("{met}/{judged}"));
    let gate_role = match entry.gates {
        Some([met, judged]) if met < judged => Role::Bad,
        Some(_) => Role::Good,
        None => Role::Dim,
    };
    let verdict = entry.verdict.replace('_', " ");
    let verdict_role = match sheet::verdict_ink(&entry.verdict) {
        Ink::Good => Role::Good,
        Ink::Bad => Role::Bad,
        _ => Role::Warn,
    };
    let cells = [
        (number, if is_marked { Role::Accent } else { Role::Dim }),
        (entry.scenario.clone(), Role::Strong),
        (entry.kind.clone(), Role::Text),
        (entry.profile.clone(), Role::Text),
        (entry.runs.to_string(), Role::Text),
        (shown(entry.median, &entry.unit), Role::Strong),
        (interval, Role::Dim),
        (shown(entry.cpu_ns_per_op, "ns"), Role::Text),
        (shown(entry.latency_ns_p99, "ns"), Role::Text),
        (gates, gate_role),
        (verdict, verdict_role),
    ];
    let mut spans = Vec::new();
    for (at, ((text, role), (_, cells, least))) in cells.into_iter().zip(COLUMNS).enumerate() {
        if width >= least {
            let text = painter::cut(&text, cells as u16, theme);
            spans.push(Span::styled(aligned(&text, cells, is_text(at)), theme.style(role)));
        }
    }
    let taken: usize = spans.iter().map(Span::width).sum();
    if taken + WHEN > width.into() {
        return Line::from(spans);
    }
    // Date and minute, and the parameters that are not defaults as far as they fit.
    let when: String = entry.recorded_at.chars().skip(5).take(11).map(|c| if c == 'T' { ' ' } else { c }).collect();
    spans.push(Span::styled(format!("  {when}"), theme.style(Role::Dim)));
    let room = usize::from(width).saturating_sub(taken + WHEN + 2);
    if !entry.params.is_empty() && room >= PARAMS_MIN {
        let params = painter::cut(&entry.params.join(" "), room as u16, theme);
        spans.push(Span::styled(format!("  {params}"), theme.style(Role::Text)));
    }
    Line::from(spans)
}
