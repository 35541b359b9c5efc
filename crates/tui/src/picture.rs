//! Renders a screen as SVG, exactly and deterministically, without other tools: for the README and for tests.
//!
//! Each run of equally styled cells is one `<text>`. Blocks and braille are drawn as shapes, because fonts leave gaps
//! between them.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use crate::model::palette::of_index;

/// Size of a cell in pixels. At 14.95 px, a character of the font named below is exactly 9 px wide.
const CELL: (usize, usize) = (9, 17);
/// Distance from the top of a cell to the baseline, in pixels.
const BASE: usize = 13;
/// Message for writes that cannot fail.
const IN_MEMORY: &str = "writing to a string cannot fail";

/// Margin around the screen, in pixels.
const MARGIN: usize = 12;

/// Colours of a picture.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Background.
    pub background: &'static str,
    /// Default text colour.
    pub foreground: &'static str,
    /// Dimmed default text colour.
    pub dim: &'static str,
    /// Red, green, yellow, blue, magenta, cyan.
    pub colors: [&'static str; 6],
}

/// Light text on a dark background.
pub const DARK: Palette = Palette {
    background: "#0f1419",
    foreground: "#d5dae2",
    dim: "#66707f",
    colors: ["#f26d78", "#8fd16a", "#f2c063", "#5c9df5", "#c792ea", "#4fd1d9"],
};

/// Dark text on a light background.
pub const LIGHT: Palette = Palette {
    background: "#fbfbf8",
    foreground: "#2b303b",
    dim: "#9aa0aa",
    colors: ["#c4302b", "#3b8a26", "#a06a00", "#2a66c8", "#8b3fb3", "#0b7d86"],
};

impl Palette {
    /// Returns a colour as `#rrggbb`; `None` for the default.
    fn color(&self, color: Color) -> Option<String> {
        let at = match color {
            Color::Red | Color::LightRed => 0,
            Color::Green | Color::LightGreen => 1,
            Color::Yellow | Color::LightYellow => 2,
            Color::Blue | Color::LightBlue => 3,
            Color::Magenta | Color::LightMagenta => 4,
            Color::Cyan | Color::LightCyan => 5,
            Color::DarkGray => return Some(self.dim.to_owned()),
            Color::Indexed(index) => return Some(hex(of_index(index))),
            Color::Rgb(red, green, blue) => return Some(hex((red, green, blue))),
            _ => return None,
        };
        Some(self.colors[at].to_owned())
    }

    /// Returns the foreground and background of a cell, with dim and reverse applied.
    fn resolve(&self, cell: &Cell) -> (String, String) {
        let is_dim = cell.modifier.contains(Modifier::DIM);
        let foreground = match self.color(cell.fg) {
            Some(color) if is_dim => mix(&color, self.background),
            Some(color) => color,
            None if is_dim => self.dim.to_owned(),
            None => self.foreground.to_owned(),
        };
        let background = self.color(cell.bg).unwrap_or_else(|| self.background.to_owned());
        if cell.modifier.contains(Modifier::REVERSED) { (background, foreground) } else { (foreground, background) }
    }
}

fn hex((red, green, blue): (u8, u8, u8)) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Mixes two colours, given as `#rrggbb`, in equal parts.
fn mix(one: &str, other: &str) -> String {
    let part = |text: &str, at: usize| u16::from_str_radix(text.get(at..at + 2).unwrap_or("0"), 16).unwrap_or(0);
    let half = |at| part(one, at).midpoint(part(other, at));
    format!("#{:02x}{:02x}{:02x}", half(1), half(3), half(5))
}

/// Renders the screen as an SVG document.
pub fn svg(screen: &Buffer, palette: &Palette) -> String {
    let (wide, high) = CELL;
    let area = screen.area;
    let (width, height) = (usize::from(area.width) * wide + 2 * MARGIN, usize::from(area.height) * high + 2 * MARGIN);
    let mut out = format!(
        concat!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" "#,
            r#"font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="14.95px" xml:space="preserve">"#,
            "\n<rect width=\"{}\" height=\"{}\" rx=\"8\" fill=\"{}\"/>\n"
        ),
        width, height, width, height, palette.background
    );
    for (row, line) in screen.content().chunks(usize::from(area.width).max(1)).enumerate() {
        let (mut x, y) = (MARGIN, MARGIN + row * high);
        for run in line.chunk_by(|a, b| palette.resolve(a) == palette.resolve(b) && bold(a) == bold(b)) {
            draw_run(&mut out, run, palette, x, y);
            x += run.len() * wide;
        }
    }
    out + "</svg>\n"
}

fn bold(cell: &Cell) -> bool {
    cell.modifier.contains(Modifier::BOLD)
}

fn draw_run(out: &mut String, run: &[Cell], palette: &Palette, x: usize, y: usize) {
    let (wide, high) = CELL;
    let (foreground, background) = palette.resolve(&run[0]);
    if background != palette.background {
        rect(out, (x, y), (run.len() * wide, high), &background);
    }
    let mut text = String::new();
    for (at, cell) in run.iter().enumerate() {
        let c = cell.symbol().chars().next().unwrap_or(' ');
        if shape(out, c, x + at * wide, y, &foreground) {
            text.push(' ');
        } else {
            escape(&mut text, cell.symbol());
        }
    }
    if text.trim().is_empty() {
        return;
    }
    let kept = text.trim_end();
    let weight = if bold(&run[0]) { r#" font-weight="bold""# } else { "" };
    write!(out, r#"<text x="{x}" y="{}" fill="{foreground}"{weight}>{kept}</text>"#, y + BASE).expect(IN_MEMORY);
    out.push('\n');
}

fn rect(out: &mut String, (x, y): (usize, usize), (width, height): (usize, usize), fill: &str) {
    write!(out, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>"#).expect(IN_MEMORY);
    out.push('\n');
}

/// Draws a block or braille character. Returns false for any other character.
fn shape(out: &mut String, c: char, x: usize, y: usize, foreground: &str) -> bool {
    let (wide, high) = CELL;
    match c {
        '\u{2581}'..='\u{2588}' => {
            let eighths = (c as usize) - 0x2580;
            let height = (high * eighths).div_ceil(8);
            rect(out, (x, y + high - height), (wide, height), foreground);
        }
        '━' => rect(out, (x, y + 7), (wide, 4), foreground),
        '╸' => rect(out, (x, y + 7), (wide / 2, 4), foreground),
        '\u{2801}'..='\u{28ff}' => braille(out, c as usize - 0x2800, x, y, foreground),
        _ => return false,
    }
    true
}

/// Draws up to eight dots as one path.
fn braille(out: &mut String, bits: usize, x: usize, y: usize, foreground: &str) {
    const DOTS: [(usize, usize); 8] = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)];
    write!(out, r#"<path fill="{foreground}" d=""#).expect(IN_MEMORY);
    for (at, (column, row)) in DOTS.into_iter().enumerate() {
        if bits & (1 << at) != 0 {
            write!(out, "M{} {}h3v3h-3z", x + 1 + column * 4, y + 1 + row * 4).expect(IN_MEMORY);
        }
    }
    out.push_str("\"/>\n");
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
}
