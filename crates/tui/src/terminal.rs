//! The terminal: taking it over, always restoring it, and one write per frame.

mod ansi;
mod background;
mod colors;
mod guard;
mod input;
mod keyboard;
mod output;
mod screen;
pub(crate) mod signals;

pub use colors::{Background, TerminalColors};
pub use guard::Guard;
pub use output::Output;
pub use screen::Screen;

pub(crate) use background::QUERY;
pub(crate) use guard::size;
pub(crate) use input::{Input, coalesce};
pub(crate) use keyboard::Keyboard;
