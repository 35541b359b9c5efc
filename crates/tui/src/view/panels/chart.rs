//! A filled curve. In braille, a cell has two columns and four rows of dots; in ASCII, one column.

use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::model::format;
use crate::model::history::Series;
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Width of the axis labels, in cells.
const AXIS: u16 = 6;

/// Minimum time that the curve covers, in milliseconds.
const SPAN_MS: u64 = 60_000;

/// Draws a series over at least the last minute, with its axis.
pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, series: &Series) {
    let theme = painter.theme;
    if area.width <= AXIS + 2 || area.height == 0 {
        return;
    }
    let plot = Rect::new(area.x + AXIS, area.y, area.width - AXIS, area.height);
    let per_cell = if theme.is_ascii() { 1 } else { 2 };
    let columns = plot.width * per_cell;
    let values = series.buckets(bucket_ms(columns), columns.into());
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

/// Returns the time per column, so that the chart covers at least a minute.
fn bucket_ms(columns: u16) -> u64 {
    let least = SPAN_MS / u64::from(columns.max(1));
    [100, 200, 300, 500, 1000, 2000, 5000].into_iter().find(|&ms| ms >= least).unwrap_or(5000)
}

/// Returns the time that a chart in this area covers, as text.
pub(crate) fn span_text(area: Rect, theme: Theme) -> String {
    let columns = area.width.saturating_sub(AXIS) * if theme.is_ascii() { 1 } else { 2 };
    format!("{} s", bucket_ms(columns) * u64::from(columns) / 1000)
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

/// Returns a curve one row high, with one value per column of dots.
pub(crate) fn ribbon(theme: Theme, series: &Series, cells: u16, bucket_ms: u64, top: f64) -> String {
    if theme.is_ascii() {
        return painter::spark(theme, &series.buckets(2 * bucket_ms, cells.into()), top);
    }
    let values = series.buckets(bucket_ms, usize::from(cells) * 2);
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

    #[test]
    fn a_wide_chart_has_finer_columns() {
        assert_eq!(bucket_ms(264), 300);
        assert_eq!(bucket_ms(144), 500);
        assert_eq!(bucket_ms(600), 100);
    }
}
