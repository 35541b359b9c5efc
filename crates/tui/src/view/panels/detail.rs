//! Details of one process: its rows in columns, beside the table or on the whole screen.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::model::detail::DetailPane;
use crate::model::detail::beside::beside;
use crate::model::detail::row::{Row, Tone};
use crate::model::detail::rows;
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::panels::{chart, lints};
use crate::view::theme::{Role, Theme};

/// Start of the pids of this node.
const LOCAL: &str = "<0.";
/// Narrowest column of rows.
const COLUMN_MIN: u16 = 34;
/// Blank cells between two columns.
const GAP: u16 = 3;

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let Some(pane) = &model.detail else { return };
    let theme = painter.theme;
    let title = Line::from(vec![
        Span::styled(format!(" {} ", pane.pid), theme.style(Role::Accent)),
        Span::styled(pane.name().map(|name| format!("{name} ")).unwrap_or_default(), theme.style(Role::Title)),
    ]);
    let inner = painter::inset(painter.panel(area, &title, &right(model, pane, theme)));
    let mut rows = rows::rows(pane.subject(), theme.micro());
    if rows.is_empty() {
        let text = match (pane.gone, &pane.inspection) {
            (true, _) if !pane.pid.starts_with(LOCAL) => "this process is on another node",
            (true, Some(_)) => "this process has ended, and the node does not know its end any more",
            (true, None) => "this process has ended",
            (false, _) if model.past.lacks_detail => "not among the processes recorded at this time",
            (false, _) => "loading",
        };
        return painter.note(inner, text);
    }
    let lints = model.lints.shown(model.frame()).into_iter().filter(|lint| lint.pid == pane.pid);
    let lints = lints.map(|lint| {
        let tone = if lints::role(lint) == Role::Bad { Tone::Bad } else { Tone::Warn };
        Row::fact("lint", &format!("{}: {}", lint.id, lint.text), tone)
    });
    rows.splice(2..2, lints.collect::<Vec<_>>());
    let chart_rows = u16::from(pane.process.is_some() && !pane.gone && inner.height > 4);
    let body = Rect { height: inner.height.saturating_sub(chart_rows), ..inner };
    if !pane.in_full {
        let room = usize::from(body.height) * usize::from(columns(body.width, pane));
        rows = beside(rows, room);
    }
    flow(painter, body, pane, &rows);
    if chart_rows > 0 {
        past(painter, inner, inner.height - 1, pane);
    }
}

/// Returns what the right end of the border says: the end of the process, and how far back the way goes.
fn right(model: &Model, pane: &DetailPane, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    if pane.gone {
        spans.push(Span::styled(" ended ", theme.style(Role::Bad)));
    }
    if model.trail.len() > 0 {
        let text = format!(" {} {} back ", theme.sign("⌫", "bksp"), model.trail.len());
        spans.push(Span::styled(text, theme.style(Role::Dim)));
    }
    Line::from(spans)
}

/// Returns the number of columns of rows.
fn columns(width: u16, pane: &DetailPane) -> u16 {
    ((width + GAP) / (COLUMN_MIN + GAP)).clamp(1, if pane.in_full { 4 } else { 2 })
}

/// A line on the screen, made of a row or of a part of one.
struct Drawn<'a> {
    row: &'a Row,
    /// Label; empty on a continued line.
    label: &'a str,
    value: String,
    /// Index among the links.
    link: Option<usize>,
}

/// Draws the rows in columns from top to bottom, scrolled so that the selected link is visible.
fn flow(painter: &mut Painter<'_>, area: Rect, pane: &DetailPane, rows: &[Row]) {
    if area.height == 0 {
        return;
    }
    let columns = columns(area.width, pane);
    let width = (area.width + GAP) / columns - GAP;
    let drawn = lines(rows, width);
    let height = usize::from(area.height);
    let cells = |column: u16| Rect { x: area.x + column * (width + GAP), width, ..area };
    if let Some(starts) = packed(&drawn, columns.into(), height) {
        for (column, lines) in starts.windows(2).enumerate() {
            for (at, line) in (0..).zip(&drawn[lines[0]..lines[1]]) {
                draw(painter, painter::row(cells(column as u16), at), line, pane);
            }
        }
        return;
    }
    let room = height * usize::from(columns);
    let selected = drawn.iter().position(|line| line.link == Some(pane.at)).filter(|_| pane.in_full);
    let first = selected.map_or(0, |at| (at + 1).saturating_sub(room)).min(drawn.len().saturating_sub(room));
    for (at, line) in drawn[first..].iter().take(room).enumerate() {
        draw(painter, painter::row(cells((at / height) as u16), (at % height) as u16), line, pane);
    }
}

