//! The terminal: taking it over, always restoring it, and one write per frame.

mod ansi;
mod guard;
mod input;
mod screen;
pub(crate) mod signals;

pub use guard::Guard;
pub use screen::Screen;

pub(crate) use guard::size;
pub(crate) use input::{coalesce, message};
