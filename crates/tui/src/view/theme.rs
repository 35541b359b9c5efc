//! Colours by role, and the signs that a terminal can show.
//!
//! Uses only the sixteen colours of the terminal's palette and its default foreground and background, so that dark and
//! light themes both stay readable. Without colours, bold, dim and reverse carry the meaning.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;

use crate::model::Capabilities;

/// Role of a text on the screen, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Ordinary values.
    Text,
    /// The most important values.
    Strong,
    /// Labels, zeroes, and text that is not urgent.
    Dim,
    /// Borders of panels.
    Border,
    /// Title of a panel.
    Title,
    /// The program's name, the active tab, the marker of a selection.
    Accent,
    /// Throughput over time.
    Flow,
    /// Latency.
    Delay,
    /// Memory.
    Store,
    /// Healthy state.
    Good,
    /// State that deserves attention.
    Warn,
    /// Failure.
    Bad,
    /// A key in the footer.
    Key,
    /// The selected row.
    Selected,
}

/// Styles of the roles on this terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    capabilities: Capabilities,
}

impl Theme {
    pub(crate) const fn of(capabilities: Capabilities) -> Self {
        Self { capabilities }
    }

    pub(crate) fn style(self, role: Role) -> Style {
        let plain = Style::new();
        let (color, style) = match role {
            Role::Text => (None, plain),
            Role::Strong | Role::Title => (None, plain.add_modifier(Modifier::BOLD)),
            Role::Dim | Role::Border => (None, plain.add_modifier(Modifier::DIM)),
            Role::Accent | Role::Key => (Some(Color::Cyan), plain.add_modifier(Modifier::BOLD)),
            Role::Flow => (Some(Color::Cyan), plain),
            Role::Delay => (Some(Color::Magenta), plain),
            Role::Store => (Some(Color::Blue), plain),
            Role::Good => (Some(Color::Green), plain),
            Role::Warn => (Some(Color::Yellow), plain.add_modifier(Modifier::BOLD)),
            Role::Bad => (Some(Color::Red), plain.add_modifier(Modifier::BOLD)),
            Role::Selected => (None, plain.add_modifier(Modifier::REVERSED)),
        };
        match color.filter(|_| self.capabilities.color) {
            Some(color) => style.fg(color),
            None => style,
        }
    }

    /// Returns the colour of a gauge at a position from 0 to 1: green, then yellow, then red.
    pub(crate) fn heat(self, position: f64) -> Style {
        let color = match position {
            p if p < 0.6 => Color::Green,
            p if p < 0.85 => Color::Yellow,
            _ => Color::Red,
        };
        if self.capabilities.color { Style::new().fg(color) } else { Style::new() }
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
