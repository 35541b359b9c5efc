//! The terminal: taking it, giving it back whatever happens, and one write to it for each frame.

mod ansi;
mod guard;
mod input;
mod screen;

pub use guard::Guard;
pub use screen::Screen;

pub(crate) use guard::size;
pub(crate) use input::{coalesce, message};
