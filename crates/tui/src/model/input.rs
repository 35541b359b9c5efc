//! Keys, mouse events and text fields, without a terminal library.

pub(crate) mod commands;
pub(crate) mod complete;
mod contexts;
pub mod key;
pub mod key_name;
pub mod keymap;
pub mod keys;
pub(crate) mod line_edit;
pub mod questions;
