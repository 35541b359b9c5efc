//! Keys, clicks and sizes as the model sees them, free of any terminal library.

/// What was pressed, without its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyCode {
    /// A printable character; upper case stands for itself.
    Char(char),
    /// A function key.
    F(u8),
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// The tabulator.
    Tab,
    /// The tabulator with shift.
    BackTab,
    /// Delete to the left.
    Backspace,
    /// Delete to the right.
    Delete,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// First.
    Home,
    /// Last.
    End,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
}

/// One key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The key.
    pub code: KeyCode,
    /// Whether control was held.
    pub ctrl: bool,
}

impl Key {
    /// A key with no modifier.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false }
    }

    /// A printable character.
    pub const fn char(c: char) -> Self {
        Self::plain(KeyCode::Char(c))
    }

    /// A character with control held.
    pub const fn ctrl(c: char) -> Self {
        Self { code: KeyCode::Char(c), ctrl: true }
    }

    /// The key as the footer and the help write it.
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

/// What the mouse did, at which cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mouse {
    /// What happened.
    pub kind: MouseKind,
    /// Cells from the left.
    pub x: u16,
    /// Cells from the top.
    pub y: u16,
}

/// The kinds of mouse events that mean something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseKind {
    /// The left button went down.
    Click,
    /// The wheel turned this many notches; positive is down.
    Wheel(i32),
}

/// A terminal's size in cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

impl Size {
    /// A size of `width` columns and `height` rows.
    pub const fn new(width: u16, height: u16) -> Self {
        Self { width, height }
    }
}
