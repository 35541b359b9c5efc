//! Draws numbers three rows high with heavy box-drawing lines.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::view::painter::{self, Painter};

/// Draws `text` and returns its width in cells.
pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, text: &str, style: Style) -> u16 {
    let mut rows = [String::new(), String::new(), String::new()];
    for c in text.chars() {
        for (row, part) in rows.iter_mut().zip(glyph(c)) {
            row.push_str(part);
        }
    }
    let taken = painter::width(&rows[0]);
    for (at, row) in rows.into_iter().enumerate() {
        painter.line(area, at as u16, &Line::from(Span::styled(row, style)));
    }
    taken
}

const fn glyph(c: char) -> [&'static str; 3] {
    match c {
        '0' => ["┏━┓ ", "┃ ┃ ", "┗━┛ "],
        '1' => [" ┓  ", " ┃  ", " ┻  "],
        '2' => ["┏━┓ ", "┏━┛ ", "┗━━ "],
        '3' => ["┏━┓ ", " ━┫ ", "┗━┛ "],
        '4' => ["╻ ╻ ", "┗━┫ ", "  ╹ "],
        '5' => ["┏━━ ", "┗━┓ ", "┗━┛ "],
        '6' => ["┏━┓ ", "┣━┓ ", "┗━┛ "],
        '7' => ["━━┓ ", "  ┃ ", "  ╹ "],
        '8' => ["┏━┓ ", "┣━┫ ", "┗━┛ "],
        '9' => ["┏━┓ ", "┗━┫ ", "┗━┛ "],
        '.' => ["  ", "  ", "▪ "],
        'k' => ["╻   ", "┃┏╸ ", "╹┗╸ "],
        'M' => ["┏┳┓ ", "┃┃┃ ", "╹ ╹ "],
        'G' => ["┏━╸ ", "┃━┓ ", "┗━┛ "],
        '-' => ["    ", "━━  ", "    "],
        _ => ["  ", "  ", "  "],
    }
}
