//! Rows of processes, used by the Node and the Processes view.

use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use rusm_protocol::{Cell, Column, Rows, SortKey};

use crate::model::panes::columns::{self, ColumnSlot};
use crate::model::panes::table;
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::panels::lints;
use crate::view::theme::{Role, Theme};

/// Mailbox lengths from which a process is highlighted as a warning and as bad.
const MAILBOX_LONG: u64 = 1_000;
const MAILBOX_ALARMING: u64 = 10_000;

/// Draws the names of the columns, with an arrow at the sort column.
pub(crate) fn heading(painter: &mut Painter<'_>, area: Rect, slots: &[ColumnSlot], sort: SortKey) {
    let theme = painter.theme;
    for slot in slots {
        let sorts = slot.column == sort.key;
        let arrow = match (sorts, sort.desc) {
            (false, _) => "",
            (true, true) => theme.sign("▼", "v"),
            (true, false) => theme.sign("▲", "^"),
        };
        let name = columns::heading(slot.column);
        let text = if columns::is_text(slot.column) { format!("{name}{arrow}") } else { format!("{arrow}{name}") };
        let style = theme.style(if sorts { Role::Accent } else { Role::Dim });
        position(painter, area, *slot, Span::styled(text, style));
    }
}

/// Draws the values of the process at position `at` of a page, after a mark if there is a lint about it.
pub(crate) fn row(
    painter: &mut Painter<'_>,
    area: Rect,
    model: &Model,
    slots: &[ColumnSlot],
    (page, at): (&Rows, usize),
) {
    let Some(row) = page.rows.get(at) else { return };
    let theme = painter.theme;
    let fill = page.mailbox_fill_pct.get(at).copied().unwrap_or(0);
    let ended = table::text(page, row, Column::State) == "exited";
    if let Some(role) = lints::mark(model, table::text(page, row, Column::Pid)).filter(|_| !ended) {
        painter.line(area, 0, &Line::from(Span::styled("!", theme.style(role))));
    }
    for slot in slots {
        let cell = table::cell(page, row, slot.column);
        let (text, role) = value(slot.column, cell, slot.width, theme);
        let role =
            if slot.column == Column::MailboxLen && role != Role::Bad { heat(fill).unwrap_or(role) } else { role };
        let mut style = theme.style(if ended { Role::Dim } else { role });
        if ended && slot.column == Column::Pid {
            style = style.add_modifier(Modifier::CROSSED_OUT);
        }
        position(painter, area, *slot, Span::styled(text, style));
    }
}

/// Returns the importance of a mailbox that is full in part: senders will wait for it, however short it is.
const fn heat(fill_pct: u8) -> Option<Role> {
    match fill_pct {
        0..50 => None,
        50..90 => Some(Role::Warn),
        90.. => Some(Role::Bad),
    }
}

/// Draws a value into its column, one cell right of the marker.
fn position(painter: &mut Painter<'_>, area: Rect, slot: ColumnSlot, span: Span<'static>) {
    let width = slot.width.min(area.width.saturating_sub(slot.x + 1));
    let used = (span.width() as u16).min(width);
    let indent = if columns::is_text(slot.column) { 0 } else { width - used };
    if area.height > 0 {
        let x = area.x + 1 + slot.x + indent;
        painter.put(x, area.y, &Line::from(span), used);
    }
}

/// Returns a value as text, and its importance.
fn value(column: Column, cell: Option<&Cell>, width: u16, theme: Theme) -> (String, Role) {
    let number = match cell {
        Some(Cell::Text(text)) => return (painter::cut(text, width, theme), text_role(column, text)),
        Some(Cell::Count(count)) => *count as f64,
        Some(Cell::Rate(rate)) => *rate,
        Some(Cell::Empty(())) | None => return (empty(column).to_owned(), Role::Dim),
    };
    let count = number.max(0.0) as u64;
    let text = match column {
        Column::MemoryBytes | Column::MailboxBytes | Column::LinearMemoryBytes | Column::SentBytes => {
            format::bytes_short(count)
        }
        Column::AgeMs => format::age(count),
        Column::BusyPct => format!("{number:.1}"),
        Column::MailboxLen => format::count_within(count, width.into()),
        Column::RedsPerSec => format::count_within(number.max(0.0).round() as u64, width.into()),
        _ => format::short(number),
    };
    let role = match column {
        _ if number <= 0.0 => Role::Dim,
        Column::MailboxLen if count >= MAILBOX_ALARMING => Role::Bad,
        Column::MailboxLen if count >= MAILBOX_LONG => Role::Warn,
        Column::BusyPct if number >= 90.0 => Role::Warn,
        _ => Role::Text,
    };
    (text, role)
}

const fn empty(column: Column) -> &'static str {
    if columns::is_text(column) { "" } else { "-" }
}

fn text_role(column: Column, text: &str) -> Role {
    match (column, text) {
        (Column::State, "running" | "runnable") => Role::Good,
        (Column::State, "io" | "store") => Role::Flow,
        (Column::State, wait) if wait.contains(' ') => Role::Text,
        (Column::State, "exiting") => Role::Warn,
        (Column::State, "stuck") => Role::Bad,
        (Column::Kind, "wasm") => Role::Store,
        (Column::State | Column::Parent | Column::Kind | Column::Profile, _) => Role::Dim,
        (Column::Name, _) => Role::Strong,
        _ => Role::Text,
    }
}
