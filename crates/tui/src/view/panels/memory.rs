//! Memory of the node by kind: a list for the Node view, and the same kinds over time for the Schedulers view.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::MemorySnapshot;

use crate::model::history::Series;
use crate::model::panes::sched::memory_kind::{self, MemoryKind};
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::panels::chart;
use crate::view::theme::{Role, Theme};

/// Width of a label and of a size, in cells.
const LABEL: usize = 18;
const VALUE: usize = 9;
/// Share of the resident set from which memory without a known use is highlighted.
const REST_SHARE_MAX: f64 = 0.1;

/// Draws the resident set and the largest kinds of memory.
pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    if area.height < 3 {
        return;
    }
    let theme = painter.theme;
    let title = Line::from(Span::styled(" memory ", theme.style(Role::Title)));
    let Some(now) = model.frame.as_deref() else {
        painter.panel(area, &title, &Line::default());
        return;
    };
    let memory = now.observer.memory;
    let inner = painter::inset(painter.panel(area, &title, &limit(&memory, theme)));
    let bar_cells = inner.width.saturating_sub((LABEL + VALUE + 9) as u16);
    resident(painter, inner, &memory, bar_cells);
    let processes = now.observer.process_count;
    let has_limit = memory.mailbox_limit_bytes > 0 && inner.height > 8;
    let has_each = processes > 0 && inner.height > 7;
    let room = inner.height.saturating_sub(1 + u16::from(has_limit) + 2 * u16::from(has_each));
    let whole = memory.rss_bytes.max(1) as f64;
    for (at, (kind, bytes)) in (1..=room).zip(memory_kind::shown(&memory)) {
        let share = bytes as f64 / whole;
        let is_full = kind == MemoryKind::Mailboxes && memory.mailboxes_full;
        let role = if is_full { Role::Bad } else { role_of(kind, share) };
        let mut spans = amount(kind.label(), bytes, theme, role);
        spans.extend(painter::bar(theme, bar_cells, share, |_| theme.style(Role::Store)));
        let (percent, role) =
            if is_full { ("full".to_owned(), Role::Bad) } else { (format::percent(share * 100.0), Role::Dim) };
        spans.push(Span::styled(format!("{percent:>8}"), theme.style(role)));
        painter.line(inner, at, &Line::from(spans));
    }
    if has_limit {
        let mut spans = vec![Span::styled(format::bytes(memory.mailbox_limit_bytes), theme.style(Role::Text))];
        if memory.mailboxes_filled_total > 0 {
            let times = format!("  full {} times", format::grouped(memory.mailboxes_filled_total));
            spans.push(Span::styled(times, theme.style(Role::Warn)));
        }
        painter.labelled(inner, inner.height - 1 - 2 * u16::from(has_each), "mailboxes, at most", &Line::from(spans));
    }
    if has_each {
        let each = Span::styled(format::bytes(now.observer.total_memory_bytes / processes), theme.style(Role::Text));
        painter.labelled(inner, inner.height - 2, "each process, on average", &Line::from(each));
        let all = Span::styled(format::bytes(now.observer.total_memory_bytes), theme.style(Role::Text));
        painter.labelled(inner, inner.height - 1, "all processes", &Line::from(all));
    }
}

/// Draws all kinds of memory, each with its last minute.
pub(crate) fn over_time(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let title = Line::from(Span::styled(" memory by kind ", theme.style(Role::Title)));
    let Some(now) = model.frame.as_deref() else {
        painter.panel(area, &title, &Line::default());
        return;
    };
    let (memory, end_ms) = (now.observer.memory, model.chart_end_ms());
    let inner = painter::inset(painter.panel(area, &title, &limit(&memory, theme)));
    let taken = (LABEL + VALUE + 2 + 8 + 1) as u16;
    let cells = inner.width.saturating_sub(taken);
    let kinds = memory_kind::shown(&memory);
    let rows = usize::from(inner.height.saturating_sub(1));
    let is_selected = |kind| kinds.iter().position(|(known, _)| *known == kind);
    let selected = model.sched.kind.filter(|_| rows > 0).and_then(is_selected);
    let first = selected.map_or(0, |at| (at + 1).saturating_sub(rows));
    line(
        painter,
        inner,
        0,
        ("resident", memory.rss_bytes),
        &memory,
        (cells, &model.histories.rss, Role::Strong),
        end_ms,
    );
    for (at, (kind, bytes)) in (1..).zip(kinds.iter().skip(first).take(rows)) {
        let role = role_of(*kind, *bytes as f64 / memory.rss_bytes.max(1) as f64);
        let empty = Series::default();
        let series = model.histories.memory.get(*kind as usize).unwrap_or(&empty);
        line(painter, inner, at, (kind.label(), *bytes), &memory, (cells, series, role), end_ms);
    }
    let cursor = selected.map_or(0, |at| (at - first + 1) as u16);
    painter.select(painter::row(inner, cursor));
    foot(painter, area, &memory);
}