/// Returns the first line of each column, and the end, so that the columns are about equal and no section is torn apart.
/// `None` if that does not fit.
fn packed(drawn: &[Drawn<'_>], columns: usize, height: usize) -> Option<Vec<usize>> {
    let even = drawn.len().div_ceil(columns);
    let is_start = |at: usize| drawn.get(at).is_none_or(|line| line.row.head.is_some());
    let has_sections = drawn.iter().any(|line| line.row.head.is_some());
    if !has_sections {
        return (even <= height).then(|| (0..=columns).map(|column| (column * even).min(drawn.len())).collect());
    }
    // The smallest height at which whole sections fit into the columns.
    (even..=height).find_map(|height| {
        let mut starts = vec![0];
        while let Some(&start) = starts.last().filter(|start| **start < drawn.len()) {
            let end = (start + 1..=start + height).rev().find(|&at| at <= drawn.len() && is_start(at))?;
            starts.push(end);
        }
        (starts.len() <= columns + 1).then_some(starts)
    })
}

fn lines(rows: &[Row], width: u16) -> Vec<Drawn<'_>> {
    let mut links = 0;
    let mut drawn = Vec::new();
    for row in rows {
        let link = row.link.as_ref().map(|_| links);
        links += usize::from(link.is_some());
        let room = width.saturating_sub(painter::width(&row.label) + 1);
        let parts = if row.wraps { painter::wrap(&row.value, room.max(12)) } else { vec![row.value.clone()] };
        for (at, value) in parts.into_iter().enumerate() {
            drawn.push(Drawn { row, label: if at == 0 { &row.label } else { "" }, value, link });
        }
    }
    drawn
}

fn draw(painter: &mut Painter<'_>, area: Rect, line: &Drawn<'_>, pane: &DetailPane) {
    let theme = painter.theme;
    if let Some(head) = line.row.head {
        return painter.line(area, 0, &Line::from(Span::styled(head.to_uppercase(), theme.style(Role::Title))));
    }
    let room = area.width.saturating_sub(painter::width(line.label) + 1);
    let value = painter::cut(&line.value, room, theme);
    let style = if line.link.is_some() { link_style(theme) } else { theme.style(role(line.row.tone)) };
    painter.labelled(area, 0, line.label, &Line::from(Span::styled(value, style)));
    if pane.in_full && line.link == Some(pane.at) {
        painter.select(area);
    }
}

/// Returns the style of a pid that can be followed.
fn link_style(theme: Theme) -> Style {
    theme.style(Role::Flow)
}

const fn role(tone: Tone) -> Role {
    match tone {
        Tone::Text => Role::Text,
        Tone::Strong => Role::Strong,
        Tone::Dim => Role::Dim,
        Tone::Good => Role::Good,
        Tone::Warn => Role::Warn,
        Tone::Bad => Role::Bad,
    }
}

/// Draws the reductions per second since the pane was opened.
fn past(painter: &mut Painter<'_>, inner: Rect, at: u16, pane: &DetailPane) {
    let theme = painter.theme;
    let label = "reds/s ";
    let cells = inner.width.saturating_sub(label.len() as u16);
    let values = pane.reds.buckets(500, usize::from(cells) * 2);
    let top = values.iter().flatten().copied().fold(1.0, f64::max);
    let peak = values.iter().flatten().copied().fold(0.0, f64::max);
    let label = if pane.in_full { format!("reds/s, at most {} ", format::short(peak)) } else { label.to_owned() };
    let cells = inner.width.saturating_sub(painter::width(&label)).min(cells);
    let spans = vec![
        Span::styled(label, theme.style(Role::Dim)),
        Span::styled(chart::ribbon(theme, &pane.reds, pane.reds.newest_ms(), cells, 500, top), theme.style(Role::Flow)),
    ];
    painter.line(inner, at, &Line::from(spans));
}
