//! The list of waits: root causes first, below each of them the processes that wait for it, and cycles marked.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::WaitRow;

use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Indentation of a level, and the largest one: deeper rows stay in that column.
const INDENT: u32 = 2;
const INDENT_MAX: u32 = 20;
/// Width of the columns right of the name.
const WAITERS: u16 = 9;
const AGE: u16 = 8;

/// Draws the list over the body of the screen.
pub(super) fn render(painter: &mut Painter<'_>, model: &Model) {
    let theme = painter.theme;
    let title = Line::from(Span::styled(" who waits for whom ", theme.style(Role::Title)));
    let inner = painter.cover(layout::body(model.size).into(), &title);
    let Some(newest) = &model.waits.newest else {
        return painter.note(inner, "asking the node");
    };
    if newest.rows.is_empty() && newest.total == 0 {
        return painter.note(inner, "no process waits for another one, for a full buffer or for a store");
    }
    let heading = heading(inner.width);
    painter.line(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    let rows = inner.height.saturating_sub(2);
    for row in 0..rows {
        let position = model.waits.list.top + u64::from(row);
        if let Some(found) = model.waits.row(position) {
            painter.line(inner, row + 1, &line(found, inner.width, theme));
            if position == model.waits.list.at {
                painter.select(painter::row(inner, row + 1));
            }
        }
    }
    let at = Rect { y: inner.y + inner.height.saturating_sub(1), height: 1, ..inner };
    painter.line(at, 0, &summary(model, theme));
}

fn heading(width: u16) -> String {
    let name = width.saturating_sub(WAITERS + AGE);
    format!("{:<width$}{:>8} {:>8}", "PROCESS", "WAITERS", "FOR", width = usize::from(name))
}

fn line(row: &WaitRow, width: u16, theme: Theme) -> Line<'static> {
    let indent = row.depth.saturating_mul(INDENT).min(INDENT_MAX) as usize;
    let mark = match row.cycle {
        0 => String::new(),
        size => format!("! cycle of {size} "),
    };
    let subject = match (&row.pid, &row.name) {
        (Some(pid), Some(name)) => format!("{pid} {name}"),
        (Some(pid), None) => pid.clone(),
        (None, name) => name.clone().unwrap_or_default(),
    };
    // The row above already names the process that this one waits for.
    let does = match (&row.wait, &row.through) {
        (Some(wait), Some(through)) => format!("{wait}: {through}"),
        (Some(wait), None) => wait.clone(),
        (None, _) if theme.is_ascii() => row.state.replace('→', ">"),
        (None, _) => row.state.clone(),
    };
    let room = usize::from(width.saturating_sub(WAITERS + AGE)).saturating_sub(indent + mark.chars().count());
    let subject = painter::cut(&subject, room as u16, theme);
    let left = room.saturating_sub(usize::from(painter::width(&subject)) + 2);
    let does = painter::cut(&does, left as u16, theme);
    let used = indent + mark.chars().count() + usize::from(painter::width(&subject) + painter::width(&does)) + 2;
    let pad = usize::from(width.saturating_sub(WAITERS + AGE)).saturating_sub(used);
    let waiters = if row.waiters > 0 { format::grouped(row.waiters) } else { String::new() };
    let age = row.age_ms.map(format::age).unwrap_or_default();
    let role = if row.cycle > 0 {
        Role::Bad
    } else if row.wait.is_none() {
        Role::Strong
    } else {
        Role::Text
    };
    Line::from(vec![
        Span::raw(" ".repeat(indent)),
        Span::styled(mark, theme.style(Role::Bad)),
        Span::styled(format!("{subject}  "), theme.style(role)),
        Span::styled(does, theme.style(Role::Accent)),
        Span::raw(" ".repeat(pad)),
        Span::styled(format!("{waiters:>8}"), theme.style(Role::Text)),
        Span::styled(format!(" {age:>8}"), theme.style(Role::Dim)),
    ])
}

/// Describes the whole list in one line.
fn summary(model: &Model, theme: Theme) -> Line<'static> {
    let Some(newest) = &model.waits.newest else { return Line::default() };
    let count = |number: u64, one: &str, many: &str| match number {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", format::grouped(number)),
    };
    let cycles = match newest.cycles {
        0 => "no cycle".to_owned(),
        cycles => count(cycles, "cycle", "cycles"),
    };
    let text = format!("{} {} {cycles}", count(newest.waiting, "process waits", "processes wait"), theme.dot());
    let role = if newest.cycles > 0 { Role::Bad } else { Role::Dim };
    Line::from(Span::styled(text, theme.style(role)))
}
