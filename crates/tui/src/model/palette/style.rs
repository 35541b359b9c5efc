//! The style of each role of a text.

use super::color::{ColorDepth, Ink};

/// Role of a text on the screen, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
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

impl Role {
    /// All roles.
    pub const ALL: [Self; 14] = [
        Self::Text,
        Self::Strong,
        Self::Dim,
        Self::Border,
        Self::Title,
        Self::Accent,
        Self::Flow,
        Self::Delay,
        Self::Store,
        Self::Good,
        Self::Warn,
        Self::Bad,
        Self::Key,
        Self::Selected,
    ];

    /// Returns the name of the role in the config file.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Strong => "strong",
            Self::Dim => "dim",
            Self::Border => "border",
            Self::Title => "title",
            Self::Accent => "accent",
            Self::Flow => "flow",
            Self::Delay => "delay",
            Self::Store => "store",
            Self::Good => "good",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Key => "key",
            Self::Selected => "selected",
        }
    }
}

/// Style of a role. Without colours, the modifiers alone carry the meaning.
#[expect(clippy::struct_excessive_bools, reason = "each is a modifier of a terminal")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleStyle {
    /// Colour of the text.
    pub foreground: Ink,
    /// Colour behind the text.
    pub background: Ink,
    /// Bold.
    pub bold: bool,
    /// Dimmed.
    pub dim: bool,
    /// Underlined.
    pub underlined: bool,
    /// Foreground and background exchanged.
    pub reversed: bool,
}

impl RoleStyle {
    /// Creates a style of one colour.
    pub const fn of(foreground: Ink) -> Self {
        Self { foreground, background: Ink::Default, bold: false, dim: false, underlined: false, reversed: false }
    }

    /// Returns the style in bold.
    pub const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// Returns the style dimmed.
    pub const fn dim(self) -> Self {
        Self { dim: true, ..self }
    }

    /// Returns the style with foreground and background exchanged.
    pub const fn reversed(self) -> Self {
        Self { reversed: true, ..self }
    }

    /// Returns the style over a background.
    pub const fn on(self, background: Ink) -> Self {
        Self { background, ..self }
    }
}

/// A theme: the style of each role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    pub(super) styles: [RoleStyle; Role::ALL.len()],
}

impl Palette {
    /// Returns the style of a role.
    pub const fn style(&self, role: Role) -> RoleStyle {
        self.styles[role as usize]
    }

    /// Replaces the style of a role.
    pub const fn set(&mut self, role: Role, style: RoleStyle) {
        self.styles[role as usize] = style;
    }

    /// Returns the theme with the nearest colours that a terminal of this depth has.
    pub fn at_depth(mut self, depth: ColorDepth) -> Self {
        for style in &mut self.styles {
            style.foreground = style.foreground.at_depth(depth);
            style.background = style.background.at_depth(depth);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roles_stand_in_the_order_of_their_styles() {
        for (at, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(role as usize, at, "{role:?}");
        }
    }
}
