//! A filled curve. In braille, a cell has two columns and four rows of dots; in ASCII, one column.

use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::model::history::{Series, Window};
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Width of the axis labels, in cells.
const AXIS: u16 = 6;

/// Minimum height of a chart with a ruler of time, in rows.
const RULER_FROM: u16 = 5;

/// Minimum distance of two marks on the ruler, in cells.
const MARK_GAP: u16 = 12;

/// Draws a series over the selected window up to the instant on the screen, with its axis and a ruler of time.
pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model, series: &Series) {
    let theme = painter.theme;
    if area.width <= AXIS + 2 || area.height == 0 {
        return;
    }
    let ruler_height = u16::from(area.height >= RULER_FROM);
    let area = Rect { height: area.height - ruler_height, ..area };
    let plot = Rect::new(area.x + AXIS, area.y, area.width - AXIS, area.height);
    if ruler_height > 0 {
        ruler(painter, Rect { y: plot.y + plot.height, height: 1, ..plot }, model.window);
    }
    let per_cell = if theme.is_ascii() { 1 } else { 2 };
    let columns = plot.width * per_cell;
    let values = series.columns(model.chart_end_ms(), model.window.ms(), columns.into());
    let top = format::axis_top(values.iter().flatten().copied().fold(0.0, f64::max));
    axis(painter, area, top);
    for x in 0..plot.width {
        let column = |at: u16| values[usize::from(x * per_cell + at)].unwrap_or(0.0) / top;
        let (left, right) = (column(0), column(per_cell - 1));
        for y in 0..plot.height {
            let below = f64::from(plot.height - 1 - y);
            let fill = |share: f64| (share * f64::from(plot.height) - below).clamp(0.0, 1.0);
            let symbol = if theme.is_ascii() { ascii(fill(left)) } else { braille(fill(left), fill(right)) };
            let is_edge = left.max(right) * f64::from(plot.height) - below <= 1.0;
            let style = theme.style(Role::Flow);
            let style = if is_edge { style } else { style.add_modifier(Modifier::DIM) };
            if let (Some(symbol), Some(cell)) = (symbol, painter.buffer.cell_mut((plot.x + x, plot.y + y))) {
                cell.set_char(symbol).set_style(style);
            }
        }
    }
}

/// Draws the time before the right end, at whole parts of the window.
fn ruler(painter: &mut Painter<'_>, row: Rect, window: Window) {
    let seconds = window.ms() / 1000;
    let fits = |parts: &&u64| u64::from(row.width) / **parts >= u64::from(MARK_GAP);
    // Parts of whole minutes, or of whole tens of seconds.
    let parts: &[u64] = match window {
        Window::Minute => &[6, 4, 3, 2],
        Window::Five => &[5, 1],
        Window::Ten => &[10, 5, 2],
    };
    let parts = *parts.iter().find(fits).unwrap_or(&1);
    let style = painter.theme.style(Role::Dim);
    for part in 0..=parts {
        let text = match (part == parts, seconds * (parts - part) / parts) {
            (true, _) => "now".to_owned(),
            (_, ago) if ago % 60 == 0 => format!("-{} min", ago / 60),
            (_, ago) => format!("-{ago} s"),
        };
        // The mark stands at the left of its text, and that of the right end is inside the row.
        let at = (u64::from(row.width) * part / parts) as u16;
        let at = at.min(row.width.saturating_sub(painter::width(&text)));
        painter.put(row.x + at, row.y, &Line::from(Span::styled(text, style)), row.width - at);
    }
}

fn axis(painter: &mut Painter<'_>, area: Rect, top: f64) {
    let theme = painter.theme;
    let mut labels = vec![(0, top), (area.height - 1, 0.0)];
    if area.height >= 7 {
        labels.push((area.height / 2, top / 2.0));
    }
    for (at, value) in labels {
        let text = format!("{:>5} ", format::short(value));
        let label = Span::styled(text, theme.style(Role::Dim));
        painter.line(Rect { width: AXIS, ..area }, at, &Line::from(label));
    }
}

/// Returns a curve one row high up to an uptime, with one value per column of dots.
pub(crate) fn ribbon(theme: Theme, series: &Series, end_ms: u64, cells: u16, bucket_ms: u64, top: f64) -> String {
    let (window_ms, cells) = (2 * bucket_ms * u64::from(cells), usize::from(cells));
    if theme.is_ascii() {
        return painter::spark(theme, &series.columns(end_ms, window_ms, cells), top);
    }
    let values = series.columns(end_ms, window_ms, cells * 2);
    let share = |value: Option<f64>| value.map_or(0.0, |value| (value / top).clamp(0.1, 1.0));
    values.chunks(2).map(|pair| braille(share(pair[0]), share(pair[1])).unwrap_or(' ')).collect()
}

/// Returns the braille character with its two columns filled from below to these shares.
fn braille(left: f64, right: f64) -> Option<char> {
    const LEFT: [u32; 5] = [0, 0x40, 0x44, 0x46, 0x47];
    const RIGHT: [u32; 5] = [0, 0x80, 0xa0, 0xb0, 0xb8];
    let dots = |share: f64| (share * 4.0).ceil() as usize;
    let bits = LEFT[dots(left).min(4)] | RIGHT[dots(right).min(4)];
    if bits == 0 { None } else { char::from_u32(0x2800 + bits) }
}

fn ascii(fill: f64) -> Option<char> {
    match fill {
        f if f <= 0.0 => None,
        f if f < 0.34 => Some('.'),
        f if f < 0.67 => Some(':'),
        _ => Some('|'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_fills_from_below() {
        let cells = [(0.0, 0.0), (0.25, 0.0), (1.0, 1.0), (0.0, 0.5)].map(|(l, r)| braille(l, r));

        assert_eq!(cells, [None, Some('⡀'), Some('⣿'), Some('⢠')]);
    }
}
