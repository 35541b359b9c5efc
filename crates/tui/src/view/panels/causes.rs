//! Causes of failures: the list above the events, and one cause in full.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::CauseInfo;

use crate::model::causes::AROUND;
use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Number of cells of the history: 15 minutes.
const HISTORY: usize = 15;

/// Draws the causes at the top of an area, if there are any.
pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let causes = model.causes.causes();
    let height = model.causes.panel_height(area.height);
    if height == 0 {
        return;
    }
    let rows = height - AROUND;
    let mine = Rect { height, ..area };
    let total = model.causes.newest.as_ref().map_or(0, |newest| newest.total);
    let word = if total == 1 { "cause" } else { "causes" };
    let title = Line::from(vec![
        Span::styled(" failures ", theme.style(Role::Title)),
        Span::styled(format!("{} {word} ", format::grouped(total)), theme.style(Role::Text)),
    ]);
    let inner = painter::inset(painter.panel(mine, &title, &sums(model, theme)));
    painter.line(inner, 0, &Line::from(Span::styled(heading(inner.width), theme.style(Role::Dim))));
    let now_ms = model.causes.newest.as_ref().map_or(0, |newest| newest.at_ms);
    let cursor = model.causes.cursor();
    let top = (cursor + 1).saturating_sub(rows.into());
    for (at, cause) in causes.iter().enumerate().skip(top).take(rows.into()) {
        let row = (at - top) as u16 + 1;
        painter.line(inner, row, &line(cause, now_ms, inner.width, theme));
        if at == cursor {
            painter.select(painter::row(inner, row));
        }
    }
}

/// Width of the column of the place, by the width of the list.
const fn who_width(width: u16) -> u16 {
    if width >= layout::WIDE { 30 } else { 18 }
}

/// True if the list has room for the history.
const fn has_history(width: u16) -> bool {
    width >= 76
}

fn heading(width: u16) -> String {
    let history = if has_history(width) { format!("{:<16}", "15 min") } else { String::new() };
    format!("{:>7} {:>6} {:>5}  {history}{:<who$} why", "count", "/s", "last", "who", who = who_width(width).into())
}

fn sums(model: &Model, theme: Theme) -> Line<'static> {
    let Some(newest) = &model.causes.newest else { return Line::default() };
    let mut text = format!(" {} in all ", format::grouped(newest.failures_total));
    if newest.others_total > 0 {
        text = format!(" {} of other causes {}{text}", format::grouped(newest.others_total), theme.dot());
    }
    Line::from(Span::styled(text, theme.style(Role::Dim)))
}

fn line(cause: &CauseInfo, now_ms: u64, width: u16, theme: Theme) -> Line<'static> {
    let who = who_width(width);
    let per_sec = cause.per_sec.map_or_else(|| "-".to_owned(), format::short);
    let ago_ms = now_ms.saturating_sub(cause.last_ms);
    let last = if ago_ms < 1_000 { "now".to_owned() } else { format::age(ago_ms) };
    let history = if has_history(width) { format!("{:<16}", spark(cause, theme)) } else { String::new() };
    let used = 7 + 1 + 6 + 1 + 5 + 2 + painter::width(&history) + who + 1;
    let why = painter::cut(&cause.why, width.saturating_sub(used), theme);
    Line::from(vec![
        Span::styled(format!("{:>7} ", format::short(cause.count as f64)), theme.style(Role::Strong)),
        Span::styled(format!("{per_sec:>6} "), theme.style(if is_now(cause) { Role::Bad } else { Role::Dim })),
        Span::styled(format!("{last:>5}  "), theme.style(Role::Text)),
        Span::styled(history, theme.style(role(cause))),
        Span::styled(pad(&painter::cut(&cause.who, who - 1, theme), who), theme.style(Role::Strong)),
        Span::styled(format!(" {why}"), theme.style(Role::Text)),
    ])
}

/// Pads a text to a number of cells.
fn pad(text: &str, cells: u16) -> String {
    let blanks = usize::from(cells.saturating_sub(painter::width(text)));
    format!("{text}{:blanks$}", "")
}

fn is_now(cause: &CauseInfo) -> bool {
    cause.per_sec.is_some_and(|rate| rate > 0.0)
}

/// A crash is an error of the program; a kill and an end by a link follow from something else.
fn role(cause: &CauseInfo) -> Role {
    match cause.kind.as_str() {
        "crash" => Role::Bad,
        _ => Role::Warn,
    }
}

