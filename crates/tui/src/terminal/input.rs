//! Input of a terminal: keys, mouse events, pasted text, and the answer for its background.

mod decode;
mod event;
mod parser;
#[cfg(test)]
mod tests;

pub(crate) use event::{Input, coalesce};
pub(super) use parser::Parser;
