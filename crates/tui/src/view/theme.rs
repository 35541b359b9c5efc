//! Styles of the roles, from the theme of the model, and the signs that a terminal can show.
//!
//! Without colours, bold, dim and reverse carry the meaning.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;

use crate::model::Capabilities;
use crate::model::palette::{Ink, Palette, RoleStyle};

pub(crate) use crate::model::palette::Role;

/// The sixteen colours by their number.
const SIXTEEN: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

/// Styles of the roles on this terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    capabilities: Capabilities,
    palette: Palette,
}

impl Theme {
    /// Returns the styles of the default theme.
    pub(crate) fn of(capabilities: Capabilities) -> Self {
        Self { capabilities, palette: Palette::default() }
    }

    /// Returns the styles of another theme.
    pub(crate) const fn with(self, palette: Palette) -> Self {
        Self { palette, ..self }
    }

    pub(crate) fn style(self, role: Role) -> Style {
        let RoleStyle { foreground, background, bold, dim, underlined, reversed } = self.palette.style(role);
        let flags = [
            (bold, Modifier::BOLD),
            (dim, Modifier::DIM),
            (underlined, Modifier::UNDERLINED),
            (reversed, Modifier::REVERSED),
        ];
        let set = flags.into_iter().filter(|(is_set, _)| *is_set);
        let style = set.fold(Style::new(), |style, (_, modifier)| style.add_modifier(modifier));
        let style = self.color(foreground).map_or(style, |color| style.fg(color));
        self.color(background).map_or(style, |color| style.bg(color))
    }

    /// Returns the colour of an ink; `None` for the terminal's own, and on a terminal without colours.
    fn color(self, ink: Ink) -> Option<Color> {
        match ink {
            _ if !self.capabilities.color => None,
            Ink::Default => None,
            Ink::Basic(index) => Some(SIXTEEN[usize::from(index % 16)]),
            Ink::Indexed(index) => Some(Color::Indexed(index)),
            Ink::Rgb(red, green, blue, _) => Some(Color::Rgb(red, green, blue)),
        }
    }

    /// Returns the colour of a gauge at a position from 0 to 1: green, then yellow, then red.
    pub(crate) fn heat(self, position: f64) -> Style {
        let role = match position {
            p if p < 0.6 => Role::Good,
            p if p < 0.85 => Role::Warn,
            _ => Role::Bad,
        };
        let color = self.color(self.palette.style(role).foreground);
        color.map_or_else(Style::new, |color| Style::new().fg(color))
    }

    pub(crate) const fn is_ascii(self) -> bool {
        self.capabilities.ascii
    }

    /// Returns `unicode` if the terminal can show it, else `ascii`.
    pub(crate) const fn sign(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.capabilities.ascii { ascii } else { unicode }
    }

    /// Returns the prefix for a millionth.
    pub(crate) const fn micro(self) -> &'static str {
        self.sign("µ", "u")
    }

    /// Returns the separator between two facts on one line.
    pub(crate) const fn dot(self) -> &'static str {
        self.sign("·", "-")
    }

    /// Returns a full or half cell of a horizontal bar. The lines are thinner than a cell, so that adjacent bars stay
    /// apart.
    pub(crate) const fn bar_cell(self, full: bool) -> &'static str {
        if full { self.sign("━", "#") } else { self.sign("╸", "=") }
    }

    /// Returns an empty cell of a bar.
    pub(crate) const fn track(self) -> &'static str {
        self.sign("─", ".")
    }

    /// Returns a column of a one-line chart, for a level from 0 to 8.
    pub(crate) fn spark(self, level: usize) -> &'static str {
        const UNICODE: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
        const ASCII: [&str; 9] = [" ", "_", ".", "-", ":", "=", "+", "*", "#"];
        let at = level.min(8);
        if self.capabilities.ascii { ASCII[at] } else { UNICODE[at] }
    }

    pub(crate) const fn borders(self) -> border::Set<'static> {
        const ASCII: border::Set = border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        };
        if self.capabilities.ascii { ASCII } else { border::ROUNDED }
    }
}