/// Draws the selected kind over time.
pub(crate) fn chart(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let (label, series) = match model.sched.kind {
        Some(kind) => (kind.label(), model.histories.memory.get(kind as usize)),
        None => ("resident", Some(&model.histories.rss)),
    };
    let bytes = series.map_or(0, |series| series.mean_to(model.chart_end_ms(), 1000) as u64);
    let title = Line::from(vec![
        Span::styled(format!(" {label} "), theme.style(Role::Title)),
        Span::styled(format!("{} ", format::bytes(bytes)), theme.style(Role::Accent)),
    ]);
    let right = Line::from(Span::styled(format!(" bytes, {} ", model.window.text()), theme.style(Role::Dim)));
    let inner = painter.panel(area, &title, &right);
    if let Some(series) = series {
        chart::render(painter, inner, model, series);
    }
}

fn limit(memory: &MemorySnapshot, theme: Theme) -> Line<'static> {
    let limit =
        if memory.limit_bytes > 0 { format!(" of {} ", format::bytes(memory.limit_bytes)) } else { String::new() };
    Line::from(Span::styled(limit, theme.style(Role::Dim)))
}

fn resident(painter: &mut Painter<'_>, inner: Rect, memory: &MemorySnapshot, bar_cells: u16) {
    let theme = painter.theme;
    let share = if memory.limit_bytes > 0 { memory.rss_bytes as f64 / memory.limit_bytes as f64 } else { 0.0 };
    let mut spans = amount("resident", memory.rss_bytes, theme, Role::Strong);
    spans.extend(painter::bar(theme, bar_cells, share, |position| theme.heat(position)));
    spans.push(Span::styled(format!("{:>8}", format::percent(share * 100.0)), theme.style(Role::Text)));
    painter.line(inner, 0, &Line::from(spans));
}

/// Draws a kind with its share of the resident set and its last minute.
fn line(
    painter: &mut Painter<'_>,
    inner: Rect,
    at: u16,
    (label, bytes): (&str, u64),
    memory: &MemorySnapshot,
    (cells, series, role): (u16, &Series, Role),
    end_ms: u64,
) {
    let theme = painter.theme;
    let share = bytes as f64 / memory.rss_bytes.max(1) as f64 * 100.0;
    let mut spans = amount(label, bytes, theme, role);
    spans.push(Span::styled(format!("{:>8}  ", format::percent(share)), theme.style(Role::Dim)));
    if cells > 4 {
        let bucket_ms = (60_000 / (u64::from(cells) * 2)).max(100);
        let values = series.columns(end_ms, 2 * bucket_ms * u64::from(cells), usize::from(cells) * 2);
        let top = values.iter().flatten().copied().fold(1.0, f64::max);
        spans.push(Span::styled(chart::ribbon(theme, series, end_ms, cells, bucket_ms, top), theme.style(Role::Store)));
    }
    painter.line(inner, at, &Line::from(spans));
}

/// Draws the age and the cost of the figures into the lower border.
fn foot(painter: &mut Painter<'_>, area: Rect, memory: &MemorySnapshot) {
    let theme = painter.theme;
    let Some(uses) = memory.uses else { return };
    let size = match uses.linear_size_bytes {
        0 => String::new(),
        bytes => format!("guests may use {} {} ", format::bytes(bytes), theme.dot()),
    };
    let cost = format::nanos(uses.cost_us * 1000, theme.micro());
    // An age below a second would be written with each frame.
    let read = if uses.age_ms < 1_000 { "now".to_owned() } else { format!("{} ago", format::age(uses.age_ms)) };
    let text = format!(" {size}read {read} {} {cost} CPU ", theme.dot());
    let width = painter::width(&text);
    if width + 4 < area.width {
        let line = Line::from(Span::styled(text, theme.style(Role::Dim)));
        painter.on_border(area.right() - 2 - width, area.bottom().saturating_sub(1), &line, width);
    }
}

/// Returns the role of a kind: memory without a known use is highlighted if it is much.
fn role_of(kind: MemoryKind, share: f64) -> Role {
    match kind {
        MemoryKind::Rest | MemoryKind::Other if share > REST_SHARE_MAX => Role::Warn,
        _ => Role::Text,
    }
}

fn amount(label: &str, bytes: u64, theme: Theme, role: Role) -> Vec<Span<'static>> {
    vec![
        Span::styled(format!("{label:<LABEL$}"), theme.style(Role::Dim)),
        Span::styled(format!("{:>VALUE$} ", format::bytes(bytes)), theme.style(role)),
    ]
}
