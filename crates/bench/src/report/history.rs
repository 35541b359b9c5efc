//! Results of earlier runs on this machine, kept in a small database file.
//!
//! ```text
//!   Document ──▶ Entry: recipe, medians, commit, date ──▶ redb file ──▶ newest last ──▶ one group per recipe
//! ```
//!
//! The file holds at most [`ENTRIES_MAX`] entries; the oldest are dropped first. Only one program can have it open;
//! others wait up to 2 s.

mod file;
mod text;

pub(crate) use file::STABLE_RATE;
pub use file::{ENTRIES_MAX, Entry, History, HistoryError};
pub use text::history_text;
