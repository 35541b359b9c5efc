//! Building blocks of panels: a painter that draws borders with titles and lines, and bars and one-line charts as text.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Widget};
use unicode_width::UnicodeWidthChar;

use crate::model::input::keymap::KeyMap;
use crate::model::layout::Cells;
use crate::view::theme::{Role, Theme};

impl From<Cells> for Rect {
    fn from(cells: Cells) -> Self {
        Self::new(cells.x, cells.y, cells.width, cells.height)
    }
}

/// Draws on the screen with the styles of its terminal.
pub(crate) struct Painter<'a> {
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) theme: Theme,
    /// The keys that the screen shows.
    pub(crate) keys: &'a KeyMap,
    /// True if a recorded instant is shown.
    pub(crate) is_past: bool,
    /// Position of the terminal's cursor, if it is shown.
    pub(crate) cursor: Option<(u16, u16)>,
}

impl Painter<'_> {
    /// Returns the area of the whole screen.
    pub(crate) const fn area(&self) -> Rect {
        self.buffer.area
    }

    /// Draws a border with its titles. Returns the area inside.
    pub(crate) fn panel(&mut self, area: Rect, title: &Line<'_>, right: &Line<'_>) -> Rect {
        if area.width < 4 || area.height < 2 {
            return Rect::ZERO;
        }
        let (set, style) = (self.theme.borders(), self.theme.style(Role::Border));
        let block = Block::new().borders(Borders::ALL).border_set(set).border_style(style);
        let inner = block.inner(area);
        block.render(area, self.buffer);
        let room = area.width - 4;
        let title_width = (title.width() as u16).min(room);
        self.on_border(area.x + 2, area.y, title, title_width);
        let right_width = right.width() as u16;
        if right_width > 0 && title_width + right_width < room {
            self.on_border(area.x + area.width - 2 - right_width, area.y, right, right_width);
        }
        inner
    }

    /// Draws a line over a border, without the style of the border.
    pub(crate) fn on_border(&mut self, x: u16, y: u16, line: &Line<'_>, width: u16) {
        let cells = Rect::new(x, y, width, 1).intersection(self.area());
        self.buffer.set_style(cells, Style::reset());
        self.put(x, y, line, width);
    }

    /// Highlights a row as selected. Colours stay, because they carry the state; bold and dim would make the row uneven.
    pub(crate) fn select(&mut self, area: Rect) {
        let area = area.intersection(self.area());
        for position in area.positions() {
            if let Some(cell) = self.buffer.cell_mut(position) {
                let color = cell.fg;
                cell.set_style(Style::reset());
                cell.set_style(self.theme.style(Role::Selected)).set_fg(color);
            }
        }
    }

    /// Draws a panel over the existing content. Returns the area inside.
    pub(crate) fn popup(&mut self, width: u16, height: u16, title: &Line<'_>) -> Rect {
        let screen = self.area();
        let (width, height) = (width.min(screen.width), height.min(screen.height));
        let area = Rect::new((screen.width - width) / 2, (screen.height - height) / 2, width, height);
        Clear.render(area, self.buffer);
        let inner = self.panel(area, title, &Line::default());
        let style = self.theme.style(Role::Accent);
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                let on_edge = !inner.contains((x, y).into());
                if let Some(cell) = self.buffer.cell_mut((x, y)).filter(|_| on_edge) {
                    cell.set_style(Style::reset());
                    cell.set_style(style);
                }
            }
        }
        inset(inner)
    }

    /// Draws a panel over the existing content of an area. Returns the area inside.
    pub(crate) fn cover(&mut self, area: Rect, title: &Line<'_>) -> Rect {
        Clear.render(area, self.buffer);
        inset(self.panel(area, title, &Line::default()))
    }

    /// Draws a scrollbar into the right border of a panel, if there is more than what is visible.
    pub(crate) fn scrollbar(&mut self, panel: Rect, top: u64, visible: u64, total: u64) {
        let height = panel.height.saturating_sub(2);
        if total <= visible || height < 3 {
            return;
        }
        let rows = u64::from(height);
        let thumb = (u128::from(visible) * u128::from(rows) / u128::from(total)).clamp(1, u128::from(rows)) as u64;
        let last = u128::from(total - visible);
        let at =
            (u128::from(top) * u128::from(rows - thumb)).div_ceil(last.max(1)).min(u128::from(rows - thumb)) as u16;
        let (x, style) = (panel.right().saturating_sub(1), self.theme.style(Role::Accent));
        for row in 0..thumb as u16 {
            let sign = Line::from(Span::styled(self.theme.sign("┃", "#"), style));
            self.on_border(x, panel.y + 1 + at + row, &sign, 1);
        }
    }

    /// Draws a line, cut at `width`.
    pub(crate) fn put(&mut self, x: u16, y: u16, line: &Line<'_>, width: u16) {
        let area = self.area();
        if y < area.bottom() && x < area.right() {
            self.buffer.set_line(x, y, line, width.min(area.right() - x));
        }
    }

    /// Draws a line into row `at` of an area.
    pub(crate) fn line(&mut self, area: Rect, at: u16, line: &Line<'_>) {
        let row = row(area, at);
        if row.width > 0 {
            self.put(row.x, row.y, line, row.width);
        }
    }

    /// Draws a line at the right end of row `at`.
    pub(crate) fn line_right(&mut self, area: Rect, at: u16, line: &Line<'_>) {
        let row = row(area, at);
        let width = line.width().min(row.width.into()) as u16;
        if width > 0 {
            self.put(row.right() - width, row.y, line, width);
        }
    }

    /// Draws a label, and a value at the right edge of the row.
    pub(crate) fn labelled(&mut self, area: Rect, at: u16, label: &str, value: &Line<'_>) {
        let label = Span::styled(label.to_owned(), self.theme.style(Role::Dim));
        self.line(area, at, &Line::from(label));
        self.line_right(area, at, value);
    }

    /// Draws a sentence in the middle of an area, instead of its contents.
    pub(crate) fn note(&mut self, area: Rect, text: &str) {
        let text = Span::styled(text.to_owned(), self.theme.style(Role::Dim));
        let x = area.width.saturating_sub(text.width() as u16) / 2;
        let right = Rect { x: area.x + x, width: area.width - x, ..area };
        self.line(right, area.height / 2, &Line::from(text));
    }

    /// Says that the node has not sent something yet, or that it was not recorded.
    pub(crate) fn missing(&mut self, area: Rect, what: &str) {
        let text =
            if self.is_past { format!("not recorded at this time: {what}") } else { format!("waiting for {what}") };
        self.note(area, &text);
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

/// Removes one blank column on each side.
pub(crate) fn inset(area: Rect) -> Rect {
    let taken = 1.min(area.width / 2);
    Rect::new(area.x + taken, area.y, area.width - 2 * taken, area.height)
}

/// Returns row `at` of an area, or an empty area below its end.
pub(crate) fn row(area: Rect, at: u16) -> Rect {
    if at < area.height { Rect::new(area.x, area.y + at, area.width, 1) } else { Rect::ZERO }
}

/// Returns a bar of `cells`, filled to `share` of 1; `foreground` returns the style at each position.
pub(crate) fn bar(theme: Theme, cells: u16, share: f64, foreground: impl Fn(f64) -> Style) -> Vec<Span<'static>> {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let halves = (share * f64::from(cells) * 2.0).round() as u16;
    (0..cells)
        .map(|at| match halves.saturating_sub(at * 2) {
            0 => Span::styled(theme.track(), theme.style(Role::Dim)),
            filled => Span::styled(theme.bar_cell(filled > 1), foreground(f64::from(at) / f64::from(cells))),
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
