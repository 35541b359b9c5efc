//! A bar for each scheduler, with its run queue, steals, parks and load over the last minute.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::SchedulerSnapshot;

use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::panels::chart;
use crate::view::theme::{Role, Theme};

/// Minimum width of a bar with its number and share.
const BAR_MIN: u16 = 14;

/// Width of the figures after a bar, in cells: `100 %`, and in a wide panel the queue, steals and parks.
const SHARE: u16 = 6;
const FIGURES: u16 = 21;

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let now = model.frame.as_deref();
    let loads = now.map_or(&[][..], |now| &now.observer.scheduler_load);
    let details = now.map_or(&[][..], |now| &now.observer.schedulers);
    let busy = loads.iter().map(|&load| f64::from(load)).sum::<f64>();
    let title = Line::from(Span::styled(" schedulers ", theme.style(Role::Title)));
    let right =
        Line::from(Span::styled(format!(" {:.2} of {} busy ", busy + 0.0, loads.len()), theme.style(Role::Text)));
    let inner = painter::inset(painter.panel(area, &title, &right));
    if loads.is_empty() || inner.height == 0 {
        return;
    }
    // The last row shows the totals, and the first row the headings if they fit.
    let room = inner.height.saturating_sub(1);
    let columns = (inner.width / BAR_MIN).max(1);
    if loads.len() < usize::from(room) {
        lanes(painter, inner, model, loads, details);
    } else if loads.len() <= usize::from(room) {
        bars(painter, inner, loads, 1, room);
    } else if loads.len() <= usize::from(room * columns) {
        bars(painter, inner, loads, columns, room);
    } else {
        heat_map(painter, inner, loads, room);
    }
    totals(painter, inner, details);
}

/// Draws one scheduler per row, with its last minute below if it fits.
fn lanes(painter: &mut Painter<'_>, inner: Rect, model: &Model, loads: &[f32], details: &[SchedulerSnapshot]) {
    let theme = painter.theme;
    let wide = inner.width >= 40;
    let heading = if wide { "runq steal/s park/s" } else { "runq" };
    painter.line_right(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    let figures = if wide { FIGURES } else { SHARE };
    let room = inner.height.saturating_sub(2);
    let with_past = loads.len() * 2 <= usize::from(room);
    for (at, &load) in loads.iter().enumerate() {
        let at_row = 1 + at as u16 * if with_past { 2 } else { 1 };
        let cells = inner.width.saturating_sub(4 + SHARE + figures);
        let mut spans = vec![Span::styled(format!("s{at:<3}"), theme.style(Role::Dim))];
        spans.extend(painter::bar(theme, cells, load.into(), |position| theme.heat(position)));
        let share = format!("{:>4.0} %", load * 100.0);
        spans.push(Span::styled(share, theme.style(Role::Text)));
        painter.line(inner, at_row, &Line::from(spans));
        if let Some(detail) = details.get(at) {
            painter.line_right(inner, at_row, &figures_of(detail, wide, theme));
        }
        if let Some(past) = model.histories.schedulers.get(at).filter(|_| with_past) {
            let ribbon = chart::ribbon(theme, past, model.chart_end_ms(), inner.width.saturating_sub(4), 500, 1.0);
            let chart = Span::styled(ribbon, theme.style(Role::Dim));
            painter.line(inner, at_row + 1, &Line::from(vec![Span::raw("    "), chart]));
        }
    }
}

fn figures_of(detail: &SchedulerSnapshot, wide: bool, theme: Theme) -> Line<'static> {
    let queue_role = if detail.run_queue > 1000 { Role::Warn } else { Role::Text };
    let mut spans =
        vec![Span::styled(format!("{:>5}", format::short(detail.run_queue as f64)), theme.style(queue_role))];
    if wide {
        let rest = format!(" {:>7} {:>6}", format::short(detail.steals_per_sec), format::short(detail.parks_per_sec));
        spans.push(Span::styled(rest, theme.style(Role::Text)));
    }
    Line::from(spans)
}

/// Draws small bars side by side, if there are too many schedulers for one row each.
fn bars(painter: &mut Painter<'_>, inner: Rect, loads: &[f32], columns: u16, rows: u16) {
    let theme = painter.theme;
    let width = inner.width / columns;
    for (at, &load) in loads.iter().enumerate() {
        let (column, row) = (at as u16 / rows, at as u16 % rows);
        let mut spans = vec![Span::styled(format!("s{at:<3}"), theme.style(Role::Dim))];
        spans.extend(painter::bar(theme, width.saturating_sub(9), load.into(), |position| theme.heat(position)));
        spans.push(Span::styled(format!("{:>4.0} ", load * 100.0), theme.style(Role::Text)));
        let cell = Rect { x: inner.x + column * width, width, ..inner };
        painter.line(cell, row, &Line::from(spans));
    }
}

/// Draws one cell per scheduler, if there are hundreds.
fn heat_map(painter: &mut Painter<'_>, inner: Rect, loads: &[f32], rows: u16) {
    let theme = painter.theme;
    let per_row = usize::from(inner.width.max(1));
    for (row, loads) in loads.chunks(per_row).take(rows.into()).enumerate() {
        let cell = |&load: &f32| {
            let load = f64::from(load).clamp(0.0, 1.0);
            Span::styled(theme.spark(1 + (load * 7.0).round() as usize), theme.heat(load))
        };
        painter.line(inner, row as u16, &Line::from(loads.iter().map(cell).collect::<Vec<_>>()));
    }
}

fn totals(painter: &mut Painter<'_>, inner: Rect, details: &[SchedulerSnapshot]) {
    let theme = painter.theme;
    let sum = |of: fn(&SchedulerSnapshot) -> f64| format!("{:<5}", format::short(details.iter().map(of).sum()));
    let mut spans = Vec::new();
    let pairs = [
        ("runq", sum(|s| s.run_queue as f64)),
        ("polls/s", sum(|s| s.polls_per_sec)),
        ("wakes/s", sum(|s| s.wakes_per_sec)),
        ("steals/s", sum(|s| s.steals_per_sec)),
    ];
    for (label, value) in pairs {
        let pair = [
            Span::styled(format!("{label} "), theme.style(Role::Dim)),
            Span::styled(format!("{value} "), theme.style(Role::Text)),
        ];
        let used: usize = spans.iter().chain(&pair).map(Span::width).sum();
        if used <= usize::from(inner.width) + 1 {
            spans.extend(pair);
        }
    }
    painter.line(inner, inner.height - 1, &Line::from(spans));
}
