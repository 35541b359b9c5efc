//! The terminal: taking it over, always restoring it, and one write per frame.

mod ansi;
mod background;
mod colors;
mod guard;
mod input;
mod output;
mod screen;
pub(crate) mod signals;

pub use colors::{Background, TerminalColors};
pub use guard::Guard;
pub use output::Output;
pub use screen::Screen;

pub(crate) use background::{BackgroundQuery, QUERY};
pub(crate) use guard::size;
pub(crate) use input::{coalesce, message};
