//! Encodes cells in as few bytes as possible.
//!
//! Writes the sixteen colours as `SGR 30–37` and `90–97` instead of `38;5;n`, short cursor moves, and no query that the terminal
//! would have to answer. Control characters in cells are never written.

use std::convert::Infallible;
use std::io::Write as _;

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

/// A backend that collects bytes and sends none.
#[derive(Debug)]
pub(crate) struct Ansi {
    size: Size,
    ascii: bool,
    /// Bytes to send before the frame: tmux drops what follows a clear inside a synchronized update.
    clear: Vec<u8>,
    cells: Vec<u8>,
    cursor: Option<Position>,
    cursor_shown: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CellStyle {
    foreground: Color,
    background: Color,
    modifier: Modifier,
}

const PLAIN: CellStyle = CellStyle { foreground: Color::Reset, background: Color::Reset, modifier: Modifier::empty() };

impl Ansi {
    pub(crate) fn new(size: Size, ascii: bool) -> Self {
        Self { size, ascii, clear: Vec::new(), cells: Vec::new(), cursor: None, cursor_shown: None }
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.size = size;
    }

    /// Takes the bytes to send before the frame, and the bytes of the frame.
    pub(crate) fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.clear), std::mem::take(&mut self.cells))
    }

    /// Forgets the cursor state, after another program has used the terminal.
    pub(crate) fn forget_cursor(&mut self) {
        self.cursor = None;
        self.cursor_shown = None;
    }

    fn write(&mut self, args: std::fmt::Arguments<'_>) {
        self.cells.write_fmt(args).expect("writing to a vector cannot fail");
    }

    fn move_cursor(&mut self, to: Position) {
        match self.cursor {
            Some(at) if at == to => {}
            Some(at) if at.y == to.y && to.x > at.x && to.x - at.x == 1 => self.cells.extend_from_slice(b"\x1b[C"),
            Some(at) if at.y == to.y && to.x > at.x => self.write(format_args!("\x1b[{}C", to.x - at.x)),
            _ if to.x == 0 => self.write(format_args!("\x1b[{}H", to.y + 1)),
            _ => self.write(format_args!("\x1b[{};{}H", to.y + 1, to.x + 1)),
        }
        self.cursor = Some(to);
    }

    fn write_style(&mut self, from: CellStyle, to: CellStyle) {
        if from == to {
            return;
        }
        let mut codes: Vec<u8> = Vec::with_capacity(16);
        let mut from = from;
        if from.modifier != to.modifier && !to.modifier.contains(from.modifier) {
            codes.push(0);
            from = PLAIN;
        }
        let added = to.modifier - from.modifier;
        for (flag, code) in MODIFIERS {
            if added.contains(flag) {
                codes.push(code);
            }
        }
        if from.foreground != to.foreground {
            push_color(&mut codes, to.foreground, 30);
        }
        if from.background != to.background {
            push_color(&mut codes, to.background, 40);
        }
        // An empty sequence would reset everything.
        if codes.is_empty() {
            return;
        }
        self.cells.extend_from_slice(b"\x1b[");
        for (at, code) in codes.iter().enumerate() {
            let separator = if at == 0 { "" } else { ";" };
            // An empty sequence resets as well.
            if *code == 0 && codes.len() == 1 {
                continue;
            }
            self.write(format_args!("{separator}{code}"));
        }
        self.cells.push(b'm');
    }

    fn print(&mut self, symbol: &str) -> u16 {
        let width = symbol.width().max(1) as u16;
        if symbol.chars().any(char::is_control) || (self.ascii && !symbol.is_ascii()) {
            self.cells.extend(std::iter::repeat_n(b'?', width.into()));
        } else {
            self.cells.extend_from_slice(symbol.as_bytes());
        }
        width
    }
}

const MODIFIERS: [(Modifier, u8); 6] = [
    (Modifier::BOLD, 1),
    (Modifier::DIM, 2),
    (Modifier::ITALIC, 3),
    (Modifier::UNDERLINED, 4),
    (Modifier::REVERSED, 7),
    (Modifier::CROSSED_OUT, 9),
];

/// Adds the SGR codes of a colour; `base` is 30 for the foreground and 40 for the background.
fn push_color(codes: &mut Vec<u8>, color: Color, base: u8) {
    let offset = match color {
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
        Color::Reset => 9,
        Color::Indexed(index) => return codes.extend([base + 8, 5, index]),
        Color::Rgb(red, green, blue) => return codes.extend([base + 8, 2, red, green, blue]),
    };
    codes.push(base + offset);
}

impl Backend for Ansi {
    type Error = Infallible;

    fn draw<'a, I>(&mut self, content: I) -> Result<(), Infallible>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut style = PLAIN;
        for (x, y, cell) in content {
            self.move_cursor(Position { x, y });
            let next = CellStyle { foreground: cell.fg, background: cell.bg, modifier: cell.modifier };
            self.write_style(style, next);
            style = next;
            let width = self.print(cell.symbol());
            // After a write to the last column, the cursor position depends on the terminal.
            self.cursor = Some(Position { x: x + width, y }).filter(|at| at.x < self.size.width);
        }
        self.write_style(style, PLAIN);
        Ok(())
    }

    fn hide_cursor(&mut self) -> Result<(), Infallible> {
        if self.cursor_shown != Some(false) {
            self.cells.extend_from_slice(b"\x1b[?25l");
            self.cursor_shown = Some(false);
        }
        Ok(())
    }

    fn show_cursor(&mut self) -> Result<(), Infallible> {
        if self.cursor_shown != Some(true) {
            self.cells.extend_from_slice(b"\x1b[?25h");
            self.cursor_shown = Some(true);
        }
        Ok(())
    }

    fn get_cursor_position(&mut self) -> Result<Position, Infallible> {
        Ok(self.cursor.unwrap_or_default())
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Infallible> {
        self.move_cursor(position.into());
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Infallible> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, _: ClearType) -> Result<(), Infallible> {
        self.clear = b"\x1b[m\x1b[2J".to_vec();
        self.cursor = None;
        Ok(())
    }

    fn size(&self) -> Result<Size, Infallible> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> Result<WindowSize, Infallible> {
        Ok(WindowSize { columns_rows: self.size, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
