//! Themes: a style for each role of a text, as plain data.
//!
//! ```text
//!   built-in theme or [themes.NAME] of the config ──▶ Palette ──▶ at the terminal's colour depth ──▶ view::theme
//! ```
//!
//! No theme paints the background of the screen, except behind a selection.

mod color;
mod style;
mod themes;

pub use color::{ColorDepth, Ink, of_index};
pub use style::{Palette, Role, RoleStyle};
pub use themes::{BUILT_IN, DEFAULT_THEME, by_name, parse_style};
