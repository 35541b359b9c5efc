//! Keys, clicks and sizes, independent of any terminal library: `terminal/input.rs` converts its events into these, so
//! that the model and its tests need no terminal.

/// A key without its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyCode {
    /// A printable character; upper case already includes shift.
    Char(char),
    /// A function key.
    F(u8),
    /// The Enter key.
    Enter,
    /// The Escape key.
    Esc,
    /// The Tab key.
    Tab,
    /// The Tab key with shift.
    BackTab,
    /// The Backspace key.
    Backspace,
    /// The Delete key.
    Delete,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// The Home key.
    Home,
    /// The End key.
    End,
    /// The Page Up key.
    PageUp,
    /// The Page Down key.
    PageDown,
}

/// One key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The key.
    pub code: KeyCode,
    /// True if Control was held.
    pub ctrl: bool,
}

impl Key {
    /// Creates a key without modifiers.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false }
    }

    /// Creates a key for a printable character.
    pub const fn char(c: char) -> Self {
        Self::plain(KeyCode::Char(c))
    }

    /// Creates a key for a character with Control held.
    pub const fn ctrl(c: char) -> Self {
        Self { code: KeyCode::Char(c), ctrl: true }
    }

    /// Returns the key as the footer and the help show it.
    pub fn text(self) -> String {
        match self.code {
            KeyCode::Char(' ') => "space".to_owned(),
            KeyCode::Char(c) if self.ctrl => format!("^{}", c.to_ascii_uppercase()),
            KeyCode::Char(c) => c.to_string(),
            KeyCode::F(n) => format!("F{n}"),
            KeyCode::Enter => "enter".to_owned(),
            KeyCode::Esc => "esc".to_owned(),
            KeyCode::Tab => "tab".to_owned(),
            KeyCode::BackTab => "S-tab".to_owned(),
            KeyCode::Backspace => "bksp".to_owned(),
            KeyCode::Delete => "del".to_owned(),
            KeyCode::Up => "up".to_owned(),
            KeyCode::Down => "down".to_owned(),
            KeyCode::Left => "left".to_owned(),
            KeyCode::Right => "right".to_owned(),
            KeyCode::Home => "home".to_owned(),
            KeyCode::End => "end".to_owned(),
            KeyCode::PageUp => "pgup".to_owned(),
            KeyCode::PageDown => "pgdn".to_owned(),
        }
    }
}

/// A mouse event at a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mouse {
    /// Kind of the event.
    pub kind: MouseKind,
    /// Column of the cell, from the left.
    pub x: u16,
    /// Row of the cell, from the top.
    pub y: u16,
}

/// Kinds of mouse events that have a meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseKind {
    /// The left button was pressed.
    Click,
    /// The mouse was moved with the left button down.
    Drag,
    /// The wheel was turned this many notches; positive is down.
    Wheel(i32),
}

/// Size of a terminal in cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Number of columns.
    pub width: u16,
    /// Number of rows.
    pub height: u16,
}

impl Size {
    /// Creates a size of `width` columns and `height` rows.
    pub const fn new(width: u16, height: u16) -> Self {
        Self { width, height }
    }

    /// Returns the part of a terminal that is drawn, at most 1,000 columns and 500 rows. A terminal may claim 65,535 of both,
    /// and each cell takes memory.
    pub(crate) const fn drawn(width: u16, height: u16) -> Self {
        const fn at_most(cells: u16, most: u16) -> u16 {
            if cells < most { cells } else { most }
        }
        Self { width: at_most(width, 1_000), height: at_most(height, 500) }
    }
}