/// Returns the failures of the last 15 minutes, one cell a minute, each relative to the largest.
fn spark(cause: &CauseInfo, theme: Theme) -> String {
    let per_cell = cause.history.len().div_ceil(HISTORY).max(1);
    let cells: Vec<u64> =
        cause.history.chunks(per_cell).map(|chunk| chunk.iter().map(|n| u64::from(*n)).sum()).collect();
    let top = cells.iter().copied().max().unwrap_or(0).max(1) as f64;
    cells
        .iter()
        .map(|&count| match count {
            0 => theme.sign("·", "."),
            count => theme.spark(1 + (count as f64 / top * 7.0).round() as usize),
        })
        .collect()
}

/// Returns the lines of a cause in full, for an overlay of this width.
pub(crate) fn in_full(model: &Model, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let Some(detail) = model.causes.detail() else {
        return vec![Line::from(Span::styled("loading", theme.style(Role::Dim)))];
    };
    let now_ms = model.causes.newest.as_ref().map_or(0, |newest| newest.at_ms);
    let (cause, end) = (&detail.cause, &detail.end);
    let mut lines = Vec::new();
    let wrapped = |text: &str, role: Role, lines: &mut Vec<Line<'static>>| {
        for part in painter::wrap(text, width) {
            lines.push(Line::from(Span::styled(part, theme.style(role))));
        }
    };
    wrapped(&end.reason, Role::Bad, &mut lines);
    lines.push(Line::default());
    let fact = |label: &str, value: String, role: Role, lines: &mut Vec<Line<'static>>| {
        let value = painter::cut(&value, width.saturating_sub(16), theme);
        lines.push(Line::from(vec![
            Span::styled(format!("{label:<16}"), theme.style(Role::Dim)),
            Span::styled(value, theme.style(role)),
        ]));
    };
    let ago = |ms: u64| format!("{} ago", format::age(now_ms.saturating_sub(ms)));
    let rate = cause.per_sec.filter(|rate| *rate > 0.0).map(|rate| format!(", {}/s now", format::short(rate)));
    fact("who", cause.who.clone(), Role::Strong, &mut lines);
    let count = format!("{} since {}{}", format::grouped(cause.count), ago(cause.first_ms), rate.unwrap_or_default());
    fact("failures", count, Role::Text, &mut lines);
    fact("15 min", spark(cause, theme), role(cause), &mut lines);
    let name = detail.process.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
    fact("last", format!("{name}{} {}", detail.process.pid, ago(cause.last_ms)), Role::Flow, &mut lines);
    match (end.by.as_str(), &end.by_process, &end.by_observer) {
        ("itself", ..) => {}
        (by, Some(process), _) => {
            let name = process.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
            fact("ended by", format!("{by} {name}{}", process.pid), Role::Text, &mut lines);
        }
        (by, None, observer) => {
            let who = observer.as_ref().map(|who| format!(" {who}")).unwrap_or_default();
            fact("ended by", format!("{by}{who}"), Role::Text, &mut lines);
        }
    }
    if let Some(parent) = &end.parent {
        let name = parent.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
        fact("parent", format!("{name}{}", parent.pid), Role::Text, &mut lines);
    }
    lines.push(Line::default());
    lines.push(Line::from(Span::styled("LAST STATE", theme.style(Role::Title))));
    fact("lived", format::age(end.age_ms), Role::Text, &mut lines);
    fact("reductions", format::grouped(end.reductions), Role::Text, &mut lines);
    fact("busy time", format::nanos(end.busy_ns, theme.micro()), Role::Text, &mut lines);
    fact("messages", format::grouped(end.messages), Role::Text, &mut lines);
    fact("left in mailbox", format::grouped(end.mailbox_len), Role::Text, &mut lines);
    fact("ran", end.future_type.clone(), Role::Dim, &mut lines);
    lines.push(Line::default());
    lines.push(Line::from(Span::styled("BACKTRACE", theme.style(Role::Title))));
    if detail.backtrace.is_empty() {
        lines.push(Line::from(Span::styled("not known for this failure", theme.style(Role::Dim))));
    }
    for (at, function) in detail.backtrace.iter().enumerate() {
        let role = if at == 0 { Role::Strong } else { Role::Text };
        let number = Span::styled(format!("{at:>2}  "), theme.style(Role::Dim));
        let function = painter::cut(function, width.saturating_sub(4), theme);
        lines.push(Line::from(vec![number, Span::styled(function, theme.style(role))]));
    }
    lines
}
