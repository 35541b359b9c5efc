//! Text that programs read from people and show to them: escaping, suggestions for mistyped names, durations and sizes,
//! and the query language of filters.
//!
//! External text is escaped before it reaches a log, a terminal or an error message:
//!
//! ```text
//!   guest, peer, file, command line ──▶ escaped(text) ──▶ log line, terminal, error
//! ```
//!
//! A terminal obeys control characters, and a log reader takes each line for one record. External text could therefore
//! move the cursor, hide the text next to it, or forge a whole line. Escaped text is a single line in which every
//! character is visible or a space.
//!
//! ```
//! use rusm_text::escaped;
//!
//! let reason = "done\n2026-11-24 INFO audit: allowed=true \u{1b}[2J";
//! assert_eq!(escaped(reason).to_string(), r"done\n2026-11-24 INFO audit: allowed=true \u{1b}[2J");
//! ```

mod escape;
mod file;
mod nearest;
mod quantity;
mod query;

pub use escape::{Escaped, Shortened, escape, escape_json_into, escaped, is_all_plain, is_plain};
pub use file::{open_regular, read_file, read_regular, write_file};
pub use nearest::{nearest, suggestion};
pub use quantity::{grouped, parse_duration, parse_size};
pub use query::{Comparison, QUERY_BYTES_MAX, Query, QueryCondition, QueryError, QueryWord, matches_glob, quoted};
