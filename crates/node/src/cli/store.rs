//! `rusm store`: the flags of its commands.

use std::path::PathBuf;

use clap::Subcommand;

/// A command on the file of a store that no node has open.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Verifies a store and prints a line for each bucket; writes nothing.
    ///
    /// Ends with 0, or with 5 when something is damaged.
    Check {
        /// The file of the store.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Writes every intact row to a new file, which takes the place of the old one; the old one is kept beside it.
    ///
    /// Prints what is lost. Ends with 0, or with 5 when rows are lost. A store that is intact is left as it is.
    Repair {
        /// The file of the store.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Writes the new file here, and leaves the old one where it is.
        #[arg(long, value_name = "NEW")]
        output: Option<PathBuf>,
    },
    /// Prints every intact row as a line of JSON, and what is damaged to stderr; writes nothing.
    ///
    /// A line has `bucket`, or `table` for a file that is no store, `key` and `value` as text, or `key_hex` and `value_hex` for
    /// bytes that are no text, and `expires_at_ms` if the row expires. Ends with 0, or with 5 when something is damaged.
    Export {
        /// The file of the store.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Prints JSON, which is the only format so far.
        #[arg(long)]
        json: bool,
    },
}
