//! Building blocks of panels: borders with titles, lines of labelled values, bars, one-line charts.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Widget};
use unicode_width::UnicodeWidthChar;

use crate::model::layout::Cells;
use crate::view::theme::{Role, Theme};

impl From<Cells> for Rect {
    fn from(cells: Cells) -> Self {
        Self::new(cells.x, cells.y, cells.width, cells.height)
    }
}

/// Returns the width of a text in cells.
pub(crate) fn width(text: &str) -> u16 {
    unicode_width::UnicodeWidthStr::width(text).min(u16::MAX.into()) as u16
}

/// Returns the part of a text that fits into `cells`, with a mark at its end if it was cut.
pub(crate) fn cut(text: &str, cells: u16, theme: Theme) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let ellipsis = theme.sign("…", "~");
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0) as u16;
        if used > cells {
            break;
        }
        out.push(c);
    }
    if cells > 0 {
        out.push_str(ellipsis);
    }
    out
}

/// Breaks a text between words into lines of at most `cells`. A word longer than a line is broken itself.
pub(crate) fn wrap(text: &str, cells: u16) -> Vec<String> {
    let room = cells.max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if let Some(last) = lines.last_mut().filter(|last| width(last) + 1 + width(word) <= room) {
            last.push(' ');
            last.push_str(word);
            continue;
        }
        lines.push(String::new());
        for c in word.chars() {
            let is_full = lines.last().is_some_and(|last| width(last) + c.width().unwrap_or(0) as u16 > room);
            if is_full {
                lines.push(String::new());
            }
            if let Some(last) = lines.last_mut() {
                last.push(c);
            }
        }
    }
    lines
}

/// Draws a border with its titles. Returns the area inside.
pub(crate) fn panel(frame: &mut Frame, area: Rect, theme: Theme, title: &Line<'_>, right: &Line<'_>) -> Rect {
    if area.width < 4 || area.height < 2 {
        return Rect::ZERO;
    }
    let block = Block::new().borders(Borders::ALL).border_set(theme.borders()).border_style(theme.style(Role::Border));
    let inner = block.inner(area);
    block.render(area, frame.buffer_mut());
    let room = area.width - 4;
    let title_width = (title.width() as u16).min(room);
    on_border(frame, area.x + 2, area.y, title, title_width);
    let right_width = right.width() as u16;
    if right_width > 0 && title_width + right_width < room {
        on_border(frame, area.x + area.width - 2 - right_width, area.y, right, right_width);
    }
    inner
}

/// Draws a line over a border, without the style of the border.
pub(crate) fn on_border(frame: &mut Frame, x: u16, y: u16, line: &Line<'_>, width: u16) {
    let place = Rect::new(x, y, width, 1).intersection(frame.area());
    frame.buffer_mut().set_style(place, Style::reset());
    put(frame.buffer_mut(), x, y, line, width);
}

/// Highlights a row as selected, in a single style from end to end.
pub(crate) fn select(frame: &mut Frame, area: Rect, theme: Theme) {
    let area = area.intersection(frame.area());
    frame.buffer_mut().set_style(area, Style::reset());
    frame.buffer_mut().set_style(area, theme.style(Role::Selected));
}

/// Draws a panel over the existing content. Returns the area inside.
pub(crate) fn popup(frame: &mut Frame, width: u16, height: u16, theme: Theme, title: &Line<'_>) -> Rect {
    let screen = frame.area();
    let (width, height) = (width.min(screen.width), height.min(screen.height));
    let area = Rect::new((screen.width - width) / 2, (screen.height - height) / 2, width, height);
    Clear.render(area, frame.buffer_mut());
    let inner = panel(frame, area, theme, title, &Line::default());
    let style = theme.style(Role::Accent);
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            let on_edge = !inner.contains((x, y).into());
            if let Some(cell) = frame.buffer_mut().cell_mut((x, y)).filter(|_| on_edge) {
                cell.set_style(Style::reset());
                cell.set_style(style);
            }
        }
    }
    inset(inner)
}

/// Removes one blank column on each side.
pub(crate) fn inset(area: Rect) -> Rect {
    let taken = 1.min(area.width / 2);
    Rect::new(area.x + taken, area.y, area.width - 2 * taken, area.height)
}

/// Returns row `at` of an area, or an empty area below its end.
pub(crate) fn row(area: Rect, at: u16) -> Rect {
    if at < area.height { Rect::new(area.x, area.y + at, area.width, 1) } else { Rect::ZERO }
}

/// Draws a line, cut at `width`.
pub(crate) fn put(buffer: &mut Buffer, x: u16, y: u16, line: &Line<'_>, width: u16) {
    let area = buffer.area;
    if y < area.bottom() && x < area.right() {
        buffer.set_line(x, y, line, width.min(area.right() - x));
    }
}

/// Draws a line into row `at` of an area.
pub(crate) fn line(frame: &mut Frame, area: Rect, at: u16, line: &Line<'_>) {
    let row = row(area, at);
    if row.width > 0 {
        put(frame.buffer_mut(), row.x, row.y, line, row.width);
    }
}

/// Draws a line at the right end of row `at`.
pub(crate) fn line_right(frame: &mut Frame, area: Rect, at: u16, line: &Line<'_>) {
    let row = row(area, at);
    let width = line.width().min(row.width.into()) as u16;
    if width > 0 {
        put(frame.buffer_mut(), row.right() - width, row.y, line, width);
    }
}

/// Draws a label, and a value at the right edge of the row.
pub(crate) fn labelled(frame: &mut Frame, area: Rect, at: u16, theme: Theme, label: &str, value: &Line<'_>) {
    line(frame, area, at, &Line::from(Span::styled(label.to_owned(), theme.style(Role::Dim))));
    line_right(frame, area, at, value);
}

/// Returns a bar of `cells`, filled to `share` of 1; `ink` returns the style at each position.
pub(crate) fn bar(theme: Theme, cells: u16, share: f64, ink: impl Fn(f64) -> Style) -> Vec<Span<'static>> {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let halves = (share * f64::from(cells) * 2.0).round() as u16;
    (0..cells)
        .map(|at| match halves.saturating_sub(at * 2) {
            0 => Span::styled(theme.track(), theme.style(Role::Dim)),
            filled => Span::styled(theme.bar_cell(filled > 1), ink(f64::from(at) / f64::from(cells))),
        })
        .collect()
}

/// Returns a one-line chart of values from 0 to `top`.
pub(crate) fn spark(theme: Theme, values: &[Option<f64>], top: f64) -> String {
    values
        .iter()
        .map(|value| match value {
            Some(value) if top > 0.0 => theme.spark(1 + (value / top * 7.0).round().clamp(0.0, 7.0) as usize),
            Some(_) => theme.spark(1),
            None => " ",
        })
        .collect()
}
